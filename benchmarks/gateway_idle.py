"""What a consumer of many idle partitions costs a server: our gateway beside a broker of Kafka 3.9.1, in turn.

The consumer has a fetch session, as Java's has, and gets an empty answer every half second.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.gateway_servers import Server
from benchmarks.gateway_turns import AGAINST, servers
from benchmarks.timing import Timing
from pyspark_commitlog.protocol.bodies import read_answer, write_request
from pyspark_commitlog.protocol.headers import request_header

TOPIC, PARTITIONS = "idle", 1_000
WAIT_MS = 500  # fetch.max.wait.ms of Java's consumer
FETCHES = 60  # of a round: half a minute
WARM_UP_FETCHES = 600
FETCH, VERSION, CORRELATION_BYTES = 1, 12, 5  # before the body: the correlation id, and no tags
INITIAL, FINAL = 0, -1  # epochs of a session
LENGTH = struct.Struct(">i")
REQUIRED, GOAL = 1.2, 0.8  # of Kafka's


class Cost(NamedTuple):
    cpu_s: float  # of the server, per minute
    wire_bytes: float  # both ways, per second


def measure(setting: Setting) -> Iterator[Comparison]:
    with servers(setting.directory) as sides:
        both = {side: sides[side].server for side in ("kafka", "synced")}
        for server in both.values():
            server.create(TOPIC, setting.sized(PARTITIONS))
        found: dict[str, list[Cost]] = {side: [] for side in both}
        for _ in range(setting.rounds + 1):
            for side, server in both.items():
                found[side].append(of_consumer(server, setting.sized(PARTITIONS), setting.sized(FETCHES)))
    costs = {side: Cost(*(Timing.of(each) for each in zip(*of[1:], strict=True))) for side, of in found.items()}
    told, required = f"a consumer of {PARTITIONS:,} idle partitions", (REQUIRED, GOAL, Ratio.SLOWER)
    ours, theirs = costs["synced"], costs["kafka"]
    yield Comparison(f"CPU of a minute: {told}", AGAINST, ours.cpu_s, theirs.cpu_s, *required)
    yield Comparison(f"bytes of a second: {told}", AGAINST, ours.wire_bytes, theirs.wire_bytes, *required, unit="bytes")


def of_consumer(server: Server, partitions: int, fetches: int) -> Cost:
    """What the fetches of a session cost, after others that let a JVM compile what they run."""
    with Consumer(server.bootstrap, partitions) as consumer:
        for _ in range(min(WARM_UP_FETCHES, 10 * fetches)):
            consumer.fetch(wait_ms=1)
        while consumer.fetch():  # a broker still opens partitions
            pass
        cpu_s, began_s, began_bytes = server.cpu_s(), time.perf_counter(), consumer.wire_bytes
        if sum(consumer.fetch() for _ in range(fetches)):  # all of them
            raise RuntimeError("the partitions are not idle")
        seconds = time.perf_counter() - began_s
        return Cost((server.cpu_s() - cpu_s) * 60 / seconds, (consumer.wire_bytes - began_bytes) / seconds)


class Consumer:
    """A session of all partitions of the topic. A context manager that ends it."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self.wire_bytes = 0
        every = [{"partition": each, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for each in range(partitions)]
        self._session, self._epoch = 0, INITIAL
        self._session = self._ask([{"topic": TOPIC, "partitions": every}], 0).session_id
        if not self._session:
            raise RuntimeError("the server began no fetch session")

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *exc: object) -> None:
        self._epoch = FINAL
        self._ask([], 0)
        self._socket.close()

    def fetch(self, wait_ms: int = WAIT_MS) -> bool:
        """Fetch, and return whether there was anything new."""
        self._epoch += 1
        answer = self._ask([], wait_ms)
        if answer.error_code:
            raise RuntimeError(f"a fetch in a session returned error {answer.error_code}")
        return bool(answer.responses)

    def _ask(self, topics: Sequence[Any], wait_ms: int) -> Any:
        limits = {"max_wait": wait_ms, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 0, "replica_id": -1}
        ids = {"session_id": self._session, "session_epoch": self._epoch, "forgotten_topics_data": []}
        body = write_request(FETCH, VERSION, {**limits, **ids, "topics": topics, "rack_id": ""})
        frame = request_header(FETCH, VERSION, 1, "benchmark") + body
        self._socket.sendall(LENGTH.pack(len(frame)) + frame)
        answer = self._receive(*LENGTH.unpack(self._receive(LENGTH.size)))
        self.wire_bytes += 2 * LENGTH.size + len(frame) + len(answer)
        return read_answer(FETCH, VERSION, answer, CORRELATION_BYTES)

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = self._socket.recv(size - len(data))
            if not received:
                raise EOFError
            data += received
        return bytes(data)
