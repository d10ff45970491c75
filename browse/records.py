"""A page of records: forward from an offset or a time, or backward from an offset, in bounded time and memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..storage import ALL_TIMES, CorruptionError, Isolation, LogReader, Records, Timespan, salvaged_records
from .decoding import Part

FETCH_BYTES = 256 << 10  # bytes read at once: a page has few records
PART_BYTES = 64 << 10  # bytes of a key or a value that a page shows; the page of one record has more
PAGE_BYTES = 4 << 20  # bytes of all keys and values; a page with large ones has fewer records
BACK_OFFSETS = 10_000  # limit of one range backwards: each is read forwards, to its end
SECONDS_MAX = 1.0  # how long a page searches; then it shows the records it has, and a link to continue


class Record(NamedTuple):
    """A record of a page."""

    offset: int
    timestamp_ms: int  # -1: none
    timestamp_type: int  # storage.TimestampType
    key: Part
    value: Part
    headers: list[tuple[str, Part]]
    state: str = ""  # the state of its transaction: aborted or open; empty: committed, or no transaction

    @property
    def size(self) -> int:
        return sum(len(each.data or b"") for each in (self.key, self.value, *(part for _, part in self.headers)))


@dataclass(frozen=True)
class Asked:
    """The request for a page of records."""

    offset: int | None = None  # the first; None: at the end of the log
    before: int | None = None  # instead: the records below this offset
    times: Timespan = ALL_TIMES  # only records of these times
    limit: int = 50
    isolation: Isolation = Isolation.READ_COMMITTED


@dataclass
class Found:
    """Records in the order of their offsets, and where the pages beside this one begin."""

    start: int  # offsets from here
    end: int  # the end (exclusive) of the search
    records: list[Record] = field(default_factory=list)
    damage: list[CorruptionError] = field(default_factory=list)
    is_over: bool = False  # the time limit ended the page before it was full

    @property
    def size(self) -> int:
        return sum(each.size for each in self.records)


class RecordPages:
    """The pages of one partition."""

    def __init__(self, log: LogReader, *, seconds_max: float = SECONDS_MAX) -> None:
        self._log = log
        self._until = time.monotonic() + seconds_max

    def page(self, asked: Asked) -> Found:
        """Returns the records. Damage is skipped, and reported in the result."""
        first, end = self._log.log_start_offset, self._log.end_offset(asked.isolation)
        if asked.offset is None and asked.before is None and asked.times.first != ALL_TIMES.first:
            found = self._from_time(asked, first, end)
        elif asked.offset is None:
            found = self._backward(asked, first, end if asked.before is None else min(asked.before, end))
        else:
            found = self._forward(asked, min(max(asked.offset, first), end), end)
        return replace(found, records=self._with_states(found.records, asked.isolation))

    def _from_time(self, asked: Asked, first: int, end: int) -> Found:
        damage = []
        try:
            at = self._log.offset_for_timestamp(asked.times.first, asked.isolation)
            start = end if at is None else at.offset
        except CorruptionError as error:  # the lookup fails here; a read from the start still works
            damage, start = [error], first
        found = self._forward(asked, start, end)
        return replace(found, damage=[*damage, *(each for each in found.damage if str(each) not in map(str, damage))])

    def _forward(self, asked: Asked, start: int, end: int) -> Found:
        found = Found(start, start)
        for table in self._tables(start, end, asked, found.damage):
            for row in _rows_within(table, asked.times):
                record = to_record(table, row)
                found.records.append(record)
                found.end = record.offset + 1
                if len(found.records) == asked.limit or found.size >= PAGE_BYTES:
                    return found
            found.end = max(found.end, int(table.offsets[-1]) + 1)
            if self._is_late():
                return replace(found, is_over=True)
        return replace(found, end=end)

    def _backward(self, asked: Asked, first: int, end: int) -> Found:
        """Reads one range of offsets after the other, backwards; after compaction, a range may have no record."""
        found, step = Found(end, end), asked.limit
        while found.start > first and len(found.records) < asked.limit and found.size < PAGE_BYTES:
            begin = max(first, found.start - step)
            last = self._last_within(asked, begin, found)
            found.records = [*last, *found.records]
            found.start = last[0].offset if last and len(found.records) >= asked.limit else begin
            step = min(step * 2, BACK_OFFSETS)
            if self._is_late() and found.start > first:
                found.is_over = len(found.records) < asked.limit
                break
        return found

    def _last_within(self, asked: Asked, begin: int, found: Found) -> list[Record]:
        """Returns the last records of a step, as many as the page still has room for."""
        room, last = asked.limit - len(found.records), list[Record]()
        for table in self._tables(begin, found.start, asked, found.damage):
            rows = _rows_within(table, asked.times)[-room:]
            last = [*last, *(to_record(table, row) for row in rows)][-room:]
        return last

    def _tables(self, start: int, end: int, asked: Asked, damage: list[CorruptionError]) -> Iterator[Records]:
        """Yields the records of sound batches; after damage, with a reader that continues after it."""
        read = partial(self._log.records, isolation=asked.isolation, timespan=asked.times, fetch_bytes=FETCH_BYTES)
        try:
            for table in read(start, end):
                yield table
                start = int(table.offsets[-1]) + 1
        except CorruptionError:
            yield from salvaged_records(
                self._log, start, end, damage.append, isolation=asked.isolation, timespan=asked.times
            )

    def _with_states(self, records: list[Record], isolation: Isolation) -> list[Record]:
        """Returns the records with the states of their transactions, which a reader of committed records hides."""
        if isolation is Isolation.READ_COMMITTED or not records:
            return records
        begin, end, stable = records[0].offset, records[-1].offset + 1, self._log.last_stable_offset
        asked = Asked(isolation=Isolation.READ_COMMITTED)
        shown = {each for table in self._tables(begin, min(end, stable), asked, []) for each in table.offsets.tolist()}
        return [
            each if each.offset in shown else each._replace(state="open" if each.offset >= stable else "aborted")
            for each in records
        ]

    def _is_late(self) -> bool:
        return time.monotonic() > self._until

    def one(self, offset: int, bytes_max: int) -> Record | None:
        """Returns the record at an offset, of any transaction, with ``bytes_max`` of each part; None: there is none.

        Raises CorruptionError.
        """
        if not self._log.log_start_offset <= offset < self._log.log_end_offset:
            return None
        for table in self._log.records(offset, offset + 1, isolation=Isolation.READ_UNCOMMITTED):
            for row in np.flatnonzero(table.offsets == offset).tolist():
                return self._with_states([to_record(table, row, bytes_max)], Isolation.READ_UNCOMMITTED)[0]
        return None


def _rows_within(table: Records, times: Timespan) -> list[int]:
    rows: list[int] = np.flatnonzero(times.holds(table.timestamps)).tolist()
    return rows


def to_record(table: Records, row: int, bytes_max: int = PART_BYTES) -> Record:
    """Returns a row of a table, with the beginnings of large parts: the table's memory is not kept."""
    one = table.slice(row, row + 1)
    assert one.keys is not None
    assert one.values is not None
    headers = [] if one.headers is None else one.headers.to_list()[0]
    return Record(
        int(one.offsets[0]),
        int(one.timestamps[0]),
        int(one.timestamp_types[0]),
        Part.of(one.keys.to_list()[0], bytes_max),
        Part.of(one.values.to_list()[0], bytes_max),
        [(readable_name(name), Part.of(value, bytes_max)) for name, value in headers],
    )


def readable_name(name: bytes) -> str:
    """Returns the name of a header; it is UTF-8 unless a producer made a mistake."""
    return name.decode(errors="backslashreplace")
