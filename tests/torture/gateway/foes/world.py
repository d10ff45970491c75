"""A log in a directory or on an object store, its honest clients, and what must hold of it at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from unittest import mock

from pyspark_commitlog.storage import GroupOffsets, Isolation, LogManager, topic_rules
from tests.gateway.handlers.access.test_reserved_names import PROGRESS, RESERVED, WRITER
from tests.support.logs import building
from tests.torture.gateway import bucket, kills
from tests.torture.gateway.beside_spark.readers import follow_wire
from tests.torture.gateway.clients import (
    APPEND,
    LIMIT_S,
    PARTITIONS,
    PLAIN,
    TRANSACTIONAL,
    Client,
    Told,
    Work,
    append,
    consume,
    finish,
    produce,
    transact,
    watch,
)
from tests.torture.gateway.foes.attacks import FOREIGN
from tests.torture.gateway.server import Server

TOPICS = (PLAIN, TRANSACTIONAL)
Row = tuple[int, bytes]  # its offset and its value


@dataclass
class Values:
    """What a reader of a topic saw, by partition, in its order."""

    reader: str
    isolation: Isolation
    topic: str
    rows: dict[int, list[Row]] = field(default_factory=dict)

    def add(self, partition: int, offset: int, _: bytes | None, value: bytes | None) -> None:
        self.rows.setdefault(partition, []).append((offset, value or b""))

    @property
    def position(self) -> dict[int, int]:
        """By partition, the offset that follows the last row."""
        return {partition: rows[-1][0] + 1 for partition, rows in self.rows.items()}


def check_seen(seen: Values, log: Mapping[int, list[Row]]) -> None:
    """What a reader saw is in order, and the log: all of it, and nothing else if it reads committed records."""
    for partition, expected in log.items():
        found, where = seen.rows.get(partition, []), f"{seen.reader}, {seen.topic}-{partition}"
        offsets = [offset for offset, _ in found]
        assert offsets == sorted(set(offsets)), f"{where}: twice, or out of order"
        assert FOREIGN not in {value for _, value in found}, f"{where}: a record of a hostile client"
        missing, surplus = set(expected) - set(found), set(found) - set(expected)
        assert not missing, f"{where}: {len(missing)} records are missing, such as {min(missing)}"
        if seen.isolation is Isolation.READ_COMMITTED:
            assert not surplus, f"{where}: {len(surplus)} records are not in the log, such as {min(surplus)}"


@dataclass
class World:
    """The log, its gateway, and what the honest clients were told. ``place``: a directory or URL."""

    place: str
    server: Server
    told: Told = field(default_factory=Told)
    seen: list[Values] = field(default_factory=list)

    def make_topics(self) -> None:
        """Besides the clients' topics, one with a reserved name, as clients of older versions could create it."""
        with LogManager.open(self.place, create="://" not in self.place) as manager:
            for topic in TOPICS:
                manager.create_topic(topic, partitions=PARTITIONS, configs={"segment.bytes": "100000"})
            with mock.patch.object(topic_rules, "is_reserved", return_value=False):
                manager.create_topic(RESERVED, partitions=1)
            GroupOffsets(manager).commit(WRITER, PROGRESS)

    def writing(self, chance: Random) -> list[Work]:
        """Honest clients that write or commit."""
        address, told = self.server.bootstrap, self.told
        program = bucket.COMMIT if "://" in self.place else APPEND
        return [
            partial(produce, address, b"one", told),
            partial(produce, address, b"two", told),
            partial(transact, address, told, Random(chance.random())),
            partial(consume, address, told),
            partial(consume, address, told),
            partial(watch, address, told),
            partial(append, self.place, told, program=program),
        ]

    def writing_again(self, chance: Random) -> list[Work]:
        """Others, for a log that was set back: they write other records than those before."""
        address, told = self.server.bootstrap, self.told
        return [
            partial(produce, address, b"three", told),
            partial(produce, address, b"four", told),
            partial(transact, address, told, Random(chance.random()), numbers=count(1_000_000)),
        ]

    def reading(self) -> list[Work]:
        """Readers of each topic at each isolation level."""
        self.seen = [Values(f"librdkafka, {level.value}", level, topic) for topic in TOPICS for level in Isolation]
        return [partial(follow_wire, self.server.bootstrap, each, topic=each.topic) for each in self.seen]

    def await_progress(self) -> None:
        """Waits until each writer and each reader got on; AssertionError if one never does."""
        before, until_s = self._counts(), time.monotonic() + LIMIT_S
        while stuck := [name for name, counted in self._counts().items() if counted <= before[name]]:
            assert not self.told.faults, "\n".join(self.told.faults[:3])
            assert time.monotonic() < until_s, f"no progress: {stuck}"
            time.sleep(0.2)

    def _counts(self) -> dict[str, int]:
        acknowledged = {f"records of {name!r}": len(numbers) for name, numbers in self.told.acknowledged.items()}
        seen = {f"{each.reader}, {each.topic}": sum(map(len, each.rows.values())) for each in self.seen}
        return {**acknowledged, **seen, "transactions": len(self.told.committed)}

    def end(self, writing: list[Client], reading: list[Client]) -> int:
        """Ends all clients in peace, and compares; returns how many records were acknowledged."""
        finish(writing)
        kills.settle(self.server.bootstrap)
        finish(reading)
        assert not self.told.faults, "\n".join(self.told.faults[:3])
        self.server.check_log()
        return self.check()

    def check(self) -> int:
        """Compares the log with what its clients were told and saw; returns how many records were acknowledged."""
        for topic in TOPICS:
            for level in Isolation:
                values = {value for rows in rows_of(self.place, topic, level).values() for _, value in rows}
                assert FOREIGN not in values, f"{topic}: a record of a hostile client"
        for seen in self.seen:
            check_seen(seen, rows_of(self.place, seen.topic, Isolation.READ_COMMITTED))
        kills.check_transactions(self.place, self.told)
        return kills.check_plain(self.place, self.told)

    def check_progress(self) -> None:
        """No client has changed the progress of a sink."""
        with LogManager.open(self.place) as manager:
            assert GroupOffsets(manager).fetch(WRITER) == PROGRESS, "the progress of a sink was changed"
            assert manager.topic(RESERVED).partitions == (0,)


def rows_of(place: str, topic: str, isolation: Isolation) -> dict[int, list[Row]]:
    """A topic as it is, by partition."""
    found = {}
    with LogManager.open(place) as manager:
        for partition in range(PARTITIONS):
            with manager.open_reader(topic, partition) as reader:
                found[partition] = [(offset, value or b"") for offset, value in building.rows(reader, isolation)]
    return found


@contextmanager
def at_work(works: list[Work], told: Told) -> Iterator[list[Client]]:
    """Clients at work, which are told to end at last, also after a fault."""
    clients = [Client(work, told) for work in works]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.ending.set()
