"""How often and how long requests are repeated: what the environment sets, seen by a server that counts or waits."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Event, Thread

import pytest

from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.stores import remote
from pyspark_commitlog.storage.bucket.stores.patience import (
    DELIVERY_TIMEOUT,
    RETRIES,
    Attempts,
    Patience,
    retries_of_process,
)
from pyspark_commitlog.storage.bucket.stores.remote import open_store
from pyspark_commitlog.storage.errors import InvalidConfigError, ObjectStoreError
from tests.support.clock import ManualClock
from tests.support.stores.memory_store import MemoryStore

URL = "s3://logs/test"


class Server(ThreadingHTTPServer):
    """Answers every request by ``status``, once ``may_answer`` is set."""

    daemon_threads = True

    def __init__(self, status: int) -> None:
        self.status, self.requests, self.may_answer = status, 0, Event()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        self.server.requests += 1
        self.server.may_answer.wait(25)  # a client waits for 30 s by default
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(request.param) as found:
        Thread(target=found.serve_forever, args=(0.05,), daemon=True).start()
        monkeypatch.setattr(remote, "_CLIENTS", remote._Clients())
        settings = {
            "ENDPOINT_URL": f"http://127.0.0.1:{found.server_port}",
            "ALLOW_HTTP": "true",
            "REGION": "us-east-1",
        }
        for name, value in {**settings, "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        yield found
        found.may_answer.set()
        found.shutdown()


@pytest.mark.parametrize("server", [503], indirect=True)
@pytest.mark.parametrize("retries", [0, 2])
def test_a_request_is_repeated_as_often_as_the_environment_says(
    server: Server, retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RETRIES, str(retries))
    server.may_answer.set()
    with pytest.raises(ObjectStoreError, match="503"):
        open_store(URL).head("a")
    assert server.requests == 1 + retries


@pytest.mark.parametrize("server", [404], indirect=True)
def test_a_request_is_given_up_after_the_clients_own_setting(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RETRIES, "0")
    monkeypatch.setenv("AWS_TIMEOUT", "200ms")
    with pytest.raises(ObjectStoreError, match="Timeout"):
        open_store(URL).head("a")


def test_a_log_gives_up_after_the_time_that_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DELIVERY_TIMEOUT, "1")

    class Down(MemoryStore):
        def get(self, key: str, *, limit: int) -> bytes:
            raise ObjectStoreError("down")

    with pytest.raises(ObjectStoreError, match="down"):
        open_root("", store=Down())


@pytest.mark.parametrize("moved_ms", [-3_600_000, 3_600_000])
def test_a_deadline_stays_where_it_is_when_the_wall_clock_is_set(moved_ms: int) -> None:
    clock = ManualClock()
    attempts = Attempts(Patience(deadline_ms=1000), clock, Random(1))
    clock.set(clock.now_ms() + moved_ms)
    assert not attempts.are_over()
    clock.advance(999)
    assert not attempts.are_over()
    clock.advance(1)
    assert attempts.are_over()


def test_the_first_failure_is_logged_so_that_nobody_waits_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts(Patience(deadline_ms=60_000), ManualClock(), Random(1))
    for reason in ("Connect", "Timeout"):
        assert attempts.wait(ObjectStoreError(f"s3://logs/test/a: {reason}"))
    assert caplog.messages == ["s3://logs/test/a: Connect; trying again, for up to 60000 ms"]


def test_without_settings_a_request_is_repeated_three_times_and_a_commit_tried_for_two_minutes() -> None:
    assert (Patience.of_process().deadline_ms, retries_of_process()) == (120_000, 3)


@pytest.mark.parametrize("value", ["", "-1", "1.5", "two", "\u0663", "3000000000"])
def test_a_wrong_setting_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (RETRIES, DELIVERY_TIMEOUT):
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidConfigError, match=f"{RETRIES} = {value!r} in the environment"):
        open_store(URL).head("a")
    with pytest.raises(InvalidConfigError, match=f"{DELIVERY_TIMEOUT} = {value!r} in the environment"):
        open_root("", store=MemoryStore())


def test_no_time_at_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DELIVERY_TIMEOUT, "0")
    with pytest.raises(InvalidConfigError, match="from 1 to"):
        Patience.of_process()
