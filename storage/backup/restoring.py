"""Makes a log directory from a backup, with the same bytes as at the moment of the backup."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import NamedTuple

from ..directory.manager import LogManager
from ..directory.protected_topics import is_protected
from ..directory.snapshots.filling import fill_log_directory
from ..errors import CorruptionError, SnapshotError, UnknownTopicOrPartitionError, did_you_mean
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import parent_of
from ..filesystem.port import Buffer, FileSystem
from ..filesystem.temporary import temporary_folder
from ..format.files import file_names
from ..prefetch import in_order
from ..transfer.choosing import OnComplete, note_nothing
from ..transfer.copying import copy_topics
from ..transfer.new_names import SAME_NAMES, NewNames
from ..transfer.pieces import CopiedPartition
from .cuts import Cut, CutFile, Piece
from .places import BackupPlace, write_in_parts

READ_AHEAD = 2  # pieces of at most 8 MiB


class _Part(NamedTuple):
    """A piece, and its position in a file."""

    path: str
    position: int  # in the file
    piece: Piece


def restore_backup(place: BackupPlace, cut: Cut, target: str) -> None:
    """Makes the log directory ``target``, which must be missing or empty; durable on return.

    Every piece is compared with its checksum. Raises CorruptionError, with the damaged object and the file that needs
    it, and SnapshotError if ``target`` is not empty; then there is no log directory.
    """

    def fill(folder: str) -> Collection[str]:
        write_files(place, cut.files, folder, LocalFileSystem())
        return cut.files

    _check_paths(place, cut)
    fill_log_directory(target, fill)


def check_restorable_topics(cut: Cut, topics: Collection[str] | None, new_names: NewNames = SAME_NAMES) -> None:
    """Raises UnknownTopicOrPartitionError for a topic that the backup does not have; and as ``NewNames.check``."""
    there = _topics_of(cut)
    for name in topics or ():
        if name not in there and name not in new_names.names:
            hint = did_you_mean(name, there) or f"; it holds {', '.join(sorted(there)) or 'no topics'}"
            raise UnknownTopicOrPartitionError(f"no topic {name!r} in the backup {cut.name}{hint}")
    new_names.check(there if topics is None else there.intersection(topics))


def restore_topics(
    place: BackupPlace,
    cut: Cut,
    target: LogManager,
    topics: Collection[str] | None,
    staging: str | None = None,
    new_names: NewNames = SAME_NAMES,
    on_complete: OnComplete = note_nothing,
) -> Iterator[CopiedPartition]:
    """Copies topics of a backup, by default all but Kafka's own, into a log that does not have them.

    They get the names that ``new_names`` gives them, and so do the offsets of groups for them, which are copied too;
    offsets in ``target`` only go forward. First restores these topics to a folder in ``staging``, by default in the
    folder for temporary files (``TMPDIR``). Yields each partition when it is durable. Passes topics that an earlier run
    has completed to ``on_complete``. Raises as :func:`restore_backup`, :func:`check_restorable_topics` and
    :func:`copy_topics`.
    """
    check_restorable_topics(cut, topics, new_names)
    with temporary_folder("commitlog-restore-", staging) as folder:
        restored = file_names.join(folder, "log")
        restore_backup(place, cut if topics is None else _with_topics(cut, {*topics}), restored)
        with LogManager.open(restored) as source:
            yield from copy_topics(source, target, topics, on_complete=on_complete, new_names=new_names)


@contextmanager
def opened_without_records(place: BackupPlace, cut: Cut, staging: str | None = None) -> Iterator[LogManager]:
    """Yields the log directory of a backup without its topics' records: settings, ids, log starts, groups' offsets.

    It is in a folder in ``staging``, as in :func:`restore_topics`, until the block ends. Raises as
    :func:`restore_backup`.
    """
    kept = {path: file for path, file in cut.files.items() if not _is_of_records(path)}
    with temporary_folder("commitlog-restore-", staging) as folder:
        restored = file_names.join(folder, "log")
        restore_backup(place, replace(cut, files=kept), restored)
        with LogManager.open(restored) as manager:
            yield manager


def _is_of_records(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    found = file_names.parse_partition_directory(directory)
    return found is not None and not is_protected(found.topic) and file_names.base_offset_of(name) is not None


def _topics_of(cut: Cut) -> set[str]:
    found = map(file_names.parse_partition_directory, cut.partitions)
    return {each.topic for each in found if each is not None}


def _with_topics(cut: Cut, topics: set[str]) -> Cut:
    """Returns the cut without the partitions of other topics, except internal ones, which have groups' offsets."""
    found = {path: file_names.parse_partition_directory(path.partition("/")[0]) for path in cut.files if "/" in path}
    kept = {path for path, each in found.items() if each and (each.topic in topics or is_protected(each.topic))}
    return replace(cut, files={path: file for path, file in cut.files.items() if "/" not in path or path in kept})


def write_files(place: BackupPlace, files: Mapping[str, CutFile], folder: str, filesystem: FileSystem) -> None:
    """Writes files of a cut below a folder, several pieces at once; syncs nothing.

    Raises CorruptionError, with the object and the file that needs it, for a piece that is damaged.
    """
    for parent in {parent_of(file_names.join(folder, path)) for path in files}:
        filesystem.make_directory(parent)

    def write(part: _Part) -> None:
        try:
            data = read_piece(place, part.piece)
        except CorruptionError as error:
            raise CorruptionError(f"{error.reason}; {part.path} of the backup needs it", path=error.path) from error
        with filesystem.open(file_names.join(folder, part.path), "create") as writing:
            write_in_parts(writing, part.position, data)
            writing.begin_sync()

    with closing(in_order(write, _parts(files), READ_AHEAD)) as written:
        for _ in written:
            pass
    for path, file in files.items():
        target = file_names.join(folder, path)
        with filesystem.open(target, "create") as writing:
            writing.truncate(file.size)
        filesystem.set_modified(target, file.modified_ms)


def _parts(files: Mapping[str, CutFile]) -> Iterator[_Part]:
    for path, file in files.items():
        position = 0
        for piece in file.pieces:
            yield _Part(path, position, piece)
            position += piece.size


def read_piece(place: BackupPlace, piece: Piece) -> Buffer:
    """Returns a piece. Raises CorruptionError, with its object, if it is missing or has changed."""
    data = place.get(piece.name, piece.size)
    if len(data) != piece.size or place.digest(data) != piece.digest:
        raise CorruptionError(
            "the piece is not what was stored: its checksum is another one", path=f"{place.path}/{piece.name}"
        )
    return data


def _check_paths(place: BackupPlace, cut: Cut) -> None:
    outside = [path for path in cut.files if path.startswith("/") or ".." in path.split("/")]
    if outside:
        raise SnapshotError(f"{place.path}, {cut.name}: names {outside[0]!r}, which lies outside of a log directory")
