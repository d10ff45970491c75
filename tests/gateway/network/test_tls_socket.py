"""What the log says of a client whose TLS fails, and what one read of an encrypted connection takes."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.network.tls_socket import TlsSocket, tls_text
from tests.support.tls import HOST, certificate


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("WRONG_VERSION_NUMBER", "WRONG_VERSION_NUMBER: the client speaks without TLS"),
        ("TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_UNKNOWN_CA: the client does not trust the certificate"),
        ("NO_SHARED_CIPHER", "NO_SHARED_CIPHER"),
        (None, "[Errno 1] odd"),
    ],
)
def test_openssls_reason_comes_with_its_usual_cause(reason: str | None, text: str) -> None:
    error = ssl.SSLError(1, "odd")
    error.reason = reason  # type: ignore[assignment]
    assert tls_text(error).endswith(text.removeprefix("[Errno 1] "))


class Client:
    """The other side of an encrypted connection, whose bytes are sent as the test says."""

    def __init__(self, plain: socket.socket, trusted: ssl.SSLContext, server: TlsSocket) -> None:
        self._plain, self._in, self._out = plain, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = trusted.wrap_bio(self._in, self._out, server_hostname=HOST)
        while not self._has_shaken_hands(server):
            self._in.write(plain.recv(1 << 16))

    def _has_shaken_hands(self, server: TlsSocket) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self.send()
            with suppress(BlockingIOError):
                server.recv_into(memoryview(bytearray(1)))
        return True

    def end(self) -> None:
        with suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self.send()
        self._plain.shutdown(socket.SHUT_WR)

    def send(self, *data: bytes, behind: bytes = b"") -> None:
        for each in data:
            self._tls.write(each)
        self._plain.sendall(self._out.read() + behind)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[TlsSocket, Client]]:
    """A server's end, and the client."""
    keystore, trusted = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        server = TlsSocket(ours, context)
        yield server, Client(theirs, trusted, server)
        server.close()


def test_all_records_that_have_arrived_are_read_at_once(ends: tuple[TlsSocket, Client]) -> None:
    server, client = ends
    client.send(b"a" * 10, b"b" * 40_000)
    room = memoryview(bytearray(50_000))
    assert server.fill(room) == 40_010
    assert bytes(room[:40_010]) == b"a" * 10 + b"b" * 40_000
    assert not server.has_read_ahead
    with pytest.raises(BlockingIOError):
        server.fill(room)


def test_what_finds_no_room_is_known_to_be_there(ends: tuple[TlsSocket, Client]) -> None:
    server, client = ends
    client.send(b"a" * 10, b"b" * 10)
    room = memoryview(bytearray(15))
    assert server.fill(room) == 15
    assert server.has_read_ahead
    assert server.fill(room) == 5


def test_an_error_behind_bytes_is_raised_by_the_next_read(ends: tuple[TlsSocket, Client]) -> None:
    server, client = ends
    client.send(b"a" * 10, behind=b"\x17\x03\x03\0\x20" + bytes(32))
    room = memoryview(bytearray(100))
    assert server.fill(room) == 10
    assert server.has_read_ahead
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        server.fill(room)


def test_an_end_behind_bytes_is_read_next(ends: tuple[TlsSocket, Client]) -> None:
    server, client = ends
    client.send(b"a" * 10)
    client.end()
    room = memoryview(bytearray(100))
    assert server.fill(room) == 10
    assert server.fill(room) == 0
