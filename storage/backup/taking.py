"""Adds the present state of a log directory to a backup.

The moment is that of a snapshot: under the locks of all partitions, every ``.log`` gets a hard link in a folder beside
the log directory, and small files are copied, so that retention, compaction and the deletion of topics remove nothing
while pieces are stored. A transaction is in all its partitions or in none, and no committed offset of a group is above
the log's end.

========================================  ====================================================================
Killed while                              What is there
========================================  ====================================================================
links are made, or pieces are stored      the earlier backups; the folder of links, which the next run removes;
                                          pieces that no list names, which the next run stores again or prunes
the list is written                       the same, or the new backup
========================================  ====================================================================
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from ..bytes_read import counted
from ..directory.manager import LogManager
from ..directory.snapshots.building import check_outside
from ..directory.snapshots.manifest import LOG_FOLDER, SnapshotFile
from ..directory.snapshots.taking import take_cut
from ..errors import CorruptionError, SnapshotError, StorageError
from ..filesystem.local import LocalFileSystem, real_path
from ..filesystem.operations import is_zero, parent_of, remove_tree
from ..filesystem.port import File, FileSystem
from ..format.files import file_names
from ..paths import local_path
from ..prefetch import in_order
from ..transfer.snapshots import take_bucket_snapshot
from .cuts import OBJECTS, Cut, CutFile, Piece, list_cuts, read_cut, write_cut
from .places import LOCK_FILE, BackupPlace

PIECE_BYTES = 8 * 1024 * 1024
TIME_STEP_MS = 2000  # of the coarsest file systems: within a step, a write may leave the time of a file as it was
SMALL_PIECE_BYTES = 64 * 1024  # a smaller last piece of an earlier backup is stored again with what follows

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TakenBackup:
    """The content that was added to a backup."""

    cut: Cut
    stored_bytes: int  # of pieces that no earlier backup has
    stored_pieces: int


def take_backup(manager: LogManager, place: BackupPlace, *, staging: str | None = None) -> TakenBackup:
    """Adds the state of a log directory to a backup; durable on return. Call it within ``place.locked()``.

    ``staging``: where to make the folder for links; by default beside the log directory. It should be on the same disk:
    elsewhere, everything is copied to it while writers wait. A log on an object store is copied there as it is after
    one commit. Raises the errors of ``take_snapshot``, StorageError if a file was cut off, and ObjectStoreError.
    """
    earlier = _readable(place)
    sizes = {each.name: each.size for each in place.list_files(OBJECTS)}
    trusted = {piece for cut in earlier for piece in cut.pieces if sizes.get(piece.name) == piece.size}
    before = earlier[-1] if earlier else None
    with _staged(_staging_of(manager, place, staging)) as staged:
        folder, taken_at_ms, found = _moment(manager, staged)
        storing = _Storing(place, LocalFileSystem(), folder, before, trusted)
        files = storing.store(found)
        place.sync()
        cut = Cut(manager.directory, taken_at_ms, files)
        name = write_cut(place, cut)
    if before is not None and before.taken_at_ms > taken_at_ms:
        logger.warning("%s has a later time, by a wrong clock: to restore %s, name it with --at", before.name, name)
    return TakenBackup(Cut(cut.source, taken_at_ms, files, name), storing.stored_bytes, storing.stored_pieces)


def _readable(place: BackupPlace) -> list[Cut]:
    """Returns the earlier backups, oldest first, whose lists are sound; logs a warning for each other one."""
    found: list[Cut] = []
    for each in list_cuts(place):
        try:
            found.append(read_cut(place, each.name))
        except CorruptionError as error:
            logger.warning("%s; nothing of that backup is used for this one", error)
    return found


def _moment(manager: LogManager, folder: str) -> tuple[str, int, Mapping[str, SnapshotFile]]:
    """Puts a log's files as of one moment into a folder; returns that folder, the moment, and the files."""
    if manager.bucket is None:
        return folder, *take_cut(manager, folder)
    taken = take_bucket_snapshot(manager, folder)
    return file_names.join(folder, LOG_FOLDER), taken.taken_at_ms, taken.files


def _staging_of(manager: LogManager, place: BackupPlace, staging: str | None) -> str:
    """Returns a path that only backups of this log to this place use."""
    unique = hashlib.sha256(f"{manager.directory}\n{place.path}".encode()).hexdigest()[:12]
    if manager.bucket is None:
        parent = local_path(staging) if staging else parent_of(real_path(manager.directory))  # on the disk of the log
        check_outside(parent, manager)
    elif staging:
        parent = local_path(staging)
    else:
        raise SnapshotError(f"{manager.directory}: give --staging, a folder with room for all of this log")
    return file_names.join(parent, f"commitlog-backup-{unique}{file_names.UNFINISHED}")


