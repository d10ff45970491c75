"""KnownSegments: the segments of a tier, according to the records of ``__remote_log_metadata``."""

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


class KnownSegments:
    """The records read so far, each read once. For any thread.

    One object serves all partitions of a maintenance run. Each partition first reads the new records, so it knows as
    much as with a new object: records of the topic are only ever added.
    """

    def __init__(self) -> None:
        """Reads nothing yet."""
        self._next: dict[str, int] = {}  # by partition directory: the offset to read from
        self._found: dict[TopicIdPartition, dict[str, SegmentMetadata]] = {}
        self._lock = Lock()  # guards both; held while files are read

    def __reduce__(self) -> tuple[type[KnownSegments], tuple[()]]:
        """Pickles no records: another process reads them itself."""
        return KnownSegments, ()

    def read_directory(self, directory: str, filesystem: FileSystem) -> None:
        """Reads the partitions of the topic in a log directory. Otherwise like :meth:`read`."""
        for name in filesystem.list(directory):
            parsed = names.parse_partition_directory(name)
            if parsed is not None and parsed.topic == REMOTE_LOG_METADATA_TOPIC and parsed.kind == "plain":
                with LogReader.open(names.join(directory, name), filesystem=filesystem) as reader:
                    self.read(reader)

    def read(self, reader: LogReader) -> None:
        """Reads the new records of one partition of the topic; at first, all.

        Raises CorruptionError, with the file, for a record that no broker writes.
        """
        with self._lock:
            self._read(reader)

    def segments(self, partition: TopicIdPartition) -> dict[str, SegmentMetadata]:
        """Returns a partition's segments by id, in the order of their copies, except deleted ones."""
        with self._lock:
            return dict(self._found.get(partition, {}))

    def finished(self, partition: TopicIdPartition) -> list[SegmentMetadata] | None:
        """Returns the segments whose copies are finished, in the order of the copies; None: the partition is unknown.

        Brokers serve only these, and no segments whose deletion has begun.
        """
        with self._lock:
            found = self._found.get(partition)
        if found is None:
            return None
        return [each for each in found.values() if each.state is SegmentState.COPY_SEGMENT_FINISHED]

    def _read(self, reader: LogReader) -> None:
        path, added = reader.context.directory, dict[TopicIdPartition, list[RemoteRecord]]()
        start = max(self._next.get(path, 0), reader.log_start_offset)
        end = reader.end_offset(Isolation.READ_UNCOMMITTED)
        if start >= end:  # true also if another thread has read further since this reader was opened
            return
        for table in reader.records(start, end, isolation=Isolation.READ_UNCOMMITTED, columns=["value"]):
            for record in remote_records(path, table):
                added.setdefault(record.partition, []).append(record)
        for partition, records in added.items():
            self._found[partition] = segments_of([*self._found.get(partition, {}).values(), *records], partition)
        self._next[path] = end
