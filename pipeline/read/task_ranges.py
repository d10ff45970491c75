"""Splits offset ranges into tasks, as Spark's Kafka source does (KafkaOffsetRangeCalculator of Spark 4.2), or by bytes.

A plan has offsets, never file positions: a segment may be replaced between planning and reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from ...storage import TopicPartition

# Bytes of log that one task reads by default, as many as a task that reads files (spark.sql.files.maxPartitionBytes).
# A partition with fewer bytes is read by one task, as with Spark's Kafka source.
TASK_BYTES = 128 * 1024 * 1024


@dataclass
class OffsetRange(InputPartition):
    """The records that one task reads: those of ``source`` with ``start`` <= offset < ``end``."""

    source: TopicPartition
    start: int
    end: int
    topic_id: str | None = None  # the id of the topic for which it was planned, if the reader checks that

    @property
    def size(self) -> int:
        """The number of offsets, which is the number of records or more."""
        return self.end - self.start


@dataclass(frozen=True)
class TaskLimits:
    """The options ``minPartitions`` and ``maxRecordsPerPartition``, which bound a query's tasks; None or above 0."""

    min_partitions: int | None = None
    max_records_per_partition: int | None = None


def plan(
    ranges: Iterable[OffsetRange],
    limits: TaskLimits,
    bytes_of: Callable[[OffsetRange], int] | None = None,
) -> list[OffsetRange]:
    """Returns one range per task, in the order of ``ranges``, without empty ones.

    First, splits every range with more than ``maxRecordsPerPartition`` offsets evenly. Then, if there are fewer ranges
    than ``minPartitions``, splits large ranges in proportion to their size to get about that many. If neither limit is
    given, splits ranges so that no task reads much more than ``TASK_BYTES``; ``bytes_of`` returns the size of a range
    in bytes.
    """
    found = [each for each in ranges if each.size > 0]
    if limits.max_records_per_partition is not None:
        most = limits.max_records_per_partition
        found = [part for each in found for part in _parted(each, math.ceil(each.size / most))]
    elif limits.min_partitions is None and bytes_of is not None:
        found = [part for each in found for part in _parted(each, math.ceil(bytes_of(each) / TASK_BYTES))]
    if limits.min_partitions is not None and limits.min_partitions > len(found):
        found = _at_least(limits.min_partitions, found)
    return found


def _at_least(wanted: int, ranges: list[OffsetRange]) -> list[OffsetRange]:
    """Splits ``ranges`` into about ``wanted`` ranges. Small ranges stay whole; only the others share the splits."""
    total = sum(each.size for each in ranges)
    whole = [each for each in ranges if _share(each.size, total, wanted) == 1]
    stay_whole = {each.source for each in whole}  # by partition, as in Spark, even if its ranges differ in size
    offsets_to_split = total - sum(each.size for each in whole)
    tasks_to_share = max(wanted - len(whole), 1)
    return [
        part
        for each in ranges
        for part in _parted(
            each, 1 if each.source in stay_whole else _share(each.size, offsets_to_split, tasks_to_share)
        )
    ]


def _share(size: int, total: int, tasks: int) -> int:
    """Returns how many of ``tasks`` a range of ``size`` offsets gets: at least 1, rounded half up, as in Java."""
    return max(math.floor(size / total * tasks + 0.5), 1)


def _parted(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Splits ``whole`` into about equal parts, none of them empty; with more parts than offsets, one per offset."""
    found, start = [], whole.start
    for remaining in range(max(min(parts, whole.size), 1), 0, -1):
        end = start + (whole.end - start) // remaining
        if end > start:
            found.append(replace(whole, start=start, end=end))
        start = end
    return found
