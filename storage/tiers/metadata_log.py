"""MetadataLog: what the partitions of ``__remote_log_metadata`` in a log directory say about the segments of a tier."""

from __future__ import annotations

from threading import Lock

from ..filesystem.port import FileSystem
from ..format.files import file_names as names
from ..format.internal.internal_topics import REMOTE_LOG_METADATA_TOPIC
from ..reading.aborted import Isolation
from ..reading.reader import LogReader
from .metadata_records import (
    RemoteRecord,
    SegmentMetadata,
    SegmentState,
    TopicIdPartition,
    remote_records,
    segments_of,
)


class MetadataLog:
    """The segments that brokers know, as of the last look. For any thread."""

    def __init__(self, directory: str, filesystem: FileSystem) -> None:
        self._directory, self._filesystem = directory, filesystem
        self._next: dict[str, int] = {}  # by partition directory
        self._found: dict[TopicIdPartition, dict[str, SegmentMetadata]] = {}
        self._lock = Lock()  # Guards what was read; held while files are read.

    def look(self) -> None:
        """Reads the records that were added since; at first, all. Raises CorruptionError, with the file."""
        with self._lock:
            for name in self._filesystem.list(self._directory):
                parsed = names.parse_partition_directory(name)
                if parsed is not None and parsed.topic == REMOTE_LOG_METADATA_TOPIC and parsed.kind == "plain":
                    self._read(name)

    def finished(self, partition: TopicIdPartition) -> list[SegmentMetadata] | None:
        """Returns the segments whose copies are finished, in the order of the copies; None: nothing is known of it.

        Brokers serve these alone, not those whose deletion has begun.
        """
        with self._lock:
            found = self._found.get(partition)
            if found is None:
                return None
            return [each for each in found.values() if each.state is SegmentState.COPY_SEGMENT_FINISHED]

    def _read(self, name: str) -> None:
        path, added = names.join(self._directory, name), dict[TopicIdPartition, list[RemoteRecord]]()
        with LogReader.open(path, filesystem=self._filesystem) as reader:
            start, end = self._next.get(name, 0), reader.end_offset(Isolation.READ_UNCOMMITTED)
            for table in reader.records(
                max(start, reader.log_start_offset), end, isolation=Isolation.READ_UNCOMMITTED, columns=["value"]
            ):
                for record in remote_records(path, table):
                    added.setdefault(record.partition, []).append(record)
        for partition, records in added.items():
            self._found[partition] = segments_of([*self._found.get(partition, {}).values(), *records], partition)
        self._next[name] = max(start, end)
