"""A gateway that is killed at random and started again, with real clients at work, and another process that appends.

Two idempotent producers, a transactional one, and two members of a group go on through all
kills. At the end, the directory is compared with what each of them was told: an acknowledged record is there once,
those of a producer are in their order, a transaction is there whole or not at all, as it was answered, and a committed
offset never goes back. Kills come at random times, so the same seed chooses the same pauses, not the same instants.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import confluent_kafka as rdkafka

from pyspark_commitlog.storage import Isolation, LogManager
from tests.support.logs import building
from tests.torture.suite import Run, Suite

PLAIN, TRANSACTIONAL = "plain", "transactional"
PARTITIONS = 2
GROUP = "readers"
NONE = -1  # the offset of a group that has committed none
KILLS_A_CASE = 10
PAUSE_S = (0.3, 6.0)  # between a start and its kill
LIMIT_S = 60.0  # for what must end once nobody is killed any more
Values = list[bytes]


class Server:
    """``commitlog gateway`` in a process of its own, on a port that stays."""

    def __init__(self, directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._directory = directory
        self.log = directory.with_suffix(".stderr")

    def start(self) -> None:
        command = [Path(sys.executable).with_name("commitlog"), "gateway", "--log-dir", self._directory]
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                [*command, "--listen", self.address, "--config", "group.initial.rebalance.delay.ms=0"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("listening"), self.log.read_text()[-2000:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


APPEND = """
import sys
from pyspark_commitlog.storage import LogManager
from tests.support.logs import building
with LogManager.open(sys.argv[1]) as manager:
    number = 0
    while True:
        manager.open_log(sys.argv[2], number % 2).append_records(building.records([b"appender %d" % number]))
        print(number, flush=True)
        number += 1
        if not sys.stdin.readline():
            break
