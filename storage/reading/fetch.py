"""FetchData: the result of one fetch, with complete batches, and which of them a reader may see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from .. import format as formats
from ..config import INT64_MAX
from ..errors import CorruptRecordError
from ..format import v2
from ..format.constants import TimestampType
from ..format.record_columns import ALL_COLUMNS, in_parts
from ..format.tables import BatchHeaders, Bools, Int64s, Records
from ..segment.walk import Window
from ..segment.writer import LogSegment
from .aborted import AbortedTransaction

INT64_MIN = -INT64_MAX - 1


class Timespan(NamedTuple):
    """A range of timestamps, in ms, both ends inclusive; a read skips batches without any record in the range."""

    first: int = INT64_MIN
    last: int = INT64_MAX

    def holds(self, timestamps: Int64s) -> Bools:
        """Returns which timestamps are in the range; same shape."""
        found: Bools = (timestamps >= self.first) & (timestamps <= self.last)
        return found

    def may_hold(self, headers: BatchHeaders) -> Bools:
        """Returns which batches may have a record in the range; shape (batches,).

        A header has the largest timestamp of its batch. With LogAppendTime, all records have that timestamp.
        """
        largest = headers.table["max_timestamp"]
        is_all_later = (headers.timestamp_type == TimestampType.LOG_APPEND_TIME) & (largest > self.last)
        found: Bools = (largest >= self.first) & ~is_all_later
        return found


ALL_TIMES: Timespan = Timespan()


class RowChoice(Protocol):
    """Chooses records by some of their columns."""

    @property
    def columns(self) -> Collection[str]:
        """The columns, of :data:`ALL_COLUMNS`, that :meth:`rows` needs."""
        ...

    def rows(self, records: Records) -> Bools:
        """Returns which of ``records`` are chosen; shape (n,)."""
        ...


@dataclass(frozen=True)
class FetchData:
    """Complete batches of one segment, as stored; the first may begin below the requested offset."""

    segment: LogSegment
    window: Window
    visible: Bools  # shape (batches,): neither control batches nor, for read_committed, aborted ones
    aborted: tuple[AbortedTransaction, ...]  # for read_committed; in offset order
    asked: int | None = None  # the requested offset: the first batch reaches it, or no batch does; None: unknown

    @property
    def next_offset(self) -> int:
        """The offset at which the next fetch continues: the one after the last batch."""
        return self.window.headers.next_offset

    def checked_bytes(self) -> bytes:
        """Returns the batches as stored. Raises CorruptRecordError, with path and position, for a wrong checksum."""
        headers = self.window.headers
        try:
            formats.verify(self.window.buffer, headers)
        except CorruptRecordError as error:
            raise error.located(self.segment.shown_path, self.window.position) from None
        return self.window.buffer[: headers.end].tobytes()

    def halves(self) -> Sequence[FetchData]:
        """Returns the first half of the batches and the second, without the list of aborted transactions.

        Nothing for a single batch.
        """
        headers, middle = self.window.headers, len(self.window.headers) // 2
        if not middle:
            return ()
        asked = (self.asked, headers[:middle].next_offset)
        first, second = (
            FetchData(self.segment, self.window._replace(headers=headers[rows]), self.visible[rows], (), each)
            for rows, each in zip((slice(middle), slice(middle, None)), asked, strict=True)
        )
        return first, second

    def offset_with_records(self, offset: int) -> int | None:
        """Returns the first offset from ``offset`` on whose batch has a visible record there or after; None: no batch.

        Decodes a batch only if ``offset`` is inside it: compaction may have removed the records at its end.
        """
        table = self.window.headers.table
        for row in np.flatnonzero(self.visible & (table["count"] != 0)).tolist():
            first = int(table["base_offset"][row])
            if first >= offset:
                return first
            if table["magic"][row] < v2.MAGIC or self._reaches(row, offset):
                return offset
        return None

    def _reaches(self, row: int, offset: int) -> bool:
        """Whether the batch in ``row`` has a record from ``offset`` on."""
        rows = np.array([row], dtype=np.int64)
        offsets = self.segment.decode(self.window, rows).records.offsets
        return bool(len(offsets)) and int(offsets[-1]) >= offset

    def records(
        self, start: int, end: int, columns: Collection[str] = ALL_COLUMNS, timespan: Timespan = ALL_TIMES
    ) -> Records:
        """Returns the visible records with ``start <= offset < end``; verifies checksums.

        Skips batches that can have no record in ``timespan``. Raises CorruptRecordError or InvalidRecordError with path
        and position.
        """
        headers, wanted = self.window.headers, self.visible
        if self.next_offset > end:
            wanted = wanted & (_first_possible_offsets(headers) < end)
        if timespan != ALL_TIMES:
            wanted = wanted & timespan.may_hold(headers)
        rows = slice(None) if wanted.all() else np.flatnonzero(wanted)  # a slice copies no header
        return self.segment.decode(self.window, rows, tuple(columns), self.asked).records.between(start, end)

    def chosen(
        self, choice: RowChoice | None, start: int, end: int, columns: Collection[str], timespan: Timespan = ALL_TIMES
    ) -> Records:
        """Returns the records of :meth:`records` that ``choice`` chooses; None: all of them.

        If the choice has columns, decodes others only for batches with such a record.
        """
        if choice is None:
            return self.records(start, end, columns, timespan)
        needed = {*columns, *choice.columns}
        tested = self.records(start, end, choice.columns or needed, timespan)
        rows = np.flatnonzero(choice.rows(tested))
        if not len(rows) or not choice.columns or needed == {*choice.columns}:
            return _taken(tested, rows)
        last_offsets = self.window.headers.table["last_offset"]
        is_needed = np.zeros(len(last_offsets), dtype=np.bool_)
        is_needed[np.searchsorted(last_offsets, tested.offsets[rows])] = True
        del tested
        records = replace(self, visible=self.visible & is_needed).records(start, end, needed, timespan)
        return _taken(records, np.flatnonzero(choice.rows(records)))


def in_tables(data: FetchData, decode: Callable[[FetchData], Records]) -> Iterator[Records]:
    """Returns the results of ``decode`` for a fetch, without empty tables; for parts of it if one table is too small.

    A single batch always fits. Keeps no reference to the fetch while the caller uses a table.
    """
    return filter(len, in_parts(decode, data, FetchData.halves))


def _taken(records: Records, rows: Int64s) -> Records:
    """Returns the records with these indices, which ascend; the same table if these are all."""
    return records if len(rows) == len(records) else records.take(rows)


def _first_possible_offsets(headers: BatchHeaders) -> Int64s:
    """Returns, per batch, an offset below which the batch has no records.

    A header of magic 0 or 1 has only the last offset: the offset after the previous batch is used instead.
    """
    table = headers.table
    behind_previous = np.concatenate(([0], table["last_offset"][:-1] + 1))
    found: Int64s = np.where(table["magic"] >= 2, table["base_offset"], behind_previous[: len(table)])
    return found
