"""Clients that go on while their gateway is killed, and what they were told."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count as counting
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import confluent_kafka as rdkafka

from tests.torture.suite import Run

PLAIN, TRANSACTIONAL = "plain", "transactional"
PARTITIONS = 2
GROUP = "readers"
NONE = -1  # the offset of a group that has committed none
LIMIT_S = 240.0  # for what must end once nobody is killed any more, on a busy machine
UNHEARD = logging.Logger("librdkafka")  # has no handler: to be fenced is what some of them are for
UNHEARD.addHandler(logging.NullHandler())
Work = Callable[[threading.Event], None]  # what a client does until it is told to end


@dataclass
class Told:
    """What the clients were told, and which faults they saw."""

    acknowledged: dict[bytes, set[int]] = field(default_factory=dict)  # by writer of PLAIN
    committed: set[int] = field(default_factory=set)  # transactions, by number
    aborted: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    def note(self, run: Run) -> None:
        """Notes what is worth a figure."""
        for name, count in self.notes.items():
            run.note(name, count)
        run.note("transactions committed", len(self.committed))
        run.note("transactions aborted", len(self.aborted))


class Sent(NamedTuple):
    """A record as it is sent."""

    key: bytes | None
    value: bytes
    partition: int


class Client(threading.Thread):
    """A client at work until it is told to end; what it raises is a fault."""

    def __init__(self, work: Work, told: Told) -> None:
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


def finish(clients: Iterable[Client], limit_s: float = LIMIT_S) -> None:
    """Lets clients end, and waits for them; AssertionError if one does not."""
    for client in clients:
        client.ending.set()
    for client in clients:
        client.join(limit_s)
        assert not client.is_alive(), f"a client never ends:\n{client.stack()}"


APPEND = """
import sys
from pyspark_commitlog.storage import LogManager
from tests.support.logs import building
with LogManager.open(sys.argv[1]) as manager:
    number = 0
    while True:
        record = building.records([b"appender %d" % number], timestamps=building.now_ms())
        manager.open_log(sys.argv[2], number % 2).append_records(record)
        print(number, flush=True)
        number += 1
        if not sys.stdin.readline():
            break
"""


# The clients


def produce(
    address: str,
    name: bytes,
    told: Told,
    ending: threading.Event,
    *,
    topic: str = PLAIN,
    records: Callable[[bytes, int], Iterable[Sent]] = lambda name, number: [
        Sent(None, b"%s %d" % (name, number), number % PARTITIONS)
    ],
) -> None:
    """An idempotent producer, with several batches in progress.

    ``records``: what it sends for each number; the first of them counts as acknowledged.
    """
    acknowledged = told.acknowledged.setdefault(name, set())
    settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 10}
    producer, number = rdkafka.Producer({**settings, **PATIENT}), 0

    def delivered(counted: int | None, error: object, _: object) -> None:
        if error is not None:
            told.notes["refused records"] += 1
        elif counted is not None:
            acknowledged.add(counted)

    while not ending.is_set():
        for index, each in enumerate(records(name, number)):
            on_delivery = partial(delivered, None if index else number)
            while True:
                try:
                    producer.produce(topic, each.value, each.key, each.partition, on_delivery)
                    break
                except BufferError:
                    producer.poll(0.01)
        number += 1
        producer.poll(0.002)
    assert producer.flush(LIMIT_S) == 0, f"{name!r} could not send all"


PATIENT = {
    "message.timeout.ms": 600_000,
    "reconnect.backoff.max.ms": 200,
    "queue.buffering.max.messages": 2000,
    "log_level": 0,
}


def transact(
    address: str,
    told: Told,
    chance: Random,
    ending: threading.Event,
    *,
    transactional_id: str = "t",
    numbers: Iterator[int] | None = None,
) -> None:
    """A transactional producer: each transaction writes to both partitions. ``numbers``: its transactions', from 0 on.

    It commits no offsets: librdkafka can wait for ever to send them, past its own time-out, after a broker was killed.
    """
    producer = None
    for number in numbers or counting():
        if ending.is_set():
            return
        producer = producer or new_transactional(address, transactional_id)
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


def new_transactional(address: str, transactional_id: str = "t") -> Any:
    """A producer that has ended what its id left open."""
    producer = rdkafka.Producer(
        {"bootstrap.servers": address, "transactional.id": transactional_id, **PATIENT, **SHORT, "logger": UNHEARD}
    )
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


def consume(address: str, told: Told, ending: threading.Event, *, topic: str = PLAIN) -> None:
    """A member of the group that commits after every few records; a commit that was answered counts from then on."""
    settings = {"bootstrap.servers": address, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = rdkafka.Consumer({**settings, "enable.auto.commit": False, "session.timeout.ms": 20_000, **QUIET})
    consumer.subscribe([topic])
    while not ending.is_set():
        found = consumer.consume(100, 0.2)
        told.notes["records consumed"] += sum(not each.error() for each in found)
        if found:
            with suppress(rdkafka.KafkaException):
                consumer.commit(asynchronous=False)
                told.notes["commits"] += 1
    consumer.close()


QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 200}


def watch(address: str, told: Told, ending: threading.Event, *, topic: str = PLAIN) -> None:
    """Asks for the committed offsets again and again: none goes back, or is gone."""
    consumer = rdkafka.Consumer({"bootstrap.servers": address, "group.id": GROUP, **QUIET})
    places = [rdkafka.TopicPartition(topic, number) for number in range(PARTITIONS)]
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


def append(directory: Path | str, told: Told, ending: threading.Event, *, program: str = APPEND) -> None:
    """Another process that appends through the log itself, as Spark does."""
    acknowledged = told.acknowledged.setdefault(b"appender", set())
    with subprocess.Popen(
        [sys.executable, "-c", program, str(directory), PLAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
