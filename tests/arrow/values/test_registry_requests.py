"""Requests to a schema registry: which are retried, and where credentials are seen."""

from __future__ import annotations

import base64
import json
import pickle
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http import HTTPStatus
from pathlib import Path

import pytest

from pyspark_commitlog.arrow.values import registry_requests
from pyspark_commitlog.arrow.values.registry_requests import split_credentials, without_secrets
from pyspark_commitlog.arrow.values.schema_stores import SchemaRegistry, SchemaRegistryError
from pyspark_commitlog.storage import InvalidConfigError, LogStoreError

SCHEMA = '{"type": "string"}'


def answer(status: int, body: str = "{}", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{lines}\r\n{body}".encode()


GOOD = answer(200, json.dumps({"schema": SCHEMA, "id": 5}))


def request(connection: socket.socket) -> str:
    """Reads a whole request, and its body if it has one."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += connection.recv(9999)
    length = re.search(rb"(?i)content-length: (\d+)", data)
    while length and len(data) < end + 4 + int(length[1]):
        data += connection.recv(9999)
    return data.decode()


@contextmanager
def server(answers: list[bytes], host: str = "127.0.0.1") -> Iterator[tuple[str, list[str]]]:
    """Runs a server that sends each answer once, and the last one repeatedly; yields its address and the requests."""
    asked: list[str] = []
    with socket.create_server((host, 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    asked.append(request(connection))
                    connection.sendall(answers[min(len(asked), len(answers)) - 1])

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://{host}:{listening.getsockname()[1]}", asked
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_requests, "_FIRST_PAUSE_S", 0.001)


def basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()


PASSING = {
    **{str(status): answer(status) for status in (408, 429, 500, 501, 502, 503, 504, 529)},
    "429 for a while": answer(429, Retry_After="0"),
    "503 until a date": answer(503, Retry_After=format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)),
    "503 for what nobody knows": answer(503, Retry_After="a while"),
    "a connection that ends": b"",
    "no HTTP": b"hello\r\n",
    "a status line cut short": b"HTTP/1.1 2",
    "headers cut short": GOOD[:30],
    "a body cut short": GOOD[:-9],
    "a chunk cut short": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{",
    "a chunk of no length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    "a line beyond all length": b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000,
}


class TestTries:
    @pytest.mark.parametrize("first", PASSING.values(), ids=PASSING)
    def test_temporary_failure_is_retried(self, first: bytes) -> None:
        with server([first, first, GOOD]) as (url, asked):
            assert SchemaRegistry(url).schema(1) == SCHEMA
        assert len(asked) == 3

    @pytest.mark.parametrize("first", PASSING.values(), ids=PASSING)
    def test_permanent_failure_is_an_error_with_the_number_of_tries(self, first: bytes) -> None:
        with (
            server([first]) as (url, asked),
            pytest.raises(LogStoreError, match=r"(?s)to /schemas/ids/1.*\(\d+ tries") as told,
        ):
            SchemaRegistry(url, timeout_s=0.1).schema(1)
        assert isinstance(told.value, SchemaRegistryError)
        assert len(asked) > 1

    def test_schema_is_registered_although_the_first_try_fails(self) -> None:
        with server([answer(503), GOOD]) as (url, asked):
            assert SchemaRegistry(url, register=True).id_of("s", SCHEMA) == 5
        assert [request.split(" ")[0] for request in asked] == ["POST", "POST"]
        assert all(request.endswith(json.dumps({"schema": SCHEMA})) for request in asked)

    @pytest.mark.parametrize("status", [400, 401, 403, 405, 409, 422])
    def test_refusal_is_final(self, status: int) -> None:
        told = f"answered {status} to /schemas/ids/1: "
        with server([answer(status), GOOD]) as (url, asked), pytest.raises(SchemaRegistryError, match=told):
            SchemaRegistry(url).schema(1)
        assert len(asked) == 1

    def test_missing_schema_is_final(self) -> None:
        with server([answer(404), GOOD]) as (url, asked):
            assert SchemaRegistry(url).schema(1) is None
        assert len(asked) == 1

    def test_pause_longer_than_the_timeout_is_not_begun(self) -> None:
        answers = [answer(429, Retry_After="3600"), GOOD]
        with server(answers) as (url, asked), pytest.raises(SchemaRegistryError, match="answered 429"):
            SchemaRegistry(url).schema(1)
        assert len(asked) == 1

    def test_pause_requested_by_the_server_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slept: list[float] = []
        monkeypatch.setattr("time.sleep", slept.append)
        later = format_datetime(datetime.now(UTC) + timedelta(seconds=8), usegmt=True)
        with server([answer(503, Retry_After="7"), answer(503, Retry_After=later), GOOD]) as (url, _):
            assert SchemaRegistry(url).schema(1) == SCHEMA
        assert slept[0] == 7
        assert 5 < slept[1] <= 8

    @pytest.mark.parametrize(
        ("body", "told"),
        [
            pytest.param("<html>", "did not answer to /schemas/ids/1 with JSON: <html>", id="no JSON"),
            pytest.param("[" * 100_000, "with JSON", id="JSON beyond all depth"),
            pytest.param("[]", r"answered .* with \[\]", id="no object"),
            pytest.param('{"schema": 1}', "returned no schema", id="no text"),
        ],
    )
    def test_senseless_answer_is_an_error_of_ours(self, body: str, told: str) -> None:
        with server([answer(200, body)]) as (url, _), pytest.raises(SchemaRegistryError, match=told):
            SchemaRegistry(url).schema(1)

    def test_huge_answer_is_not_read_to_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry_requests, "_BODY_BYTES_MAX", 10)
        with server([GOOD]) as (url, _), pytest.raises(SchemaRegistryError, match="more than 10 bytes"):
            SchemaRegistry(url, timeout_s=0.05).schema(1)


ADDRESSES = {
    "user and password": ("http://u:p@HOST", "u:p"),
    "percent-encoded": ("http://u%40x:p%40s%2Fs%3A%25@HOST", "u@x:p@s/s:%"),
    "a colon in the password": ("http://u:p:q@HOST", "u:p:q"),
    "an at sign as it is": ("http://u:p@q@HOST", "u:p@q"),
    "a user only": ("http://u@HOST", "u:"),
    "a password only": ("http://:p@HOST", ":p"),
    "letters beyond ASCII": ("http://ü:p%C3%A9@HOST", "ü:pé"),
}
WRONG = {
    "another protocol": "htp://u:topsecret@h:1",
    "a file": "file:///topsecret@/etc/passwd",
    "no protocol": "u:topsecret@h:1",
    "nothing before the host": "//u:topsecret@h:1",
    "no host": "http://u:topsecret@",
    "a slash in the password": "http://u:top/secret@h:1",
    "a slash after digits": "http://u:1/topsecret@h:1",
    "an invalid port": "http://u:topsecret@h:port",
    "a question": "http://u:topsecret@h:1/?a=b",
    "a blank": "http://u:topsecret@h :1",
    "a line break": "http://u:topsecret@h:1/\r\nx: y",
}


class TestCredentials:
    @pytest.mark.parametrize(("url", "pair"), ADDRESSES.values(), ids=ADDRESSES)
    def test_address_with_user_and_password_is_basic_authorization(self, url: str, pair: str) -> None:
        with server([GOOD]) as (at, asked):
            registry = SchemaRegistry(url.replace("HOST", at.removeprefix("http://")))
            assert registry.schema(1) == SCHEMA
        assert f"\r\nAuthorization: {basic(pair)}\r\n" in asked[0]
        assert registry.url == at

    @pytest.mark.parametrize("url", ["http://h", "https://h:8081/a/b/", "http://[::1]:8081", "HTTP://h/"])
    def test_address_without_credentials_is_not_changed(self, url: str) -> None:
        assert split_credentials(url) == (url, ())

    @pytest.mark.parametrize("url", WRONG.values(), ids=WRONG)
    def test_invalid_address_is_refused_without_showing_its_password(self, url: str) -> None:
        with pytest.raises(InvalidConfigError, match="begins with http") as told:
            SchemaRegistry(url)
        assert "secret" not in str(told.value)

    def test_credentials_are_in_no_message_and_no_repr_but_reach_a_worker(self) -> None:
        echo = answer(403, f"who is {basic('u:topsecret')}, {basic('u:topsecret')[6:]}, u:topsecret or s3cr3t-token?")
        headers = (("X-Token", "s3cr3t-token"),)
        with server([echo]) as (url, asked):
            registry = pickle.loads(
                pickle.dumps(SchemaRegistry(url.replace("://", "://u:topsecret@"), headers=headers))
            )
            with pytest.raises(SchemaRegistryError) as told:
                registry.schema(1)
        assert f"{basic('u:topsecret')}\r\n" in asked[0]
        assert "X-Token: s3cr3t-token\r\n" in asked[0]
        for text in (str(told.value), repr(registry), str(registry)):
            assert not [each for each in ("secret", basic("u:topsecret")[6:], "s3cr3t") if each in text]

    def test_headers_file_is_read_by_the_worker_and_is_in_no_plan(self, tmp_path: Path) -> None:
        file = tmp_path / "headers"
        with server([GOOD]) as (url, asked):
            registry = SchemaRegistry(url, headers_file=str(file))
            file.write_text("Authorization: Bearer first\n\nX-Tenant:  a b \n")
            pickled = pickle.dumps(registry)
            registry.schema(1)
            file.write_text("Authorization: Bearer second\n")
            pickle.loads(pickled).schema(1)
        assert "Authorization: Bearer first\r\nX-Tenant: a b\r\n" in asked[0]
        assert "Authorization: Bearer second\r\n" in asked[1]
        assert b"Bearer" not in pickled

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (None, "No such file"),
            (b"\xff", "not UTF-8"),
            (b"a secret b: c", "the name of a header"),
            (b"a: \0secret", "of header a"),
        ],
    )
    def test_invalid_headers_file_is_named_without_its_content(
        self, tmp_path: Path, content: bytes | None, why: str
    ) -> None:
        file = tmp_path / "headers"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(InvalidConfigError, match=why) as told:
            SchemaRegistry("http://127.0.0.1:1", headers_file=str(file)).schema(1)
        assert str(file) in str(told.value)
        assert "secret" not in str(told.value)

    @pytest.mark.parametrize("value", ["secret\r\nX: y", "secret\0", "secret€"])
    def test_header_that_http_forbids_is_refused_without_showing_its_value(self, value: str) -> None:
        with pytest.raises(InvalidConfigError, match="Authorization") as told:
            SchemaRegistry("http://h", headers=(("Authorization", value),))
        assert "secret" not in str(told.value)

    def test_credentials_given_twice_are_refused(self) -> None:
        with pytest.raises(InvalidConfigError, match="both its address and its headers") as told:
            SchemaRegistry("http://u:secret@h", headers=(("authorization", "Bearer secret"),))
        assert "secret" not in str(told.value)

    def test_proxys_password_is_in_no_message(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for proxy in ("http:u:secret@proxy", "http://u:secret@proxy:secret", "http://u:secret@127.0.0.1:1"):
            monkeypatch.setenv("http_proxy", proxy)
            with pytest.raises(SchemaRegistryError) as told:
                SchemaRegistry("http://h", timeout_s=0.05).schema(1)
            assert "secret" not in str(told.value)

    def test_registry_is_reached_through_the_environments_proxy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with server([GOOD]) as (url, asked):
            monkeypatch.setenv("http_proxy", url.replace("://", "://u:p@"))
            assert SchemaRegistry("http://registry.example:8081/").schema(1) == SCHEMA
        assert asked[0].startswith("GET http://registry.example:8081/schemas/ids/1 ")
        assert f"Proxy-Authorization: {basic('u:p')}\r\n" in asked[0]

    def test_only_what_is_secret_is_hidden(self) -> None:
        assert without_secrets("a Basic b", (("A", "Basic"), ("B", ""))) == "a *** b"


HEADERS = (("Authorization", "Bearer secret"), ("X-Api-Key", "secret"))


def to(url: str, status: int = 302) -> bytes:
    return answer(status, Location=url)


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_credentials_stay_with_their_host(self, status: int) -> None:
        with server([GOOD], host="127.0.0.2") as (other, seen), server([to(f"{other}/x", status)]) as (url, asked):
            assert SchemaRegistry(url, headers=HEADERS).schema(1) == SCHEMA
        assert "secret" in asked[0]
        assert "secret" not in seen[0]
        assert seen[0].startswith("GET /x ")
        assert "Accept: application/vnd.schemaregistry" in seen[0]

    def test_credentials_stay_with_their_port(self) -> None:
        with server([GOOD]) as (other, seen), server([to(f"{other}/x")]) as (url, _):
            assert SchemaRegistry(url, headers=HEADERS).schema(1) == SCHEMA
        assert "secret" not in seen[0]

    def test_credentials_do_not_come_back_by_a_second_redirect(self) -> None:
        there_and_back = [b"", GOOD]
        with server(there_and_back) as (url, asked), server([to(f"{url}/back")], host="127.0.0.2") as (other, _):
            there_and_back[0] = to(other)
            assert SchemaRegistry(url, headers=HEADERS).schema(1) == SCHEMA
        assert [request.count("secret") for request in asked] == [2, 0]

    @pytest.mark.parametrize("target", ["/elsewhere", "elsewhere"])
    def test_credentials_follow_on_the_same_host(self, target: str) -> None:
        with server([to(target), GOOD]) as (url, asked):
            assert SchemaRegistry(url, headers=HEADERS).schema(1) == SCHEMA
        assert [request.count("secret") for request in asked] == [2, 2]

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_redirected_registration_stays_a_post(self, status: int) -> None:
        with server([to("/elsewhere", status), GOOD]) as (url, asked):
            assert SchemaRegistry(url, register=True).id_of("s", SCHEMA) == 5
        assert asked[1].startswith("POST /elsewhere ")
        assert asked[1].endswith(json.dumps({"schema": SCHEMA}))

    def test_refusal_elsewhere_names_the_other_host(self) -> None:
        with server([answer(401)], host="127.0.0.2") as (other, _), server([to(other)]) as (url, _):
            told = f"answered {HTTPStatus.UNAUTHORIZED.value} .*redirected to {other}, which gets no credentials"
            with pytest.raises(SchemaRegistryError, match=told):
                SchemaRegistry(url, headers=HEADERS).schema(1)

    @pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://u:secret@127.0.0.1:1/"])
    def test_other_addresses_are_not_followed(self, target: str) -> None:
        with server([to(target)]) as (url, asked), pytest.raises(SchemaRegistryError, match="answered 302") as told:
            SchemaRegistry(url, headers=HEADERS).schema(1)
        assert "secret" not in str(told.value)
        assert len(asked) == 1

    def test_circular_redirect_ends(self) -> None:
        with server([to("/again")]) as (url, _), pytest.raises(SchemaRegistryError, match="answered 302"):
            SchemaRegistry(url).schema(1)