"""


@dataclass
class Told:
    """What the clients were told, and which faults they saw."""

    acknowledged: dict[bytes, set[int]] = field(default_factory=dict)  # by writer of PLAIN
    committed: set[int] = field(default_factory=set)  # transactions, by number
    aborted: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)


class Client(threading.Thread):
    """A client at work until it is told to end; what it raises is a fault."""

    def __init__(self, work: Callable[[threading.Event], None], told: Told) -> None:
        super().__init__(daemon=True)
        self._work, self._told = work, told
        self.ending = threading.Event()

    def run(self) -> None:
        try:
            self._work(self.ending)
        except Exception as error:
            self._told.faults.append("".join(traceback.format_exception(error)))

    def stack(self) -> str:
        """Where it is."""
        frame = sys._current_frames().get(self.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""


# The clients


def produce(address: str, name: bytes, told: Told, ending: threading.Event) -> None:
    """An idempotent producer, with several batches in progress."""
    acknowledged = told.acknowledged.setdefault(name, set())
    settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 10}
    producer, number = rdkafka.Producer({**settings, **PATIENT}), 0

    def delivered(error: object, message: Any) -> None:
        if error is None:
            acknowledged.add(int(message.value().split()[1]))
        else:
            told.notes["refused records"] += 1

    while not ending.is_set():
        with suppress(BufferError):
            producer.produce(PLAIN, b"%s %d" % (name, number), partition=number % PARTITIONS, on_delivery=delivered)
            number += 1
        producer.poll(0.002)
    assert producer.flush(LIMIT_S) == 0, f"{name!r} could not send all"


PATIENT = {
    "message.timeout.ms": 600_000,
    "reconnect.backoff.max.ms": 200,
    "queue.buffering.max.messages": 2000,
    "log_level": 0,
}


def transact(address: str, told: Told, chance: Random, ending: threading.Event) -> None:
    """A transactional producer: each transaction writes to both partitions.

    It commits no offsets: librdkafka can wait for ever to send them, past its own time-out, after a broker was killed.
    """
    number, producer = 0, None
    while not ending.is_set():
        producer = producer or _transactional(address)
        commits = chance.random() < 0.7
        try:
            producer.begin_transaction()
            for partition in (0, 1, 0):
                producer.produce(TRANSACTIONAL, b"%d" % number, partition=partition)
            _end(producer, commits=commits)
            (told.committed if commits else told.aborted).add(number)
        except rdkafka.KafkaException as error:
            told.notes["transactions that failed"] += 1
            producer = _recovered(producer, error, number, told)
        number += 1


def _transactional(address: str) -> Any:
    producer = rdkafka.Producer({"bootstrap.servers": address, "transactional.id": "t", **PATIENT, **SHORT})
    while True:
        try:
            producer.init_transactions(30.0)
        except rdkafka.KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return producer


SHORT = {"message.timeout.ms": 50_000, "transaction.timeout.ms": 60_000}


def _end(producer: Any, *, commits: bool) -> None:
    while True:
        try:
            (producer.commit_transaction if commits else producer.abort_transaction)(30.0)
        except rdkafka.KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


def _recovered(producer: Any, error: rdkafka.KafkaException, number: int, told: Told) -> Any:
    """Aborts what can be aborted; None: a new producer is needed, and nobody knows how the transaction ends."""
    if not (error.args[0].txn_requires_abort() or error.args[0].retriable()):
        return None
    try:
        _end(producer, commits=False)
    except rdkafka.KafkaException:
        return None
    told.aborted.add(number)
    return producer


def consume(address: str, told: Told, ending: threading.Event) -> None:
    """A member of the group that commits after every few records; a commit that was answered counts from then on."""
    settings = {"bootstrap.servers": address, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = rdkafka.Consumer({**settings, "enable.auto.commit": False, "session.timeout.ms": 6000, **QUIET})
    consumer.subscribe([PLAIN])
    while not ending.is_set():
        found = consumer.consume(100, 0.2)
        told.notes["records consumed"] += sum(not each.error() for each in found)
        if found:
            with suppress(rdkafka.KafkaException):
                consumer.commit(asynchronous=False)
                told.notes["commits"] += 1
    consumer.close()


QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 200}


def watch(address: str, told: Told, ending: threading.Event) -> None:
    """Asks for the committed offsets again and again: none goes back, or is gone."""
    consumer = rdkafka.Consumer({"bootstrap.servers": address, "group.id": GROUP, **QUIET})
    places = [rdkafka.TopicPartition(PLAIN, number) for number in range(PARTITIONS)]
    seen = dict.fromkeys(range(PARTITIONS), NONE)
    while not ending.wait(0.1):
        with suppress(rdkafka.KafkaException):
            for each in consumer.committed(places, 5.0):
                if each.error is None:
                    offset = max(each.offset, NONE)
                    if offset < seen[each.partition]:
                        told.faults.append(f"{each.partition}: offset {offset} after {seen[each.partition]}")
                    seen[each.partition] = offset
                    told.notes["looks at offsets"] += 1
    consumer.close()


# What is there


def rows(directory: Path, topic: str, isolation: Isolation) -> Iterator[Values]:
    with LogManager.open(str(directory)) as manager:
        for partition in range(PARTITIONS):
            with manager.open_reader(topic, partition) as reader:
                yield [value or b"" for _, value in building.rows(reader, isolation)]


def check_plain(directory: Path, told: Told) -> int:
    """Each writer's records are in order, each once at most, and all that were acknowledged; returns how many."""
    found: dict[bytes, set[int]] = {}
    for values in rows(directory, PLAIN, Isolation.READ_COMMITTED):
        by_writer: dict[bytes, list[int]] = {}
        for value in values:
            writer, number = value.split()
            by_writer.setdefault(writer, []).append(int(number))
        for writer, numbers in by_writer.items():
            assert numbers == sorted(set(numbers)), f"{writer!r}: twice, or out of order: {_first_back(numbers)}"
            found.setdefault(writer, set()).update(numbers)
    for writer, numbers in told.acknowledged.items():
        missing = numbers - found.get(writer, set())
        assert not missing, f"{writer!r}: {len(missing)} acknowledged records are missing, such as {min(missing)}"
    return sum(map(len, told.acknowledged.values()))


