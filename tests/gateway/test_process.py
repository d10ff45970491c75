"""The memory of a gateway's process: what requests leave behind is freed."""

from __future__ import annotations

import gc
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from pyspark_commitlog.gateway.network.connection import Connection
from pyspark_commitlog.gateway.network.frames import FrameReader
from pyspark_commitlog.gateway.request import Request
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, fetch_fields, produce_fields
from tests.support.logs.building import batch

NO_CREATION = dict.fromkeys(
    (
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    ),
    False,
)
REQUESTS: dict[str, Callable[[WireClient, str], object]] = {
    "a batch": lambda client, topic: client.ask(0, 8, **produce_fields(topic, batch(b"v").tobytes())),
    "a batch that is refused": lambda client, topic: client.ask(0, 8, **produce_fields(topic, b"damaged")),
    "a partition that does not exist": lambda client, topic: client.ask(
        0, 8, **produce_fields(topic, batch(b"v").tobytes(), partition=9)
    ),
    "records": lambda client, topic: client.ask(1, 11, **fetch_fields(topic, 0)),
    "an offset that does not exist": lambda client, topic: client.ask(1, 11, **fetch_fields(topic, 99)),
    "topics": lambda client, topic: client.ask(3, 8, topics=[{"name": topic}], **NO_CREATION),
    "a producer id": lambda client, _: client.ask(22, 1, transactional_id=None, transaction_timeout_ms=1000),
}


Garbage = Callable[..., list[object]]


@pytest.fixture
def garbage() -> Iterator[Garbage]:
    """Returns what only the collector finds of some types; not of gateways that earlier tests left behind."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    before = {id(each) for each in gc.get_objects()}

    def found(*types: type) -> list[object]:
        gc.collect()
        return [each for each in gc.garbage if isinstance(each, types) and id(each) not in before]

    try:
        yield found
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_is_freed_without_the_collector(client: WireClient, topic: str, garbage: Garbage, kind: str) -> None:
    for _ in range(3):
        REQUESTS[kind](client, topic)
    assert garbage(Request) == []


def test_a_connection_that_ends_amid_a_large_request_is_freed_without_the_collector(
    gateway: Gateway, garbage: Garbage
) -> None:
    with WireClient(gateway) as client:
        client.socket.sendall(struct.pack(">i", 90 << 20) + bytes(1 << 20))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()
    for _ in range(2 * gateway.config.num_network_threads):  # a thread may refer to the last connection it served
        with WireClient(gateway) as other:
            other.ask(18, 0)
    assert garbage(Connection, FrameReader) == []


def test_a_process_that_was_prepared_may_have_as_many_open_files_as_its_user() -> None:
    program = """
import resource
from pyspark_commitlog.gateway.process import prepare_process
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard // 2, hard))
prepare_process()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_threads_of_a_process_that_was_prepared_give_way_in_less_than_a_millisecond() -> None:
    program = """
import sys
from pyspark_commitlog.gateway.process import prepare_process
prepare_process()
assert sys.getswitchinterval() < 0.001
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_cycles_are_found_in_a_process_that_was_prepared() -> None:
    program = """
from pyspark_commitlog.gateway.process import prepare_process
prepare_process()
class Cycle:
    left = 0
    def __init__(self):
        self.itself = self
        Cycle.left += 1
    def __del__(self):
        Cycle.left -= 1
for _ in range(100_000):
    Cycle()
print(Cycle.left)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50_000
