"""The page beside clients that send no request, or do not take what they asked for."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme

from pyspark_commitlog.browse import server
from pyspark_commitlog.browse.config import BrowseConfig
from pyspark_commitlog.browse.server import BrowseServer, Taking
from pyspark_commitlog.storage import Address
from tests.support.browse import HOSTILE, Visitor

TOKEN = "a token of forty characters, as it were.."
BEARER = f"Bearer {TOKEN}"
HALF = b"GET / HTTP/1.1\r\nHost: 127."
FORM = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken="


@pytest.fixture
def served(log_dir: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrowseServer]:
    monkeypatch.setattr(server, "REQUEST_S", 1.0)  # a client that is slow for a moment sends its request in time
    monkeypatch.setattr(server, "TAKEN_S", 0.2)
    monkeypatch.setattr("pyspark_commitlog.browse.access.FORM_S", 0.2)
    with BrowseServer(BrowseConfig(log_dir, Address("127.0.0.1", 0), token=TOKEN)) as found:
        yield found


def read_to_the_end(connection: socket.socket) -> bytes:
    found = b""
    try:
        while part := connection.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        pytest.param(b"", b"", id="nothing"),
        pytest.param(HALF, b"", id="half of a request"),
        pytest.param(FORM, b"HTTP/1.1 408 ", id="half of a form"),
    ],
)
def test_a_connection_that_sends_no_whole_request_ends(served: BrowseServer, sent: bytes, received: bytes) -> None:
    with socket.create_connection(served.address, timeout=20) as connection:
        connection.sendall(sent)
        assert read_to_the_end(connection)[: len(received) or None] == received


def test_a_connection_that_sends_half_of_its_next_request_ends(served: BrowseServer) -> None:
    connection = http.client.HTTPConnection(*served.address, timeout=20)
    connection.request("GET", "/login")
    assert connection.getresponse().read()
    connection.sock.sendall(HALF)
    assert read_to_the_end(connection.sock) == b""
    connection.close()


def test_connections_that_send_nothing_hold_up_the_page_only_for_a_while(served: BrowseServer) -> None:
    with ExitStack() as idle:
        for _ in range(server.CONNECTIONS_MAX):
            idle.enter_context(socket.create_connection(served.address, timeout=20))
        until = time.monotonic() + 20
        while Visitor(served.address).get("/login").status == 503:
            assert time.monotonic() < until


def test_a_connection_that_does_not_take_its_answer_ends(served: BrowseServer) -> None:
    large = list(HOSTILE).index("ten megabytes")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.settimeout(20)
        connection.connect(served.address)
        lines = (f"GET /topics/hostile/0/records/{large}/value HTTP/1.1", "Host: localhost", f"Authorization: {BEARER}")
        connection.sendall("\r\n".join((*lines, "", "")).encode())
        assert connection.recv(12) == b"HTTP/1.1 200"
        until = time.monotonic() + 20
        while served._server.server_state.connections:
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_connection_over_tls_ends_neither_before_nor_within_an_answer(
    log_dir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TAKEN_S", 0.2)
    authority, keystore, context = trustme.CA(), tmp_path / "server.pem", ssl.create_default_context()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(keystore)
    authority.configure_trust(context)
    large = list(HOSTILE).index("ten megabytes")
    paths = {"/login": 500, f"/topics/hostile/0/records/{large}/value": 10_000_000}
    with BrowseServer(BrowseConfig(log_dir, Address("127.0.0.1", 0), token=TOKEN, keystore=str(keystore))) as served:
        connection = http.client.HTTPSConnection(*served.address, timeout=20, context=context)
        for path, size in [*paths.items()] * 3:
            connection.request("GET", path, headers={"Authorization": BEARER})
            assert len(connection.getresponse().read()) > size
            time.sleep(0.5)  # longer than an answer may wait
        connection.close()


class Waiting:
    """A transport with an answer of which some bytes wait at each check, and the loop that checks."""

    def __init__(self, *sizes: int) -> None:
        self._sizes, self.is_aborted = [*sizes], False

    def get_write_buffer_size(self) -> int:
        return self._sizes[0]

    def call_later(self, _: float, check: Callable[[int], None], waited: int) -> None:
        if len(self._sizes) > 1:
            del self._sizes[0]
            check(waited)

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize(
    ("sizes", "ends"),
    [
        pytest.param((10 << 20, 9 << 20, 8 << 20, 7 << 20), False, id="it takes a large answer slowly"),
        pytest.param((10 << 20, 9 << 20, 9 << 20), True, id="it takes nothing more"),
        pytest.param((10 << 20, (10 << 20) - 1), True, id="it takes next to nothing"),
        pytest.param((10, 1), True, id="it leaves the last byte"),
    ],
)
def test_an_answer_may_take_as_long_as_its_client_goes_on_taking_it(sizes: tuple[int, ...], ends: bool) -> None:
    transport: Any = Waiting(*sizes)
    Taking(transport, transport).begin()
    assert transport.is_aborted == ends
