"""MetadataTopic: the topic ``__remote_log_metadata`` of a log directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..directory.manager import LogManager
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import REMOTE_LOG_METADATA_TOPIC
from ..format.tables import Records
from ..tiers.metadata_records import (
    PARTITIONS,
    RemoteRecord,
    SegmentMetadata,
    SegmentState,
    TopicIdPartition,
    remote_records,
    segments_of,
)

CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}  # as brokers create it


class MetadataTopic:
    """Reads the records of a directory, each once; a later call reads only those that were added since."""

    def __init__(self, manager: LogManager) -> None:
        """Reads nothing yet."""
        self._manager = manager
        self._records: dict[int, list[RemoteRecord]] = {}  # by partition of the topic
        self._read_to: dict[int, int] = {}

    def segments(self, partition: TopicIdPartition) -> dict[str, SegmentMetadata]:
        """Returns a partition's segments by id, but those that are deleted; none without the topic.

        Raises CorruptionError, with the file, for a record that no broker writes.
        """
        topic = self._manager.find_topic(REMOTE_LOG_METADATA_TOPIC)
        numbers = () if topic is None else topic.partitions
        if len(numbers) and numbers == tuple(range(len(numbers))) and topic is not None and topic.topic_id:
            numbers = (partition.metadata_partition(len(numbers)),)  # else some may be in other directories
        records = (record for number in numbers for record in self._partition(number))
        return segments_of(records, partition)

    def append(self, records: Sequence[RemoteRecord]) -> None:
        """Adds records of one partition, in one batch; durable on return. Creates the topic if it is missing."""
        manager, name = self._manager, REMOTE_LOG_METADATA_TOPIC
        topic = manager.find_topic(name) or manager.ensure_topic(name, partitions=PARTITIONS, configs=CONFIGS)
        number = records[0].partition.metadata_partition(len(topic.partitions))
        log = self._manager.open_log(REMOTE_LOG_METADATA_TOPIC, number)
        values: list[bytes | None] = [each.encode() for each in records]
        log.append_records(Records.to_append([None] * len(values), values, self._manager.clock.now_ms()))

    def _partition(self, number: int) -> list[RemoteRecord]:
        known = self._records.setdefault(number, [])
        with self._manager.open_reader(*TopicPartition(REMOTE_LOG_METADATA_TOPIC, number)) as reader:
            start, end = self._read_to.get(number, reader.log_start_offset), reader.log_end_offset
            for found in reader.records(start, end, columns=("value",)):
                known += remote_records(reader.context.directory, found)
            self._read_to[number] = end
        return known


def copied_below(segments: Iterable[SegmentMetadata], start: int) -> int:
    """Returns the offset up to which the tier has all records from ``start`` on; ``start`` if it has none of them."""
    for each in sorted(segments, key=lambda each: each.start_offset):
        if each.state is SegmentState.COPY_SEGMENT_FINISHED and each.start_offset <= start:
            start = max(start, each.end_offset + 1)
    return start
