"""Describes a partition: retention's plan for each segment, and how much compaction would read.

:func:`describe_topics` describes all topics in short, from indexes, sizes and the batches at the ends of each log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ..compaction.dirty import Cleanable, cleanable
from ..config import LogConfig
from ..directory.log_directory import check_copied
from ..directory.manager import LogManager
from ..directory.topics_file import TopicDescription
from ..errors import LogStoreError, kept_in
from ..format.constants import NO_TIMESTAMP
from ..format.files import file_names
from ..format.files.file_names import TopicPartition
from ..groups.lag import GroupLags
from ..groups.states import GroupDescription
from ..reading.reader import LogReader
from ..retention.apply import preview_retention
from ..retention.plan import SegmentFate
from ..retention.report import RetentionReport
from ..segment.walk import PROBE_BYTES
from ..segment.writer import LogSegment
from ..transactions.hanging import HangingTransaction, HoldingTransaction, hanging_transactions, holding_transaction
from .retain import retention_options
from .selecting import select_partition


@dataclass(frozen=True)
class PartitionDescription:
    """A partition at one moment: its segments, what retention and compaction would do, and an open transaction."""

    topic: str
    partition: int
    retention: RetentionReport  # a dry run: its plan has every segment, with its fate and the reason
    cleanable: Cleanable | None  # None if the topic is not compacted
    holding: HoldingTransaction | None = None  # the open transaction that holds back readers of committed records
    hanging: Sequence[HangingTransaction] = ()  # open transactions that no coordinator ends
    remote: range | None = None  # offsets that only a broker's remote storage has

    def compaction_of(self, fate: SegmentFate) -> str | None:
        """Returns ``clean``, ``dirty``, ``uncleanable`` (compaction may not touch the segment yet), or None."""
        if self.cleanable is None:
            return None
        if fate.segment.base_offset >= self.cleanable.first_uncleanable_offset:
            return "uncleanable"
        return "clean" if fate.segment.next_offset <= self.cleanable.first_dirty_offset else "dirty"

    @property
    def compaction_text(self) -> str | None:
        """How dirty the log is, and what the next compaction does; None if the topic is not compacted."""
        what = self.cleanable
        if what is None:
            return None
        reason = f": the ratio must be above {what.ratio_min:g}" if what.is_dirty else ""
        return (
            f"dirty ratio {what.ratio:.2f}: {what.dirty_bytes:,} dirty bytes, {what.clean_bytes:,} clean; compaction "
            f"is {'due' if what.is_due else f'not due{reason}'}; it stops at {what.first_uncleanable_offset}: "
            f"{what.held_by}"
        )

    def state_of(self, fate: SegmentFate) -> str:
        """Returns ``deletable``, ``active``, what compaction may do with the segment, or ``closed``."""
        return (
            "deletable" if fate.goes else "active" if fate.segment.is_active else self.compaction_of(fate) or "closed"
        )


def describe_partition(
    manager: LogManager, topic: str, partition: int, *, as_of_ms: int | None = None
) -> PartitionDescription:
    """Returns the description of a partition as of ``as_of_ms``. Takes no lock, reads no more than batch headers.

    Raises UnknownTopicOrPartitionError; CorruptionError; StorageError if files keep vanishing while it reads.
    """
    checkpointed = manager.offsets(file_names.CLEANER_OFFSET_CHECKPOINT).get(TopicPartition(topic, partition))
    now_ms = manager.clock.now_ms() if as_of_ms is None else as_of_ms
    chosen = select_partition(manager, topic, partition)
    with _opened(manager, TopicPartition(topic, partition), chosen.config) as log:
        log.check_readable_to(log.log_end_offset)
        plan = preview_retention(log, retention_options(chosen), as_of_ms=now_ms)
        hanging = hanging_transactions(manager, TopicPartition(topic, partition), log)
        what = _cleanable(log, checkpointed, now_ms)
        return PartitionDescription(topic, partition, plan, what, holding_transaction(log), hanging, log.remote)


def _opened(manager: LogManager, partition: TopicPartition, config: LogConfig | None = None) -> LogReader:
    """Opens a partition for reading.

    Raises MissingSegmentError if the copy of the partition into this log is unfinished.
    """
    check_copied(manager.filesystem, manager.partition_path(*partition))
    return manager.open_reader(*partition, config, reports_remote=False)


def _cleanable(log: LogReader, checkpointed: int | None, now_ms: int) -> Cleanable | None:
    if not log.context.config.compact:
        return None
    return log.looking_again(lambda: cleanable(log, checkpointed, now_ms))


@dataclass(frozen=True)
class TopicSummary:
    """A topic at one moment, over all its partitions that can be read."""

    topic: str
    partitions: int
    offsets: int = 0  # from log start to log end: records, markers, and what compaction removed
    size: int = 0  # bytes of all .log files
    first_timestamp_ms: int = NO_TIMESTAMP  # of the first batch of a log
    last_timestamp_ms: int = NO_TIMESTAMP  # the largest in the last segment of a log
    magics: frozenset[int] = frozenset()  # of the first batches of the first and the last segment
    producers: frozenset[int] = frozenset()  # with an open transaction
    lags: Mapping[str, int] = field(default_factory=dict)  # offsets up to the log ends, by group


def describe_topics(
    manager: LogManager, topics: Sequence[TopicDescription], failures: list[LogStoreError]
) -> Iterator[TopicSummary]:
    """Yields a summary of each topic. Takes no lock, and reads no log as a whole.

    Unreadable partitions and groups are left out, and their errors added to ``failures``.
    """
    groups: Sequence[GroupDescription] = ()
    with kept_in(failures):
        groups = GroupLags(manager).groups(failures)
    for topic in topics:
        found, ends = TopicSummary(topic.name, len(topic.partitions)), dict[TopicPartition, int]()
        for partition in topic.topic_partitions:
            with kept_in(failures), _opened(manager, partition) as log:
                log.check_readable_to(log.log_end_offset)
                found = log.looking_again(partial(_with_log, found, log))
                ends[partition] = log.log_end_offset
        yield replace(found, lags=_lags(groups, ends))


def _with_log(so_far: TopicSummary, log: LogReader) -> TopicSummary:
    """Returns the summary with one more of the topic's logs."""
    found = replace(
        so_far,
        offsets=so_far.offsets + log.log_end_offset - log.log_start_offset,
        size=so_far.size + log.file_bytes(),
        producers=so_far.producers.union(log.producers.ongoing.values()),
    )
    segments = log.segments.reaching(log.log_start_offset)
    first, last = (next((each for each in order if each.size), None) for order in (segments, segments[::-1]))
    if first is None or last is None:
        return found
    firsts = [each for each in (so_far.first_timestamp_ms, first.first_timestamp) if each >= 0]
    return replace(
        found,
        first_timestamp_ms=min(firsts, default=NO_TIMESTAMP),
        last_timestamp_ms=max(so_far.last_timestamp_ms, last.largest.timestamp),
        magics=so_far.magics.union(*map(_first_magic, (first, last))),
    )


def _first_magic(segment: LogSegment) -> Iterator[int]:
    window = next(segment.batches(window_bytes=PROBE_BYTES), None)
    if window is not None:
        yield int(window.headers.table["magic"][0])


def _lags(groups: Sequence[GroupDescription], ends: Mapping[TopicPartition, int]) -> dict[str, int]:
    """Returns the lag of each group that committed offsets for some of these partitions, the sum of theirs."""
    found = dict[str, int]()
    for group in groups:
        behind = [ends[each] - committed.offset for each, committed in group.offsets.items() if each in ends]
        if behind:
            found[group.name] = sum(behind)
    return found
