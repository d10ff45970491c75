"""Copies a log from an object store to a log directory: pieces become ``.log`` files, and recovery makes the rest.

On disk after each step: the topics, without records; some ``.log`` files of a partition, perhaps the last one in part;
all files of a partition, and its entries in the checkpoints, so that it can be opened. If killed before the end, start
the copy again, with another directory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..directory import LogManager, is_protected, topic_id
from ..format.files import file_names as names
from ..format.files.file_names import TopicPartition
from ..reading import LogReader, Marks
from ..segment import Holes
from .pieces import CopiedPartition, Piece, end_to_copy, pieces_of

SEGMENT_BYTES_MAX = 1 << 30


def copy_to_directory(
    source: LogManager, target: LogManager, topics: Collection[str] | None = None
) -> Iterator[CopiedPartition]:
    """Copies topics, by default all that are not Kafka's own, and yields each partition when it is complete and synced.

    Raises UnknownTopicOrPartitionError for a topic that is missing, TopicExistsError for one that ``target`` has,
    CorruptionError for damage in the source, ObjectStoreError, and OSError.
    """
    wanted = [name for name in source.topics() if not is_protected(name)] if topics is None else topics
    for topic in map(source.topic, wanted):
        id_ = topic_id(source, topic)
        target.create_topic(topic.name, partitions=len(topic.partitions), configs=topic.configs, topic_id=id_)
        for number in topic.partitions:
            with source.open_reader(topic.name, number) as reader:
                yield _copy(source, reader, target, TopicPartition(topic.name, number))


def _copy(source: LogManager, reader: LogReader, target: LogManager, partition: TopicPartition) -> CopiedPartition:
    start, end = reader.log_start_offset, end_to_copy(reader)
    pieces = pieces_of(reader, SEGMENT_BYTES_MAX, end)
    directory = target.partition_path(*partition)
    for piece in pieces:
        _write(target, directory, piece)
    if end and (not pieces or pieces[-1].end > pieces[-1].reached):
        path = names.join(directory, names.segment_file(end, names.LOG))
        target.filesystem.open(path, "create").close()
    target.filesystem.sync_directory(directory)
    if source.holes(partition) is Holes.ANYWHERE:
        target.note_holes(partition)
    target.write_marks({partition: Marks(0, start)})
    target.open_log(*partition)  # makes indexes, epochs and snapshots
    target.close_logs([partition.topic])
    size = sum(piece.stop - piece.start for piece in pieces)
    return CopiedPartition(*partition, start, end, len(pieces), size)


def _write(target: LogManager, directory: str, piece: Piece) -> None:
    path = names.join(directory, names.segment_file(piece.base, names.LOG))
    with target.filesystem.open(path, "create") as file:
        position = 0
        for data in piece.chunks():
            file.write(position, data)
            position += len(data)
        file.sync()
