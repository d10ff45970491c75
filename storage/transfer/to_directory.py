"""Copies a log from an object store to a log directory: pieces become ``.log`` files, and recovery makes the rest.

Until a partition is complete, its directory has another name (``unfinished.py``). If the copy is killed, or stopped by
damage in one partition, and run again, it continues with the incomplete partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..directory.manager import LogManager
from ..errors import CorruptionError
from ..format.files import file_names
from ..format.files.file_names import TopicPartition
from ..reading.marks import Marks
from ..reading.reader import LogReader
from ..segment.joining import Holes
from ..writing.log import Log
from .begun import BegunCopies
from .choosing import OnComplete, OnDamage, note_nothing, raise_damage, topics_to_copy
from .new_names import SAME_NAMES, NewNames
from .pieces import CopiedPartition, Piece, end_to_copy, pieces_of
from .unfinished import Complete, begin, directory_to_fill, finish, is_complete, is_unfinished, make_indexes

SEGMENT_BYTES_MAX = 1 << 30


def add_nothing(log: Log) -> None:
    """Adds nothing to a filled log."""


def copy_to_directory(
    source: LogManager,
    target: LogManager,
    topics: Collection[str] | None = None,
    on_damage: OnDamage = raise_damage,
    new_names: NewNames = SAME_NAMES,
    on_complete: OnComplete = note_nothing,
    complete: Complete = add_nothing,
    *,
    may_be_done: bool = False,
    begun: BegunCopies | None = None,
) -> Iterator[CopiedPartition]:
    """Copies topics, by default :func:`topics_to_copy`, and yields each partition when it is complete and synced.

    ``complete`` is called with each log when all of it is copied, before others see it. Passes damage in a partition of
    the source to ``on_damage``, and continues with the next one. Skips partitions that an earlier copy has completed;
    passes completed topics to ``on_complete`` and skips them, if there is anything else to copy or with
    ``may_be_done``, by which the caller continues with later steps. Adds topics to ``begun``, from which the caller
    removes them after these steps; if it has some of them, the caller continues too. Raises
    UnknownTopicOrPartitionError for a topic that is missing, TopicExistsError for one that ``target`` has from
    elsewhere or if nothing is left to copy, ObjectStoreError, and OSError.
    """
    wanted = [source.topic(name) for name in (topics_to_copy(source) if topics is None else topics)]
    described = {each.name: new_names.described(source, each) for each in wanted}
    ids = {} if begun is None else begun.ids()
    done = {name for name, (topic, id_) in described.items() if is_complete(target, topic, id_ or ids.get(topic.name))}
    is_over = len(done) == len(wanted) and ids.keys().isdisjoint(topic.name for topic, _ in described.values())
    for topic in wanted:
        if topic.name in done and (may_be_done or not is_over):
            on_complete(topic.name)
            continue
        begin(target, *described[topic.name])
        if begun is not None:
            begun.add(described[topic.name][0].name)
        yield from _copied(source, target, topic.topic_partitions, on_damage, new_names, complete)


def _copied(
    source: LogManager,
    target: LogManager,
    partitions: Iterable[TopicPartition],
    on_damage: OnDamage,
    new_names: NewNames,
    complete: Complete,
) -> Iterator[CopiedPartition]:
    """Copies the partitions of a begun topic that are unfinished."""
    for partition in partitions:
        if not is_unfinished(target, new_names.partition(partition)):
            continue
        try:
            with source.open_reader(*partition) as reader:
                holes = source.holes(partition)
                copied = _copy(reader, holes, target, new_names.partition(partition), complete)
        except CorruptionError as error:
            on_damage(partition, error)
        else:
            yield copied


def _copy(
    reader: LogReader, holes: Holes, target: LogManager, partition: TopicPartition, complete: Complete
) -> CopiedPartition:
    start, end = reader.log_start_offset, end_to_copy(reader)
    pieces = pieces_of(reader, SEGMENT_BYTES_MAX, end)
    directory = directory_to_fill(target, partition)
    for piece in pieces:
        _write(target, directory, piece)
    if end and (not pieces or pieces[-1].end > pieces[-1].reached):
        path = file_names.join(directory, file_names.segment_file(end, file_names.LOG))
        target.filesystem.open(path, "create").close()
    target.filesystem.sync_directory(directory)
    if holes is Holes.ANYWHERE:
        target.note_holes(partition)
    target.write_marks({partition: Marks(0, start)})
    end = make_indexes(target, partition, complete)
    finish(target, partition)
    size = sum(piece.stop - piece.start for piece in pieces)
    return CopiedPartition(*partition, start, end, len(pieces), size)


def _write(target: LogManager, directory: str, piece: Piece) -> None:
    path = file_names.join(directory, file_names.segment_file(piece.base, file_names.LOG))
    with target.filesystem.open(path, "create") as file:
        position = 0
        for data in piece.chunks():
            file.write(position, data)
            position += len(data)
        file.sync()