def _first_back(numbers: list[int]) -> object:
    return next(((a, b) for a, b in pairwise(numbers) if b <= a), None)


def check_transactions(directory: Path, told: Told) -> None:
    """A transaction is there whole or not at all, as it was answered, and in order."""
    first, second = ([int(each) for each in v] for v in rows(directory, TRANSACTIONAL, Isolation.READ_COMMITTED))
    assert first == sorted(first)
    assert second == sorted(set(second)), f"twice, or out of order: {_first_back(second)}"
    counts = Counter(first)
    assert set(counts) == set(second), f"in part: {sorted(set(counts) ^ set(second))[:5]}"
    assert not counts or set(counts.values()) == {2}, "a record is missing or there twice"
    assert not told.committed - set(second), f"committed, but missing: {sorted(told.committed - set(second))[:5]}"
    assert not told.aborted & set(second), f"aborted, but there: {sorted(told.aborted & set(second))[:5]}"


def live(run: Run, chance: Random, directory: Path) -> None:
    """A directory's life: so many kills, an end in peace, and the comparison."""
    with LogManager.open(str(directory), create=True) as manager:
        for topic in (PLAIN, TRANSACTIONAL):
            manager.create_topic(topic, partitions=PARTITIONS, configs={"segment.bytes": "100000"})
    told, server = Told(), Server(directory)
    with ExitStack() as stack:
        server.start()
        stack.callback(server.kill)
        clients = [Client(work, told) for work in works(server.address, directory, told, chance)]
        for client in clients:
            client.start()
        for _ in range(KILLS_A_CASE):
            time.sleep(chance.uniform(*PAUSE_S))
            server.kill()
            time.sleep(chance.choice((0, 0, 0.5)))
            server.start()
            run.passed()
            if run.enough or told.faults:
                break
        time.sleep(2)  # in peace, so that all of them get on
        for client in clients:
            client.ending.set()
        for client in clients:
            client.join(LIMIT_S)
            assert not client.is_alive(), f"a client never ends:\n{client.stack()}"
        _settle(server.address)
    assert not told.faults, told.faults[:3]
    run.note("records acknowledged", check_plain(directory, told))
    check_transactions(directory, told)
    assert "Traceback" not in server.log.read_text(), server.log.read_text()[-4000:]
    for name, count in told.notes.items():
        run.note(name, count)
    run.note("transactions committed", len(told.committed))
    run.note("transactions aborted", len(told.aborted))


def _settle(address: str) -> None:
    """Ends the last transaction, if nobody knows how it ended: a new producer of the id waits for that."""
    _transactional(address)


def works(address: str, directory: Path, told: Told, chance: Random) -> list[Callable[[threading.Event], None]]:
    own = Random(chance.random())
    return [
        lambda ending: produce(address, b"one", told, ending),
        lambda ending: produce(address, b"two", told, ending),
        lambda ending: transact(address, told, own, ending),
        lambda ending: consume(address, told, ending),
        lambda ending: consume(address, told, ending),
        lambda ending: watch(address, told, ending),
        lambda ending: append(directory, told, ending),
    ]


def append(directory: Path, told: Told, ending: threading.Event) -> None:
    """Another process that appends through the log itself, as Spark does."""
    acknowledged = told.acknowledged.setdefault(b"appender", set())
    with subprocess.Popen(
        [sys.executable, "-c", APPEND, str(directory), PLAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while not ending.wait(0.01):
            line = process.stdout.readline()
            assert line, "the appending process failed"
            acknowledged.add(int(line))
            process.stdin.write("\n")
            process.stdin.flush()
        process.kill()


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a directory's life"):
            live(run, case.chance, run.directory / f"{case.number}")


SUITE = Suite("kills", 500, run)
