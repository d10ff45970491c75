"""Writes the segments of a topic to the tier of a broker, under the id that the topic has there.

The caller informs the broker: :meth:`PublishedPartition.segments` yields each segment when its objects are durable and
were read back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from ..bucket.stores.port import ObjectStore
from ..clock import instant
from ..directory.manager import LogManager
from ..errors import PolicyViolationError
from ..format.files import checkpoints
from ..format.files.file_names import TopicPartition
from ..tiers.metadata_records import SegmentMetadata, SegmentState, TopicIdPartition
from ..tiers.writing import put_segment
from .contents import FLAT, SegmentContent, check_whole, contents_of

NO_BROKER = -1


class PublishedPartition(NamedTuple):
    """A partition to be published."""

    manager: LogManager
    partition: TopicPartition
    log_start_offset: int
    log_end_offset: int
    oldest_ms: int  # the largest timestamp of its first segment; -1: none
    size: int  # bytes of its segments
    aborts: int = 0  # open transactions, each of which gets a marker after the log end

    @property
    def end_offset(self) -> int:
        """Where brokers append; a partition without records begins at 0 there."""
        return self.log_end_offset + self.aborts if self.log_start_offset < self.log_end_offset else 0

    def segments(
        self, store: ObjectStore, topic_id: str, known: Mapping[str, SegmentMetadata]
    ) -> Iterator[tuple[SegmentMetadata, bool]]:
        """Writes the segments to the tier; yields each, in state COPY_SEGMENT_FINISHED, and whether it is in ``known``.

        Segments that are known as finished are not written again. Raises PolicyViolationError if ``known`` has others:
        the log has grown, or lost its start, since the topic was published.
        """
        target = TopicIdPartition(self.partition.topic, topic_id, self.partition.partition)
        unseen = dict(known)
        with self.manager.open_reader(*self.partition) as reader:
            start, end = reader.log_start_offset, self.log_end_offset
            ends = {"cuts_batch": True, "aborts_open": bool(self.aborts)}
            for content in contents_of(reader, start, end, epochs=FLAT, **ends):
                segment = self._metadata(target, content)
                there = unseen.pop(segment.segment_id, None)
                if there is None:
                    self._check_free(segment, unseen)
                if there is None or there.state is SegmentState.COPY_SEGMENT_STARTED:
                    put_segment(store, target, content.start_offset, segment.segment_id, content.files)
                yield segment, there is not None
        for each in unseen.values():
            raise self._other(each)

    def _metadata(self, target: TopicIdPartition, content: SegmentContent) -> SegmentMetadata:
        now_ms, state = self.manager.clock.now_ms(), SegmentState.COPY_SEGMENT_FINISHED
        return content.metadata(target, _segment_id(target, content), NO_BROKER, now_ms, state)

    def _check_free(self, segment: SegmentMetadata, known: Mapping[str, SegmentMetadata]) -> None:
        for each in known.values():
            if each.start_offset <= segment.end_offset and segment.start_offset <= each.end_offset:
                raise self._other(each)

    def _other(self, there: SegmentMetadata) -> PolicyViolationError:
        return PolicyViolationError(
            f"the cluster's tier has a segment of {self.partition} from offset {there.start_offset} to "
            f"{there.end_offset} that this log does not have: the log was changed since it was published; delete the "
            "topic in the cluster, and publish it again"
        )


def plan_publishing(
    manager: LogManager, topic: str, retention_ms: int, *, aborts_open: bool = False
) -> list[PublishedPartition]:
    """Returns the partitions of a topic. Changes nothing.

    ``retention_ms``: that of the topic in the cluster; -1: none. ``aborts_open``: open transactions will be aborted
    there. Raises PolicyViolationError if a broker would lose records, or show those of open transactions, and as
    ``open_reader``.
    """
    partitions = manager.topic(topic).topic_partitions
    return [_plan(manager, each, retention_ms, aborts_open=aborts_open) for each in partitions]


def _plan(
    manager: LogManager, partition: TopicPartition, retention_ms: int, *, aborts_open: bool
) -> PublishedPartition:
    with manager.open_reader(*partition) as reader:
        check_whole(reader, aborts_open=aborts_open)
        described = reader.describe_segments()
        oldest_ms = described[0].largest_timestamp if described and described[0].size else -1
        if retention_ms >= 0 and 0 <= oldest_ms < manager.clock.now_ms() - retention_ms:
            raise PolicyViolationError(
                f"{partition}: its first records are from {instant(oldest_ms)}, and with retention.ms={retention_ms} "
                "the cluster would delete them at once: leave it out, and set it after the topic was published"
            )
        size = sum(each.size for each in described)
        start, end, aborts = reader.log_start_offset, reader.log_end_offset, len(reader.producers.ongoing)
        return PublishedPartition(manager, partition, start, end, oldest_ms, size, aborts)


def _segment_id(target: TopicIdPartition, content: SegmentContent) -> str:
    """Returns an id computed from the segment's content, so that a second run finds the objects of the first one."""
    text = f"{target.topic_id} {target.partition} {content.start_offset} {content.end_offset} {content.size}"
    return checkpoints.encode_id(UUID(bytes=hashlib.sha256(text.encode()).digest()[:16]))
