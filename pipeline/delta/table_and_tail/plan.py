"""Which offsets of each partition are read from a table, and which from the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ....storage import (
    InvalidConfigError,
    Isolation,
    LogManager,
    OffsetOutOfRangeError,
    TopicPartition,
    find_made_again,
    topic_ids,
)
from ...rows.offsets import DataLoss
from ...rows.topic_ids import KnownOffsets
from ..provenance.other_log import other_log


class Seam(NamedTuple):
    """The next offset of each partition that a table knows.

    ``is_complete``: a partition without an offset is newer than the table. Otherwise such a partition may just have no
    rows.
    """

    known: KnownOffsets
    is_complete: bool


class Span(NamedTuple):
    """The read of a partition: its rows in the table, and the records from ``start`` up to, not including, ``end``.

    A partition without a tail has ``start == end``. If the caller asked for an ``end`` below ``start``, the table has
    more rows.
    """

    partition: TopicPartition
    start: int
    end: int

    @property
    def offset_count(self) -> int:
        """The number of offsets to read from the log; some may be markers or aborted records, which become no rows."""
        return max(0, self.end - self.start)


def tail(spans: list[Span]) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the starts and the ends, by number, of the partitions that have a tail."""
    parts = [each for each in spans if each.offset_count]
    starts = {each.partition.partition: each.start for each in parts}
    return starts, {each.partition.partition: each.end for each in parts}


@dataclass(frozen=True)
class Plan:
    """Compares a table with the log of ``topic``. ``table`` names the table in errors.

    The log is read up to ``ends``; partitions that it does not name are read up to the current last stable offset.
    ``asks_below(number, offset)`` says whether anything below an offset of a partition is asked for.
    """

    manager: LogManager
    topic: str
    table: str
    ends: Mapping[int, int]
    loss: DataLoss
    asks_below: Callable[[int, int], bool] = lambda number, offset: True

    def spans(self, seam: Seam) -> list[Span]:
        """Returns the read of each partition.

        Raises ProgressMismatchError for a table of another copy of the log; OffsetOutOfRangeError if the log no longer
        has what follows the table and is asked for, unless ``loss`` allows it; and InvalidConfigError for a table of
        another topic, for an end that the log does not reach.
        """
        numbers = sorted(self.manager.topic(self.topic).partitions)
        self._check_same_topic(seam.known)
        return [self._span(TopicPartition(self.topic, number), seam) for number in numbers]

    def _check_same_topic(self, known: KnownOffsets) -> None:
        if others := {each.topic for each in known.offsets} - {self.topic}:
            raise InvalidConfigError(f"{self.table} has rows of topic {', '.join(sorted(others))}, not of {self.topic}")
        there = self.manager.topic(self.topic).topic_partitions
        if text := find_made_again(known.ids, topic_ids(self.manager, there)):
            raise other_log(f"{self.table}: {text} in {self.manager.directory}")
        if missing := sorted(known.offsets.keys() - set(there)):
            raise other_log(f"{self.table} has rows of {missing[0]}, which {self.manager.directory} does not have")

    def _span(self, partition: TopicPartition, seam: Seam) -> Span:
        with self.manager.open_reader(*partition) as reader:
            first, last = reader.earliest_offset, reader.end_offset(Isolation.READ_COMMITTED)
            log_end = reader.log_end_offset
        # A query finds new partitions before each micro-batch, so its table has no rows of an unknown one.
        start = seam.known.offsets.get(partition, 0 if seam.is_complete else first)
        if start > log_end:
            raise other_log(
                f"{self.table} has {partition} up to offset {start - 1}, but the log in {self.manager.directory} ends "
                f"at {log_end}"
            )
        most = max(start, last)
        end = self.ends.get(partition.partition, most)
        if not 0 <= end <= most:
            raise InvalidConfigError(
                f"ends: offset {end} of {partition} is outside the log, whose committed records end before {most}"
            )
        if start < first and start < end:
            if self.asks_below(partition.partition, first):
                self._report_gap(partition, start, first)
            return Span(partition, first, max(first, end))
        return Span(partition, start, end)

    def _report_gap(self, partition: TopicPartition, start: int, first: int) -> None:
        self.loss.report(
            OffsetOutOfRangeError,
            f"{self.table} ends before offset {start} of {partition}, but the log begins at {first}: offsets {start} "
            f"to {first - 1} are in neither, because they were deleted before they were exported. Export more often, "
            "or keep them in the log until then",
        )


def spans(manager: LogManager, topic: str, table: str, known: KnownOffsets) -> list[Span]:
    """Returns the read of each partition up to the log's end. Raises the errors of :meth:`Plan.spans`."""
    return Plan(manager, topic, table, {}, DataLoss()).spans(Seam(known, is_complete=True))
