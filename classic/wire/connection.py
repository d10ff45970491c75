"""Connection: frames to one broker, and its answers."""

from __future__ import annotations

import select
import socket
import struct
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self

from ...storage import InvalidConfigError
from ..errors import BrokerUnreachableError, ConnectionClosedError, MalformedAnswerError

_LENGTH = struct.Struct(">i")
_PIECE_BYTES = 1 << 20  # received at once: an answer takes no memory before its bytes are there


class Address(NamedTuple):
    """The host and port of a broker."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses ``host:port``. Raises InvalidConfigError."""
        host, colon, port = text.strip().rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidConfigError(f"{text!r} is not an address: expected host:port, such as 127.0.0.1:9092")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Terms:
    """The options of a connection. Buffer sizes are in bytes, -1 for the system's default."""

    timeout_ms: int = 30_000  # the longest silence of a broker that owes an answer: socket.timeout.ms
    connect_timeout_ms: int = 5_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = 65_536


class Connection:
    """A connection to one broker, opened at the first use; a context manager that closes it.

    For any thread; requests are sent one after the other. Like the SimpleConsumer of Kafka 0.7, it repeats a failed
    request once on a new connection.
    """

    def __init__(self, address: Address, terms: Terms | None = None) -> None:
        self.address, self._terms = address, terms or Terms()
        self._lock = threading.Lock()  # Guards the socket: one request at a time uses it.
        self._socket: socket.socket | None = None
        self._is_closed = False

    def exchange(self, frame: bytes, *, again: bool = True) -> bytearray:
        """Sends a frame and returns the answer, both without their lengths.

        ``again``: repeat the request if the connection breaks; False for requests that must not be carried out twice.
        Raises BrokerUnreachableError, ConnectionClosedError, and MalformedAnswerError for a length below 0.
        """
        with self._lock:
            try:
                return self._exchange(frame)
            except BrokerUnreachableError:
                if not again or self._is_closed:
                    raise
            return self._exchange(frame)

    def send(self, frame: bytes) -> None:
        """Sends a frame that has no answer. It may be lost although this returns.

        Raises BrokerUnreachableError, after which the next call opens a new connection, and ConnectionClosedError.
        """
        with self._lock:
            if self._socket is not None and _has_ended(self._socket):
                self._drop()  # bytes written to it would be lost without an error
            self._guarded(frame, has_answer=False)

    def disconnect(self) -> None:
        """Closes the connection; the next request opens a new one."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """Closes the connection for good; a thread that waits for an answer gets ConnectionClosedError."""
        self._is_closed = True
        if (connected := self._socket) is not None:
            _shut_down(connected)
        with self._lock:
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _exchange(self, frame: bytes) -> bytearray:
        found = self._guarded(frame, has_answer=True)
        assert found is not None
        return found

    def _guarded(self, frame: bytes, *, has_answer: bool) -> bytearray | None:
        """Sends, and receives an answer.

        Closes the connection if it is interrupted, because the next bytes are unknown.
        """
        try:
            connected = self._connected()
            connected.sendall(_LENGTH.pack(len(frame)) + frame)
            return _received(connected, self.address) if has_answer else None
        except OSError as error:
            self._drop()
            self._check_open()
            raise BrokerUnreachableError(f"{self.address}: {error or type(error).__name__}") from error
        except BaseException:
            self._drop()
            raise

    def _connected(self) -> socket.socket:
        self._check_open()
        if self._socket is None:
            terms = self._terms
            found = _connect(self.address, terms.connect_timeout_ms / 1000)
            found.settimeout(terms.timeout_ms / 1000 or None)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option, size in (
                (socket.SO_SNDBUF, terms.send_buffer_bytes),
                (socket.SO_RCVBUF, terms.receive_buffer_bytes),
            ):
                if size > 0:
                    found.setsockopt(socket.SOL_SOCKET, option, size)
            self._socket = found
            self._check_open()  # close() may have come before there was a socket to shut down
        return self._socket

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosedError(f"{self.address}: the connection was closed")

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _connect(address: Address, timeout_s: float) -> socket.socket:
    """Raises OSError, even for an invalid host name, which may also come from a broker's answer."""
    try:
        return socket.create_connection(address, timeout=timeout_s)
    except (ValueError, OverflowError) as error:
        raise ConnectionError(f"{address.host!r} is no name of a host: {error}") from error


def _has_ended(connected: socket.socket) -> bool:
    """Whether this machine has received the broker's close of the connection."""
    ready = select.poll()
    ready.register(connected, select.POLLIN)
    try:
        return bool(ready.poll(0)) and not connected.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _received(connected: socket.socket, address: Address) -> bytearray:
    (length,) = _LENGTH.unpack(_exactly(connected, _LENGTH.size))
    if length < 0:
        raise MalformedAnswerError(f"{address}: the broker states that its answer has {length} bytes")
    return _exactly(connected, length)


def _exactly(connected: socket.socket, size: int) -> bytearray:
    found = bytearray()
    while len(found) < size:
        piece = connected.recv(min(size - len(found), _PIECE_BYTES))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        found += piece
    return found


def _shut_down(connected: socket.socket) -> None:
    try:
        connected.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended already
