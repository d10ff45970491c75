"""A connection whose broker answers, breaks off, is silent or talks nonsense."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from pyspark_commitlog.classic.errors import BrokerUnreachableError, ConnectionClosedError, MalformedAnswerError
from pyspark_commitlog.classic.wire.connection import Address, Connection, Terms
from pyspark_commitlog.storage import InvalidConfigError
from tests.support.waiting import soon

Serve = Callable[[socket.socket], None]


class Broker:
    """Serves one connection after the other, each by the next function; then refuses."""

    def __init__(self, *serve: Serve) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        self.accepted = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for serve in self._serve:
            connection, _ = self._listener.accept()
            self.accepted += 1
            with connection:
                serve(connection)
        self._listener.close()

    def join(self) -> None:
        self._thread.join(20)


def request(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        return stream.read(struct.unpack(">i", stream.read(4))[0])


def echo(connection: socket.socket) -> None:
    found = request(connection)
    connection.sendall(struct.pack(">i", len(found)) + found)


def echo_slowly(connection: socket.socket) -> None:
    found = struct.pack(">i", 3) + request(connection)
    for byte in found:
        connection.sendall(bytes([byte]))


def break_off(connection: socket.socket) -> None:
    request(connection)


def break_off_in_the_answer(connection: socket.socket) -> None:
    request(connection)
    connection.sendall(struct.pack(">i", 100) + b"abc")


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_nothing_is_connected_before_the_first_request() -> None:
    broker = Broker(echo)
    with Connection(broker.address) as connection:
        assert not broker.accepted
        assert connection.exchange(b"abc") == b"abc"


def test_an_answer_that_comes_in_pieces_is_whole() -> None:
    with Connection(Broker(echo_slowly).address) as connection:
        assert connection.exchange(b"abc") == b"abc"


@pytest.mark.parametrize("breaks", [break_off, break_off_in_the_answer])
def test_a_request_is_repeated_once_on_another_connection(breaks: Serve) -> None:
    broker = Broker(breaks, echo)
    with Connection(broker.address) as connection:
        assert connection.exchange(b"abc") == b"abc"
    assert broker.accepted == 2


def test_a_request_that_breaks_twice_fails_and_the_next_one_connects() -> None:
    broker = Broker(break_off, break_off, echo)
    with Connection(broker.address) as connection:
        with pytest.raises(BrokerUnreachableError, match=str(broker.address)):
            connection.exchange(b"abc")
        assert connection.exchange(b"abc") == b"abc"


def test_a_frame_without_answer_is_not_written_to_a_connection_that_has_ended() -> None:
    got: list[bytes] = []
    broker = Broker(break_off, lambda connection: got.append(request(connection)))
    with Connection(broker.address) as connection:
        connection.send(b"abc")
        soon(lambda: broker.accepted == 1 and _has_ended(connection))
        connection.send(b"def")
    broker.join()
    assert got == [b"def"]


def _has_ended(connection: Connection) -> bool:
    assert connection._socket is not None
    return not connection._socket.recv(1, socket.MSG_PEEK)


def test_what_must_not_be_done_twice_is_not_repeated() -> None:
    broker = Broker(break_off, echo)
    with Connection(broker.address) as connection:
        with pytest.raises(BrokerUnreachableError):
            connection.exchange(b"abc", again=False)
        assert broker.accepted == 1
        assert connection.exchange(b"abc") == b"abc"


def test_nobody_listens() -> None:
    broker = Broker()
    broker.join()
    with pytest.raises(BrokerUnreachableError, match="refused"):
        Connection(broker.address).exchange(b"abc")
    with pytest.raises(BrokerUnreachableError, match="refused"):
        Connection(broker.address).send(b"abc")


@pytest.mark.parametrize("host", ["x" * 70, "a..b", "\ud800"])
def test_a_broker_at_what_is_no_name_of_a_host_is_unreachable(host: str) -> None:
    with pytest.raises(BrokerUnreachableError, match="is no name of a host"):
        Connection(Address(host, 9092)).exchange(b"abc")


def test_a_silent_broker_is_waited_for_as_long_as_the_terms_say(released: threading.Event) -> None:
    broker = Broker(lambda _: assert_released(released), lambda _: assert_released(released))
    with pytest.raises(BrokerUnreachableError, match="timed out"):
        Connection(broker.address, Terms(timeout_ms=20)).exchange(b"abc", again=False)


def assert_released(released: threading.Event) -> None:
    assert released.wait(20)


def test_a_length_below_zero_is_no_answer() -> None:
    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(struct.pack(">i", -1))

    with pytest.raises(MalformedAnswerError, match="-1 bytes"):
        Connection(Broker(serve).address).exchange(b"abc")


def test_a_frame_without_an_answer_does_not_wait() -> None:
    got = []
    broker = Broker(lambda connection: got.append(request(connection)))
    with Connection(broker.address) as connection:
        connection.send(b"abc")
        broker.join()
    assert got == [b"abc"]


def test_closing_ends_a_request_that_waits_and_all_later_ones() -> None:
    asked = threading.Event()
    closed = threading.Event()

    def serve(connection: socket.socket) -> None:
        request(connection)
        asked.set()
        assert closed.wait(20)

    connection = Connection(Broker(serve, echo).address)
    errors: list[Exception] = []

    def exchange() -> None:
        try:
            connection.exchange(b"abc")
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=exchange)
    thread.start()
    assert asked.wait(20)
    connection.close()
    thread.join(20)
    closed.set()
    assert [type(each) for each in errors] == [ConnectionClosedError]
    with pytest.raises(ConnectionClosedError):
        connection.exchange(b"abc")


def test_addresses_are_read_and_shown() -> None:
    assert Address.parse(" h:1 ") == ("h", 1)
    assert Address.parse("[::1]:9092") == ("::1", 9092)
    assert str(Address("::1", 9092)) == "[::1]:9092"
    for wrong in ("h", "h:", ":1", "h:0", "h:65536", "h:x"):
        with pytest.raises(InvalidConfigError, match="not an address"):
            Address.parse(wrong)
