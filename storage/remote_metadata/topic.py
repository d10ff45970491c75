"""MetadataTopic: the topic ``__remote_log_metadata`` of a log directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..directory.manager import LogManager
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import REMOTE_LOG_METADATA_TOPIC
from ..format.tables import Records
from ..tiers.known_segments import KnownSegments
from ..tiers.metadata_records import (
    PARTITIONS,
    RemoteRecord,
    SegmentMetadata,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
)

BROKER_ID = 0  # the id in the records: this engine is not a broker
UPDATES_MAX = 1000  # per batch, which a topic's max.message.bytes limits
CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}  # as brokers create it


class MetadataTopic:
    """Reads and adds the records of a directory."""

    def __init__(self, manager: LogManager, known: KnownSegments | None = None) -> None:
        """Reads nothing yet. ``known``: segments that were read from the same directory before."""
        self._manager, self._known = manager, known or KnownSegments()

    def segments(self, partition: TopicIdPartition) -> dict[str, SegmentMetadata]:
        """Returns a partition's segments by id, except deleted ones; none without the topic. Reads new records only.

        Raises CorruptionError, with the file, for a record that no broker writes.
        """
        topic = self._manager.find_topic(REMOTE_LOG_METADATA_TOPIC)
        numbers = () if topic is None else topic.partitions
        if len(numbers) and numbers == tuple(range(len(numbers))) and topic is not None and topic.topic_id:
            numbers = (partition.metadata_partition(len(numbers)),)  # with several, some may be in other directories
        for number in numbers:
            with self._manager.open_reader(*TopicPartition(REMOTE_LOG_METADATA_TOPIC, number)) as reader:
                self._known.read(reader)
        return self._known.segments(partition)

    def finished(self, partition: TopicIdPartition) -> list[SegmentMetadata]:
        """Returns the segments whose copies are finished, by their offsets. Otherwise like :meth:`segments`."""
        found = self.segments(partition).values()
        finished = [each for each in found if each.state is SegmentState.COPY_SEGMENT_FINISHED]
        return sorted(finished, key=lambda each: (each.start_offset, each.end_offset))

    def append(self, records: Sequence[RemoteRecord]) -> None:
        """Adds records of one partition, in one batch; durable on return. Creates the topic if it is missing."""
        manager, name = self._manager, REMOTE_LOG_METADATA_TOPIC
        topic = manager.find_topic(name) or manager.ensure_topic(name, partitions=PARTITIONS, configs=CONFIGS)
        number = records[0].partition.metadata_partition(len(topic.partitions))
        log = self._manager.open_log(REMOTE_LOG_METADATA_TOPIC, number)
        values: list[bytes | None] = [each.encode() for each in records]
        log.append_records(Records.to_append([None] * len(values), values, self._manager.clock.now_ms()))

    def note(self, segments: Iterable[SegmentMetadata], state: SegmentState) -> None:
        """Adds a new state of segments of one partition, of the last ones first; durable on return.

        Killed in between, the segments without the new state are the first ones.
        """
        updates = self._updates(sorted(segments, key=lambda each: each.start_offset, reverse=True), state)
        for at in range(0, len(updates), UPDATES_MAX):
            self.append(updates[at : at + UPDATES_MAX])

    def exchange(self, old: Iterable[SegmentMetadata], new: Iterable[SegmentMetadata]) -> None:
        """Adds that the copies ``new`` are finished, and that the deletion of ``old`` has begun; durable on return.

        Both are in one batch, so a crash leaves the old copies finished or the new ones. For a few copies only.
        """
        finished = self._updates(new, SegmentState.COPY_SEGMENT_FINISHED)
        self.append([*finished, *self._updates(old, SegmentState.DELETE_SEGMENT_STARTED)])

    def _updates(self, segments: Iterable[SegmentMetadata], state: SegmentState) -> list[SegmentUpdate]:
        now_ms = self._manager.clock.now_ms()
        return [SegmentUpdate(each.partition, each.segment_id, BROKER_ID, now_ms, state) for each in segments]


def copied_below(segments: Iterable[SegmentMetadata], start: int) -> int:
    """Returns the offset up to which the tier has all records from ``start`` on; ``start`` if it has none of them."""
    for each in sorted(segments, key=lambda each: each.start_offset):
        if each.state is SegmentState.COPY_SEGMENT_FINISHED and each.start_offset <= start:
            start = max(start, each.end_offset + 1)
    return start


def not_copied(segments: Iterable[SegmentMetadata], start: int, end: int) -> list[range]:
    """Returns the offsets from ``start`` to ``end`` - 1 that the tier does not have, ascending.

    They are the last ones; an erasure leaves others, since the tier loses its copies of what was replaced.
    """
    found = []
    for each in sorted(segments, key=lambda each: each.start_offset):
        if each.state is SegmentState.COPY_SEGMENT_FINISHED:
            found.append(range(start, min(each.start_offset, end)))
            start = max(start, each.end_offset + 1)
    return [each for each in [*found, range(start, end)] if each]
