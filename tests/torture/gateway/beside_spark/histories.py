"""What a reader saw of the topic, and whether that is right.

Each writer numbers what it writes from 0 on. Record ``n`` has a key of its own, which compaction keeps; every few of
them are followed by one with a key that comes again, of which compaction keeps the newest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from pyspark_commitlog.storage import Isolation
from tests.torture.gateway.clients import Sent

COUNTERS = 7
COUNTED_EVERY = 5


class Row(NamedTuple):
    """A record as a reader saw it."""

    offset: int
    writer: bytes
    is_own: bool  # its key occurs once
    name: bytes  # of the counter, unless the key is its own
    number: int

    @classmethod
    def of(cls, offset: int, key: bytes | None, value: bytes | None) -> Row:
        writer, kind, name = (key or b"").split()
        return cls(offset, writer, kind == b"own", name, int(value or b""))


def records_of(writer: bytes, number: int, partitions: int) -> list[Sent]:
    """What a writer sends for a number: the record with a key of its own first."""
    value = b"%d" % number
    found = [Sent(b"%s own %d" % (writer, number), value, number % partitions)]
    if number % COUNTED_EVERY == 0:  # a key that comes again is always in the same partition
        counter = number % COUNTERS
        found.append(Sent(b"%s counter %d" % (writer, counter), value, counter % partitions))
    return found


@dataclass
class History:
    """The rows of a reader, by partition, in its order."""

    reader: str
    isolation: Isolation
    rows: dict[int, list[Row]] = field(default_factory=dict)

    def add(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        self.rows.setdefault(partition, []).append(Row.of(offset, key, value))

    @property
    def position(self) -> dict[int, int]:
        """By partition, the offset that follows the last row."""
        return {partition: rows[-1].offset + 1 for partition, rows in self.rows.items() if rows}

    def own(self, partition: int) -> list[tuple[int, bytes, int]]:
        """The records with keys of their own, as (offset, writer, number)."""
        return [(row.offset, row.writer, row.number) for row in self.rows.get(partition, ()) if row.is_own]


def check_order(history: History) -> None:
    """Offsets ascend, and of each writer the numbers: those of transactions where only committed ones are seen."""
    for partition, rows in history.rows.items():
        _check_ascending(history, partition, [row.offset for row in rows])
        for writer in {row.writer for row in rows}:
            if history.isolation is Isolation.READ_COMMITTED:
                _check_ascending(history, writer, [row.number for row in rows if row.writer == writer and row.is_own])


def _check_ascending(history: History, what: object, numbers: list[int]) -> None:
    back = next(((a, b) for a, b in pairwise(numbers) if b <= a), None)
    assert back is None, f"{history.reader}, {what!r}: twice, or out of order: {back}"


def check_same(history: History, expected: History) -> None:
    """The committed records with keys of their own are seen as ``expected``, the log at the end, has them."""
    for partition in expected.rows:
        wanted, found = expected.own(partition), history.own(partition)
        if history.isolation is Isolation.READ_UNCOMMITTED:
            known = set(wanted)
            found = [each for each in found if each in known]
        missing, surplus = set(wanted) - set(found), set(found) - set(wanted)
        where = f"{history.reader}, partition {partition}"
        assert not missing, f"{where}: {len(missing)} records are missing, such as {min(missing)}"
        assert not surplus, f"{where}: {len(surplus)} records are not in the log, such as {min(surplus)}"
        assert found == wanted, f"{where}: another order"


def numbers_of(history: History, writer: bytes) -> list[int]:
    """The numbers of a writer's records with keys of their own, ascending."""
    return sorted(row.number for rows in history.rows.values() for row in rows if row.is_own and row.writer == writer)


def check_acknowledged(history: History, writer: bytes, numbers: Iterable[int]) -> int:
    """What a writer was told is there; returns how many that are."""
    wanted = set(numbers)
    missing = wanted - set(numbers_of(history, writer))
    assert not missing, f"{writer!r}: {len(missing)} acknowledged records are missing, such as {min(missing)}"
    return len(wanted)


def check_once(history: History, writer: bytes) -> None:
    """No number of a writer is there twice, in any partition."""
    numbers = numbers_of(history, writer)
    assert len(numbers) == len(set(numbers)), f"{writer!r}: twice: {[a for a, b in pairwise(numbers) if a == b][:5]}"


def check_counters(history: History) -> None:
    """The newest record of each key that comes again is the newest that was written, if all of them are there."""
    newest: dict[tuple[bytes, bytes], int] = {}
    for rows in history.rows.values():
        for row in rows:
            if not row.is_own:
                key = row.writer, row.name
                assert newest.get(key, -1) < row.number, f"{key}: {row.number} after {newest[key]}"
                newest[key] = row.number
    for (writer, name), found in newest.items():
        counted = [each for each in numbers_of(history, writer) if each % COUNTED_EVERY == 0]
        last = max(each for each in counted if each % COUNTERS == int(name))
        assert found == last, f"{writer!r}, {name!r}: {found} is the newest, and not {last}"
