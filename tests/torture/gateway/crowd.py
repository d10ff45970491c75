"""A thousand connections to one gateway for as long as the run lasts, with a few among them that mean no good.

Most belong to clients that come, ask a few things with pauses between them, and go, some of them without a goodbye:
they produce, wait for records, are members of groups, and run transactions. Others read an answer as slowly as they
can, read none of what they ask, claim frames of 2 GB, and begin large ones that they never end. The gateway's memory
must be bounded, and flat once all of them have been there; honest clients are answered without an error.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from threading import Event
from typing import Any

from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import LogManager
from tests.support.gateway import WireClient, fetch_fields, produce_fields
from tests.support.logs import building
from tests.support.transactions import WireProducer
from tests.torture.gateway.clients import Client, Told
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

CONNECTIONS = 1000
TOPIC, LARGE_TOPIC = "crowd", "large"
PARTITIONS = 4
PAUSE_S = 15.0  # at most, between two requests of a connection
LARGE_BYTES = 200_000  # of a record that is not read into memory at once
SESSION_MS = 60_000
SLOW_BYTES = 2000  # a second
MEMORY_BYTES_MAX = 1 << 30
GROWTH_BYTES_MAX = 32 << 20  # between the second and the last quarter of a run
LOOK_EVERY_S = 1.0
LIMIT_S = 240.0  # until the last answer has come
CLAIM = struct.pack(">i", 2**31 - 1)
# What a busy machine says, after which a client asks again.
LATER = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.request_timed_out,
    ErrorCode.concurrent_transactions,
    ErrorCode.rebalance_in_progress,  # an earlier visit did not leave its group
}
# What a client hears that was silent for too long.
GONE = {
    ErrorCode.unknown_member_id,
    ErrorCode.illegal_generation,
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.invalid_txn_state,
}
LARGEST = struct.pack(">i", 100 << 20)
PROTOCOLS = [{"name": "range", "metadata": b"m"}]


@dataclass
class Look:
    """What the gateway takes."""

    memory_bytes: int
    sockets: int
    files: int


@dataclass
class Crowd:
    """What all connections share."""

    server: Server
    answered: int = 0
    connected: int = 0
    told: Told = field(default_factory=Told)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, *, answered: int = 0, connected: int = 0) -> None:
        with self._lock:
            self.answered += answered
            self.connected += connected


class LaterError(Exception):
    """The gateway was too busy: the client comes again."""


class Visit:
    """One connection of an honest client, from its coming to its going."""

    def __init__(self, crowd: Crowd, name: str, chance: Random, ending: Event) -> None:
        self.client = WireClient(crowd.server)
        self.client.socket.settimeout(LIMIT_S)
        self._crowd, self._ending = crowd, ending
        self.name, self.chance = name, chance
        self._answered_s = time.monotonic()
        crowd.count(connected=1)

    def rests(self) -> bool:
        """Pauses; whether it is to go on afterwards."""
        return not self._ending.wait(self.chance.uniform(0, PAUSE_S))

    def answered(self, *codes: int) -> None:
        """Counts an answer, whose error codes must be 0; raises LaterError if the machine is too busy for that."""
        was_silent = time.monotonic() - self._answered_s > SESSION_MS / 2000
        if LATER.intersection(codes) or (was_silent and GONE.intersection(codes)):
            self._crowd.told.notes["answers that it is too busy"] += 1
            raise LaterError
        assert not any(codes), f"{self.name}: refused with {[ErrorCode(code).name for code in codes]}"
        self._crowd.count(answered=1)
        self._answered_s = time.monotonic()

    def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        answer = self.client.ask(key, version, **fields)
        self.answered(getattr(answer, "error_code", 0))
        return answer


# Honest ones


def produces(visit: Visit) -> None:
    for _ in range(visit.chance.randint(1, 20)):
        size = LARGE_BYTES if visit.chance.random() < 0.01 else visit.chance.randint(1, 200)
        fields = produce_fields(TOPIC, _batch(size), partition=_partition(visit))
        answer = visit.client.ask(ApiKey.PRODUCE, 8, **fields)
        visit.answered(answer.responses[0].partition_responses[0].error_code)
        if not visit.rests():
            return


def waits_for_records(visit: Visit) -> None:
    place = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": TOPIC, "partitions": [place]}]
    found = visit.ask(ApiKey.LIST_OFFSETS, 4, replica_id=-1, topics=topics).topics[0].partitions[0]
    offset = found.offset
    for _ in range(visit.chance.randint(1, 20)):
        waits = {"max_wait": visit.chance.choice((0, 500, 5000)), "isolation_level": visit.chance.randrange(2)}
        answer = visit.client.ask(ApiKey.FETCH, 6, **fetch_fields(TOPIC, offset, **waits)).responses[0].partitions[0]
        visit.answered(answer.error_code)
        offset = max(offset, answer.high_watermark - 1)
        if not visit.rests():
            return


def is_member(visit: Visit) -> None:
    group = {"group_id": f"group {visit.name}"}
    own = {
        "session_timeout": SESSION_MS,
        "rebalance_timeout": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
    }
    joined = visit.ask(ApiKey.JOIN_GROUP, 3, **group, **own)
    member = {**group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    committer = {**group, "generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    shares = [{"member_id": joined.member_id, "assignment": b"mine"}]
    visit.ask(ApiKey.SYNC_GROUP, 2, **member, assignments=shares)
    for number in range(visit.chance.randint(1, 10)):
        visit.ask(ApiKey.HEARTBEAT, 2, **member)
        place = {"partition_index": _partition(visit), "committed_offset": number, "committed_metadata": ""}
        topics = [{"name": TOPIC, "partitions": [place]}]
        answer = visit.client.ask(ApiKey.OFFSET_COMMIT, 6, **committer, topics=topics)
        visit.answered(answer.topics[0].partitions[0].error_code)
        if not visit.rests():
            return
    visit.ask(ApiKey.LEAVE_GROUP, 2, group_id=member["group_id"], member_id=joined.member_id)


def runs_transactions(visit: Visit) -> None:
    producer = WireProducer(visit.client, f"transactional {visit.name}")
    visit.answered(producer.init().error)
    for number in range(visit.chance.randint(1, 10)):
        visit.answered(producer.add(TOPIC, _partition(visit)))
        partition = _partition(visit)
        visit.answered(producer.add(TOPIC, partition))
        visit.answered(producer.produce(TOPIC, b"%d" % number, partition=partition))
        if visit.chance.random() < 0.05 or not visit.rests():
            return  # and leaves it open
        visit.answered(producer.end(commit=visit.chance.random() < 0.7))


def asks_around(visit: Visit) -> None:
    questions: list[tuple[ApiKey, int, dict[str, Any]]] = [
        (ApiKey.API_VERSIONS, 2, {}),
        (ApiKey.METADATA, 4, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}),
        (ApiKey.FIND_COORDINATOR, 3, {"key": visit.name, "key_type": 0}),
        (ApiKey.OFFSET_FETCH, 5, {"group_id": f"group {visit.name}", "topics": None}),
        (ApiKey.DESCRIBE_GROUPS, 0, {"groups": [f"group {visit.name}"]}),
        (ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": TOPIC, "partition_indexes": (0,)}]}),
        (ApiKey.DESCRIBE_CLUSTER, 0, {}),
        (ApiKey.DESCRIBE_CONFIGS, 1, {"resources": [{"resource_type": 2, "resource_name": TOPIC}]}),
        (ApiKey.INIT_PRODUCER_ID, 1, {"transactional_id": None}),
    ]
    for _ in range(visit.chance.randint(1, 20)):
        key, version, fields = visit.chance.choice(questions)
        visit.ask(key, version, **fields)
        if not visit.rests():
            return


def _batch(size: int) -> bytes:
    return building.batch(bytes(size), timestamps=building.now_ms()).tobytes()


def _partition(visit: Visit) -> int:
    return visit.chance.randrange(PARTITIONS)


def comes_again(crowd: Crowd, name: str, chance: Random, ending: Event) -> None:
    """An honest client: one visit after the other. Some end amid a request, or with a reset."""
    ending.wait(chance.uniform(0, PAUSE_S))
    while not ending.is_set():
        visit = Visit(crowd, name, chance, ending)
        kinds = (produces, waits_for_records, is_member, runs_transactions, asks_around)
        with visit.client:
            if visit.rests():
                with suppress(LaterError):
                    chance.choice(kinds)(visit)
            if chance.random() < 0.1:
                visit.client.socket.sendall(struct.pack(">i", 50) + bytes(chance.randrange(50)))
            if chance.random() < 0.1:
                visit.client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# The others


def reads_slowly(crowd: Crowd, ending: Event) -> None:
    """Asks for all of a large topic, and takes an hour and more to read the answer."""
    with WireClient(crowd.server) as client:
        crowd.count(connected=1)
        client.socket.settimeout(LIMIT_S)
        client.send(ApiKey.FETCH, 6, **fetch_fields(LARGE_TOPIC, 0, partition_max_bytes=50 << 20, max_bytes=50 << 20))
        while not ending.wait(1):
            assert client.socket.recv(SLOW_BYTES), "a slow reader was sent away"


def reads_nothing(crowd: Crowd, ending: Event) -> None:
    """Asks and asks."""
    with WireClient(crowd.server) as client:
        crowd.count(connected=1)
        client.socket.settimeout(0.1)
        while not ending.wait(0.1):
            with suppress(TimeoutError):
                client.send(ApiKey.FETCH, 6, **fetch_fields(LARGE_TOPIC, 0))


def claims(crowd: Crowd, ending: Event) -> None:
    """A frame of 2 GB, which ends the connection; again and again."""
    while not ending.is_set():
        with WireClient(crowd.server) as client:
            crowd.count(connected=1)
            client.socket.settimeout(LIMIT_S)
            ending.wait(5)
            with suppress(OSError):  # it is closed as soon as the length is read
                client.socket.sendall(CLAIM + bytes(1000))
            assert client.is_closed(), "2 GB were accepted"


def stalls(crowd: Crowd, ending: Event) -> None:
    """The largest frame that may be, and no more of it than 128 KB; sent away where others need the room."""
    while not ending.is_set():
        with WireClient(crowd.server) as client:
            crowd.count(connected=1)
            client.socket.settimeout(1)
            with suppress(OSError):
                client.socket.sendall(LARGEST + bytes(128 << 10))
            while not ending.is_set():
                with suppress(TimeoutError):
                    if client.is_closed():
                        break


OTHERS: dict[Callable[[Crowd, Event], None], int] = {reads_slowly: 10, reads_nothing: 5, claims: 10, stalls: 15}


# The run


def clients_of(crowd: Crowd, chance: Random) -> Iterator[Client]:
    def honest(number: int) -> Callable[[Event], None]:
        own = Random(chance.random())
        return lambda ending: comes_again(crowd, f"{number}", own, ending)

    for number in range(CONNECTIONS - sum(OTHERS.values())):
        yield Client(honest(number), crowd.told)
    for other, count in OTHERS.items():
        for _ in range(count):
            yield Client(partial(other, crowd), crowd.told)


def made_directory(directory: Path) -> None:
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic(TOPIC, partitions=PARTITIONS, configs={"segment.bytes": "10000000"})
        manager.create_topic(LARGE_TOPIC, partitions=1)
        log = manager.open_log(LARGE_TOPIC, 0)
        for _ in range(64):
            log.append_records(building.records([bytes(900_000)], timestamps=building.now_ms()))


def live(run: Run, chance: Random, directory: Path) -> None:
    """A gateway's life among its crowd, as long as the run lasts."""
    made_directory(directory)
    crowd = Crowd(Server(directory))
    crowd.server.start()
    clients = [*clients_of(crowd, chance)]
    try:
        alone = _look(crowd)
        looks = _visited(run, crowd, clients)
        has_ended = crowd.server.has_ended
        time.sleep(2)  # until it has closed what its clients have
        after = alone if has_ended else _look(crowd)
    finally:
        crowd.server.kill()
    stacks = [client.stack() for client in clients if client.is_alive()]
    _note(run, crowd, alone, looks, after)
    assert not has_ended, f"the gateway has ended: {crowd.server.log.read_text()[-4000:]}"
    assert not crowd.told.faults, crowd.told.faults[:3]
    assert not stacks, f"a client never ends:\n{stacks[0]}"
    crowd.server.check_log()
    assert max(each.memory_bytes for each in looks) < MEMORY_BYTES_MAX, "memory is not bounded"
    assert quarter(looks, 3) - quarter(looks, 1) < GROWTH_BYTES_MAX, "memory is not flat"
    assert after.sockets == alone.sockets, f"{after.sockets - alone.sockets} sockets are still open"


