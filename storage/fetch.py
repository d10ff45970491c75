"""What one fetch gives: whole batches, and which of them, and of their records, a reader is shown."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pyspark_commitlog.storage.config import INT64_MAX
from pyspark_commitlog.storage.format.fields import TimestampType
from pyspark_commitlog.storage.format.tables import BatchHeaders, Bools, Int64s, Records
from pyspark_commitlog.storage.outcomes import AbortedTransaction
from pyspark_commitlog.storage.segment import LogSegment
from pyspark_commitlog.storage.segment_reader import Window

ALL_COLUMNS = ("key", "value", "headers")
INT64_MIN = -INT64_MAX - 1


class Timespan(NamedTuple):
    """Which records a reader wants by their time, in ms, both ends included: batches without any are passed over."""

    first: int = INT64_MIN
    last: int = INT64_MAX

    def may_hold(self, headers: BatchHeaders) -> Bools:
        """Which batches may have such a record. Only of LogAppendTime does a header tell the smallest time as well."""
        largest = headers.table["max_timestamp"]
        is_all_later = (headers.timestamp_type == TimestampType.LOG_APPEND_TIME) & (largest > self.last)
        found: Bools = (largest >= self.first) & ~is_all_later
        return found


ALL_TIMES = Timespan()


@dataclass(frozen=True)
class FetchData:
    """Whole batches of one segment, as they lie there; the first may begin below the offset asked for."""

    segment: LogSegment
    window: Window
    visible: Bools  # shape (batches,): neither control batches nor, for read_committed, aborted ones
    aborted: tuple[AbortedTransaction, ...]  # of read_committed; in the order of their offsets
    asked: int | None = None  # the offset asked for: the first batch reaches it, or nothing does; None: unknown

    @property
    def next_offset(self) -> int:
        """Where to read on."""
        return self.window.headers.next_offset

    def records(
        self, start: int, end: int, columns: Collection[str] = ALL_COLUMNS, timespan: Timespan = ALL_TIMES
    ) -> Records:
        """The visible records with ``start <= offset < end``; checksums are verified here.

        Those of a batch that has none of ``timespan`` are left out. Raises CorruptRecordError or InvalidRecordError
        with path and position.
        """
        headers, wanted = self.window.headers, self.visible
        if self.next_offset > end:
            wanted = wanted & (_first_possible_offsets(headers) < end)
        if timespan != ALL_TIMES:
            wanted = wanted & timespan.may_hold(headers)
        rows = slice(None) if wanted.all() else np.flatnonzero(wanted)  # a slice copies no header
        return self.segment.decode(self.window, rows, tuple(columns), self.asked).records.between(start, end)


def _first_possible_offsets(headers: BatchHeaders) -> Int64s:
    """Below which a batch has no records. A header of the older formats tells only the last offset."""
    table = headers.table
    behind_previous = np.concatenate(([0], table["last_offset"][:-1] + 1))
    found: Int64s = np.where(table["magic"] >= 2, table["base_offset"], behind_previous[: len(table)])
    return found