@contextmanager
def _staged(folder: str) -> Iterator[str]:
    """Yields the path of a missing folder in ``folder``, and removes both afterwards; first what a killed run left.

    Raises SnapshotError if another process uses it, which no lock in an object store would tell.
    """
    filesystem, inner = LocalFileSystem(), file_names.join(folder, LOG_FOLDER)
    filesystem.make_directory(folder)
    lock = filesystem.lock(file_names.join(folder, LOCK_FILE), wait=False)
    if lock is None:
        raise SnapshotError(f"{folder}: another process backs up this log to the same place; wait until it has ended")
    with lock:
        remove_tree(filesystem, inner)
        try:
            yield inner
        finally:
            remove_tree(filesystem, folder)


class _Span(NamedTuple):
    """A part of a file that becomes a piece."""

    path: str
    start: int  # position
    size: int  # bytes


class _Storing:
    """Stores the pieces of files that no earlier backup has."""

    def __init__(
        self,
        place: BackupPlace,
        filesystem: FileSystem,
        folder: str,
        before: Cut | None,
        trusted: set[Piece],
    ) -> None:
        self._place, self._filesystem, self._folder = place, filesystem, folder
        self._before = {} if before is None else before.files
        self._settled_ms = 0 if before is None else before.taken_at_ms - TIME_STEP_MS
        self._trusted = trusted
        self.stored_bytes = self.stored_pieces = 0

    def store(self, found: Mapping[str, SnapshotFile]) -> dict[str, CutFile]:
        """Stores the pieces of all files, several at once; returns the files by their paths, in order."""
        files: dict[str, CutFile] = {}
        with closing(in_order(self._read, self._spans(found, files))) as stored:
            for path, piece, is_new in stored:
                files[path] = files[path]._replace(pieces=(*files[path].pieces, piece))
                if is_new and piece not in self._trusted:
                    self._trusted.add(piece)
                    self.stored_bytes += piece.size
                    self.stored_pieces += 1
        return files

    def _spans(self, found: Mapping[str, SnapshotFile], files: dict[str, CutFile]) -> Iterator[_Span]:
        """Adds each file to ``files``; yields the parts to read of files that are not in an earlier backup."""
        for path, wanted in found.items():
            staged = file_names.join(self._folder, path)
            status = self._filesystem.status(staged)
            inode = 0 if status is None or not wanted.linked else status.inode
            before = self._before.get(path)
            is_same = before is not None and inode and before[:3] == (wanted.size, wanted.modified_ms, inode)
            is_settled = wanted.modified_ms < self._settled_ms  # otherwise it may have changed since that backup
            if before is not None and is_same and is_settled and self._trusted.issuperset(before.pieces):
                files[path] = before
                continue
            files[path] = CutFile(wanted.size, wanted.modified_ms, inode, ())
            with self._filesystem.open(staged, "read") as file:
                if file.size() < wanted.size:
                    raise StorageError(f"{path}: was cut from {wanted.size:,} to {file.size():,} bytes; run this again")
                for start, size in _bounds(file, wanted.size, before.pieces if before is not None else ()):
                    yield _Span(path, start, size)

    def _read(self, span: _Span) -> tuple[str, Piece, bool]:
        """Stores one piece of a file, unless it is there; returns path and piece, and whether it was stored."""
        path, start, size = span
        with self._filesystem.open(file_names.join(self._folder, path), "read") as file:  # always the same: our link
            data = counted(file.read(start, size))
        if len(data) != size:
            raise StorageError(f"{path}: ends before position {start + size}; run this again")
        piece = Piece(self._place.digest(data), size)
        if piece in self._trusted:
            return path, piece, False
        self._place.put(piece.name, data)
        return path, piece, True


def _bounds(file: File, size: int, before: tuple[Piece, ...]) -> Iterator[tuple[int, int]]:
    """Yields position and size of the pieces of a file, first those of an earlier backup: only the new end is stored.

    Zeros at the end, as in the index of an active segment, belong to no piece.
    """
    kept = before[:-1] if before and before[-1].size < SMALL_PIECE_BYTES else before
    at = 0
    for piece in kept:
        if at + piece.size > size:
            break
        yield at, piece.size
        at += piece.size
    end = _end_of_data(file, at, size)
    for start in range(at, end, PIECE_BYTES):
        yield start, min(PIECE_BYTES, end - start)


def _end_of_data(file: File, start: int, size: int) -> int:
    """Returns where the zeros at the end of a file begin, but not below ``start``."""
    step = 64 * 1024
    while size > start and is_zero(file, max(start, size - step), size):
        size = max(start, size - step)
    last = bytes(file.read(max(start, size - step), min(step, size - start)))
    return size - (len(last) - len(last.rstrip(b"\0")))
