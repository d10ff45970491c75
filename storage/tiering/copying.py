"""Copies the closed segments of a log to a tier, and deletes from it what retention no longer keeps.

A segment goes through the states of Kafka's ``__remote_log_metadata``, in this order; the next run continues from each:

========================================  =====================================================================
Killed after                              What is there, and what the next run does
========================================  =====================================================================
COPY_SEGMENT_STARTED was synced           perhaps some objects: it deletes them, and copies the segment again
the objects were written and compared     the same
COPY_SEGMENT_FINISHED was synced          a copied segment; only now may the local one go (``retention``)
the log start was raised                  segments below it, which it deletes
DELETE_SEGMENT_STARTED was synced         perhaps some objects: it deletes them
the objects were deleted                  the same, in vain
DELETE_SEGMENT_FINISHED was synced        nothing of the segment
========================================  =====================================================================

A copy that takes the place of another one is finished, and the deletion of that one begins, in one record batch: no
kill leaves both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import uuid4

from ..bucket.stores.port import ObjectStore
from ..clock import instant
from ..directory.admin import topic_id
from ..directory.manager import LogManager
from ..errors import PolicyViolationError
from ..format.files import checkpoints
from ..format.files.file_names import TopicPartition
from ..remote_metadata.topic import BROKER_ID, MetadataTopic, copied_below, not_copied
from ..tiers.metadata_records import SegmentMetadata, SegmentState, TopicIdPartition
from ..tiers.writing import delete_segment, put_segment
from ..writing.log import Log
from .contents import SegmentContent, contents_of


class TieredPartition(NamedTuple):
    """The result of a run for one partition."""

    topic: str
    partition: int
    copied: int  # segments
    copied_bytes: int  # of their .log
    deleted: int  # segments of the tier
    tier_start_offset: int
    tier_end_offset: int  # the tier has all records below it


def copy_to_tier(
    manager: LogManager, store: ObjectStore, log: Log, partition: TopicPartition, metadata: MetadataTopic
) -> TieredPartition:
    """Brings the tier of one partition up to date; durable on return.

    Copies every closed segment that is wholly below the last stable offset, unless ``remote.log.copy.disable`` is on.
    Deletes segments of the tier that are wholly below the log start, after it was raised according to ``retention.ms``
    and ``retention.bytes``. Raises LogDirLockedError while other maintenance of the partition runs, CorruptionError for
    a damaged log, and the errors of the store.
    """
    config = log.context.config
    if config.compact:
        raise PolicyViolationError(f"{partition}: cleanup.policy=compact, and compacted topics have no tier")
    with log.maintaining(f"copy to {store.url} since {instant(manager.clock.now_ms())}"):
        return _Tiering(manager, store, partition, metadata, log).run(copies=not config.remote_log_copy_disable)


def due_segments(manager: LogManager, partition: TopicPartition, metadata: MetadataTopic) -> TieredPartition:
    """Returns the segments that :func:`copy_to_tier` would copy. Changes nothing."""
    with manager.open_reader(*partition, reports_remote=False) as reader:
        start = reader.log_start_offset if reader.remote is None else reader.remote.start
        there = metadata.finished(_place(manager, partition))
        end, stable = copied_below(there, start), reader.last_stable_offset
        missing = not_copied(there, start, stable)
        closed = [each for each in reader.describe_segments()[:-1] if each.next_offset <= stable]
        due = [each for each in closed if any(each.base_offset in offsets for offsets in missing)]
    return TieredPartition(*partition, len(due), sum(each.size for each in due), 0, start, end)


class _Tiering:
    """A run over one partition. The maintenance lock is held, so no other run changes its segments."""

    def __init__(
        self, manager: LogManager, store: ObjectStore, partition: TopicPartition, metadata: MetadataTopic, log: Log
    ) -> None:
        self._manager, self._store, self._metadata, self._log = manager, store, metadata, log
        self._partition, self._place = partition, _place(manager, partition)

    def run(self, *, copies: bool) -> TieredPartition:
        self._note_start()
        self._finish_unfinished()
        copied = self._copy_missing() if copies else []
        deleted = self._delete_old()
        there = self._finished()
        start = there[0].start_offset if there else self._log.log_start_offset
        end = copied_below(there, start)
        size = sum(each.size for each in copied)
        return TieredPartition(*self._partition, len(copied), size, deleted, start, end)

    def _note_start(self) -> None:
        """Adds the log start to a checkpoint that was lost: what the tier has must not count as deleted."""
        log, there = self._log, self._finished()
        first = log.segments.first.base_offset
        if there and first and not log.checkpoints.notes_start():
            start = min(there[0].start_offset, first)  # the tier need not have anything below the first segment
            log.checkpoints.note_start(start)
            log.delete_records(start)

    # Copying

    def _copy_missing(self) -> list[SegmentMetadata]:
        log, copied = self._log, list[SegmentMetadata]()
        start = max(log.segments.first.base_offset, log.log_start_offset)
        end = max((base for base in log.segments.base_offsets if base <= log.last_stable_offset), default=start)
        for missing in not_copied(self._finished(), start, end):
            old = self._copies_after_empty(missing)
            stop = max([missing.stop, *(each.end_offset + 1 for each in old)])
            with self._manager.open_reader(*self._partition, reports_remote=False) as reader:
                contents = contents_of(reader, missing.start, stop)
                copied += self._copy_again(contents, old) if old else map(self._copy, contents)
        return copied

    def _copies_after_empty(self, missing: range) -> list[SegmentMetadata]:
        """Returns the copies to make again, since a tier has no segment for offsets that only empty segments have."""
        segments = [each for each in self._log.segments.reaching(missing.start) if each.base_offset < missing.stop]
        is_empty = not any(each.size for each in segments)
        return [each for each in self._finished() if is_empty and each.start_offset == missing.stop]

    def _copy(self, content: SegmentContent) -> SegmentMetadata:
        segment = self._put(content)
        self._metadata.note([segment], SegmentState.COPY_SEGMENT_FINISHED)
        return segment

    def _copy_again(self, contents: Iterable[SegmentContent], old: Sequence[SegmentMetadata]) -> list[SegmentMetadata]:
        """Copies segments that have all offsets of the finished copies ``old``, and deletes these."""
        copied = [self._put(content) for content in contents]
        self._metadata.exchange(old, copied)
        for each in old:
            self._finish_deletion(each)
        return copied

    def _put(self, content: SegmentContent) -> SegmentMetadata:
        """Begins a copy, and writes its objects."""
        now_ms = self._manager.clock.now_ms()
        segment = content.metadata(self._place, checkpoints.encode_id(uuid4()), BROKER_ID, now_ms)
        self._metadata.append([segment])
        put_segment(self._store, self._place, segment.start_offset, segment.segment_id, content.files)
        return segment

    # Deleting

    def _finish_unfinished(self) -> None:
        """Deletes the objects of unfinished copies and deletions, which killed runs have left."""
        for segment in self._metadata.segments(self._place).values():
            if segment.state is not SegmentState.COPY_SEGMENT_FINISHED:
                self._delete(segment)

    def _delete(self, segment: SegmentMetadata) -> None:
        if segment.state is not SegmentState.DELETE_SEGMENT_STARTED:
            self._metadata.note([segment], SegmentState.DELETE_SEGMENT_STARTED)
        self._finish_deletion(segment)

    def _finish_deletion(self, segment: SegmentMetadata) -> None:
        delete_segment(self._store, self._place, segment.start_offset, segment.segment_id)
        self._metadata.note([segment], SegmentState.DELETE_SEGMENT_FINISHED)

    def _delete_old(self) -> int:
        there = self._finished()
        start = self._start_kept(there)
        if start > self._log_start():
            self._log.delete_records(start)
        old = [each for each in there if each.end_offset < start]
        for segment in old:
            self._delete(segment)
        return len(old)

    def _start_kept(self, there: Sequence[SegmentMetadata]) -> int:
        """Returns the log start under ``retention.ms`` and ``retention.bytes``, which delete whole segments."""
        config, now_ms = self._log.context.config, self._manager.clock.now_ms()
        start = self._log_start()
        missing = not_copied(there, start, self._log.log_end_offset)
        size = sum(each.size for each in there) + _bytes_in(self._log, missing)
        for segment in there:
            is_old = 0 <= config.retention_ms < now_ms - segment.max_timestamp_ms and segment.max_timestamp_ms >= 0
            is_much = 0 <= config.retention_bytes <= size - segment.size
            if segment.end_offset >= start and not (config.delete and (is_old or is_much)):
                break
            if segment.start_offset > max(start, self._log.segments.first.base_offset):
                break  # the log alone has the records before it
            size -= segment.size
            start = max(start, segment.end_offset + 1)
        return start

    def _log_start(self) -> int:
        return self._log.log_start_offset if self._log.remote is None else self._log.remote.start

    def _finished(self) -> list[SegmentMetadata]:
        return self._metadata.finished(self._place)


def _place(manager: LogManager, partition: TopicPartition) -> TopicIdPartition:
    found = topic_id(manager, manager.topic(partition.topic))
    if found is None:
        raise PolicyViolationError(f"topic {partition.topic!r} has no id, which the names in a tier need")
    return TopicIdPartition(partition.topic, found, partition.partition)


def _bytes_in(log: Log, missing: Sequence[range]) -> int:
    """Returns the bytes of the local segments that the tier does not have."""
    return sum(each.size for each in log.segments if any(each.base_offset in offsets for offsets in missing))
