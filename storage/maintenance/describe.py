"""Describes a partition: retention's plan for each segment, and how much compaction would read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..compaction import Cleanable, cleanable
from ..directory import LogManager
from ..format.files import file_names
from ..format.files.file_names import TopicPartition
from ..reading import LogReader
from ..retention import RetentionReport, SegmentFate, preview_retention
from ..transactions import HangingTransaction, HoldingTransaction, hanging_transactions, holding_transaction
from .retain import retention_options
from .selecting import select_partition


@dataclass(frozen=True)
class PartitionDescription:
    """A partition at one moment: its segments, what retention and compaction would do, and an open transaction."""

    topic: str
    partition: int
    retention: RetentionReport  # a dry run: its plan has every segment, with its fate and the reason
    cleanable: Cleanable | None  # None if the topic is not compacted
    holding: HoldingTransaction | None = None  # the transaction that readers of committed records wait for
    hanging: Sequence[HangingTransaction] = ()  # open transactions that no coordinator ends
    remote: range | None = None  # offsets that only a broker's remote storage has

    def compaction_of(self, fate: SegmentFate) -> str | None:
        """Returns ``clean``, ``dirty``, ``uncleanable`` (compaction may not touch the segment yet), or None."""
        if self.cleanable is None:
            return None
        if fate.segment.base_offset >= self.cleanable.first_uncleanable_offset:
            return "uncleanable"
        return "clean" if fate.segment.next_offset <= self.cleanable.first_dirty_offset else "dirty"


def describe_partition(
    manager: LogManager, topic: str, partition: int, *, as_of_ms: int | None = None
) -> PartitionDescription:
    """Returns the description of a partition as of ``as_of_ms``. Takes no lock, reads no more than batch headers.

    Raises UnknownTopicOrPartitionError; CorruptionError; StorageError if files keep vanishing while it reads.
    """
    checkpointed = manager.offsets(file_names.CLEANER_OFFSET_CHECKPOINT).get(TopicPartition(topic, partition))
    now_ms = manager.clock.now_ms() if as_of_ms is None else as_of_ms
    chosen = select_partition(manager, topic, partition)
    with manager.open_reader(topic, partition, chosen.config, reports_remote=False) as log:
        log.check_readable_to(log.log_end_offset)
        plan = preview_retention(log, retention_options(chosen), as_of_ms=now_ms)
        hanging = hanging_transactions(manager, TopicPartition(topic, partition), log)
        what = _cleanable(log, checkpointed, now_ms)
        return PartitionDescription(topic, partition, plan, what, holding_transaction(log), hanging, log.remote)


def _cleanable(log: LogReader, checkpointed: int | None, now_ms: int) -> Cleanable | None:
    if not log.context.config.compact:
        return None
    return log.looking_again(lambda: cleanable(log, checkpointed, now_ms))