def _visited(run: Run, crowd: Crowd, clients: list[Client]) -> list[Look]:
    """Lets the crowd come, watches the gateway until the run has had enough, and sends the crowd home."""
    looks = []
    for client in clients:
        client.start()
    counted = 0
    while not (run.enough or crowd.told.faults or crowd.server.has_ended):
        time.sleep(LOOK_EVERY_S)
        looks.append(_look(crowd))
        run.passed(crowd.answered - counted)
        counted += crowd.answered - counted
    for client in clients:
        client.ending.set()
    until_s = time.monotonic() + LIMIT_S
    for client in clients:
        client.join(max(0, until_s - time.monotonic()))
    return looks


def _look(crowd: Crowd) -> Look:
    opened = crowd.server.descriptors()
    return Look(crowd.server.memory_bytes(), opened["socket"], opened["file"])


def quarter(looks: list[Look], number: int) -> float:
    """The median of the memory in a quarter of the run, in bytes."""
    size = len(looks) // 4
    return median(each.memory_bytes for each in looks[number * size : (number + 1) * size] or looks)


def _note(run: Run, crowd: Crowd, alone: Look, looks: list[Look], after: Look) -> None:
    run.note("connections made", crowd.connected)
    for name, count in crowd.told.notes.items():
        run.note(name, count)
    run.note("sockets at most", max(each.sockets for each in looks))
    run.note("files at most", max(each.files for each in looks))
    for name, found in (("alone", [alone]), ("at most", looks), ("after all have gone", [after])):
        run.note(f"MB {name}", max(each.memory_bytes for each in found) >> 20)
    run.note("MB in the second quarter", round(quarter(looks, 1)) >> 20)
    run.note("MB in the last quarter", round(quarter(looks, 3)) >> 20)


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a gateway's life"):
            live(run, case.chance, run.directory / f"{case.number}")


SUITE = Suite("answers", 1_000_000, run)
