"""Takes snapshots of a log directory, with all partitions at one moment, and restores log directories from them.

A snapshot is a directory with ``log/``, which has the content of the log directory, and ``snapshot.json``, which lists
its files with sizes and times. Closed segments are hard links to those of the log, so they take no space until the log
deletes them; everything else is copied. A log never writes to a closed segment, except to cut it (``Log.truncate_to``):
that cuts the snapshot too, and restoring it reports that.

While links and copies are made, the append locks of all partitions and the root lock are held, so that a transaction is
in the snapshot with all its partitions or with none. Writers wait in the meantime, readers do not.

Both a snapshot and a restored directory are created with ``.unfinished`` at the end of their name, and renamed when
everything is on disk. A crash leaves that name, and the next attempt removes the directory.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..clock import Clock
from ..config import LogConfig
from ..errors import CorruptionError, SnapshotError, StorageError
from ..filesystem.holders import lock_holders
from ..filesystem.local import LocalFileSystem
from ..filesystem.open_files import OPEN_FILES
from ..filesystem.operations import (
    make_directory_durably,
    make_own_directory,
    not_a_link,
    parent_of,
    read_file,
    remove_tree,
    write_atomically,
)
from ..filesystem.port import FileSystem
from ..format.files import file_names
from ..format.files.file_names import TopicPartition
from ..paths import local_path
from ..prefetch import in_order
from ..segment.swap import swap_plan
from ..segment.walk import LogContext
from ..writing.locks import APPEND_LOCK_FILE, wait_for_lock
from .manager import LogManager
from .remote_tier import remote_offsets, report_remote

MANIFEST_FILE = "snapshot.json"
MANIFEST_VERSION = 1
MANIFEST_BYTES_MAX = 1024 * 1024 * 1024  # for five million files
LOG_FOLDER = "log"
BUILDING_LOCK_FILE = ".building.lock"
COPY_BYTES = 1024 * 1024
SYNCED_AT_ONCE = 8
LISTING_ATTEMPTS = 200  # attempts while topics are created and deleted; each takes the locks of all partitions
NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}  # other disk, or no link support
SIDECARS = (file_names.LEADER_EPOCH_CHECKPOINT, file_names.PARTITION_METADATA_FILE)


class SnapshotFile(NamedTuple):
    """The entry of one file in ``snapshot.json``."""

    size: int  # bytes
    modified_ms: int  # retention uses it for a segment without timestamps
    linked: bool  # otherwise copied


@dataclass(frozen=True)
class Snapshot:
    """A complete snapshot."""

    directory: str
    source: str  # the log directory
    taken_at_ms: int
    files: Mapping[str, SnapshotFile]  # by path below ``log/``

    @property
    def partitions(self) -> list[str]:
        """The names of the partitions' directories, ascending."""
        return sorted({path.partition("/")[0] for path in self.files if "/" in path})

    def bytes_of(self, *, linked: bool) -> int:
        """Returns the total size, in bytes, of the files that were linked, or of those that were copied."""
        return sum(file.size for file in self.files.values() if file.linked is linked)


def take_snapshot(manager: LogManager, target: str) -> Snapshot:
    """Takes a snapshot and returns it; ``target`` must be missing or an empty directory. Durable on return.

    Links files if ``target`` is on the log's disk, and copies them otherwise. Raises SnapshotError if ``target`` is not
    empty, LogDirLockedError while a broker runs on the log directory, and StorageError if this process may not lock so
    many partitions at once.
    """
    OPEN_FILES.check_room_for_locks(len(_partitions(manager)), f"a snapshot of {manager.directory}")
    target = local_path(target)
    manager.lock_brokers_out()
    with _building(manager.filesystem, target) as building:
        folder = file_names.join(building, LOG_FOLDER)
        with _standing_still(manager) as partitions:
            taken_at_ms = manager.clock.now_ms()
            files = dict(_take_all(manager, partitions, folder))
        _report_remote(manager, files)
        snapshot = Snapshot(target, manager.directory, taken_at_ms, files)
        _complete(manager.filesystem, building, snapshot)
    return snapshot


def take_cut(manager: LogManager, folder: str) -> tuple[int, dict[str, SnapshotFile]]:
    """Links every ``.log`` of a log directory to ``folder``, which must be missing, and copies the rest, at one moment.

    Returns the moment, ms since 1970, and the files by their paths below ``folder``. A linked active segment continues
    to grow: only the bytes up to its stated size are of that moment. Syncs nothing. Raises the errors of
    :func:`take_snapshot`.
    """
    OPEN_FILES.check_room_for_locks(len(_partitions(manager)), f"a cut of {manager.directory}")
    manager.lock_brokers_out()
    with _standing_still(manager) as partitions:
        files = dict(_take_all(manager, partitions, folder, links_active=True))
        taken_at_ms = manager.clock.now_ms()
    _report_remote(manager, files)
    return taken_at_ms, files


def fill_log_directory(target: str, fill: Callable[[str], Iterable[str]]) -> None:
    """Makes a log directory that ``fill`` fills: it is called with the folder to write to; durable on return.

    ``fill`` returns the paths of its files below the folder. Raises SnapshotError if ``target`` is not empty, and the
    errors of ``fill``.
    """
    filesystem = LocalFileSystem()
    with _building(filesystem, local_path(target)) as building:
        _sync(filesystem, building, fill(building))


def fill_snapshot(target: str, source: str, fill: Callable[[str], None], clock: Clock) -> Snapshot:
    """Makes a snapshot that ``fill`` fills: it is called with the folder to write to; durable on return.

    ``source``: the log of the snapshot. Raises SnapshotError if ``target`` is not empty, and the errors of ``fill``.
    """
    filesystem, target = LocalFileSystem(), local_path(target)
    with _building(filesystem, target) as building:
        folder = file_names.join(building, LOG_FOLDER)
        taken_at_ms = clock.now_ms()
        fill(folder)
        snapshot = Snapshot(target, source, taken_at_ms, dict(_all_in(filesystem, folder)))
        _complete(filesystem, building, snapshot)
    return snapshot


def _all_in(filesystem: FileSystem, folder: str, below: str = "") -> Iterator[tuple[str, SnapshotFile]]:
    """Yields the files of a log directory except locks, by their paths below ``folder``."""
    for name in filesystem.list(file_names.join(folder, below) if below else folder):
        path = f"{below}/{name}" if below else name
        status = filesystem.status(file_names.join(folder, path))
        if name.startswith(".") or status is None:
            continue
        if status.is_directory:
            yield from _all_in(filesystem, folder, path)
        else:
            yield path, SnapshotFile(status.size, status.modified_ms, False)


def restore_snapshot(directory: str, target: str, *, filesystem: FileSystem | None = None) -> Snapshot:
    """Copies the log in the snapshot ``directory`` to ``target``, which must be missing or empty; durable on return.

    Returns the snapshot. Raises SnapshotError if ``target`` is not empty, or ``directory`` is not a complete snapshot.
    """
    filesystem = filesystem or LocalFileSystem()
    directory, target = local_path(directory), local_path(target)
    snapshot = read_snapshot(directory, filesystem=filesystem)
    with _building(filesystem, target) as building:
        for path, file in snapshot.files.items():
            source, copy = file_names.join(directory, LOG_FOLDER, path), file_names.join(building, path)
            filesystem.make_directory(parent_of(copy))
            if _copy(filesystem, source, copy, file.modified_ms) != file.size:
                raise _changed(source, filesystem, file)
        _sync(filesystem, building, snapshot.files)
    return snapshot


def read_snapshot(directory: str, *, filesystem: FileSystem | None = None) -> Snapshot:
    """Reads ``snapshot.json`` and checks the size of each file; returns the snapshot.

    Raises SnapshotError if ``directory`` is not a snapshot, or a file is missing or has another size.
    """
    filesystem, directory = filesystem or LocalFileSystem(), local_path(directory)
    path = file_names.join(directory, MANIFEST_FILE)
    try:
        snapshot = _decode(directory, read_file(filesystem, path, MANIFEST_BYTES_MAX))
    except FileNotFoundError:
        raise SnapshotError(
            f"{directory}: contains no {MANIFEST_FILE}, so it is no snapshot; an unfinished one, whose name ends with "
            f"{file_names.UNFINISHED}, cannot be used"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, CorruptionError) as error:
        raise SnapshotError(f"{path}: the file is damaged: {error}; take another snapshot") from error
    for name, file in snapshot.files.items():
        source = file_names.join(directory, LOG_FOLDER, name)
        status = filesystem.status(source)
        if status is None or status.size != file.size:
            raise _changed(source, filesystem, file)
    return snapshot


def _changed(path: str, filesystem: FileSystem, file: SnapshotFile) -> SnapshotError:
    status = filesystem.status(path)
    now = "it is missing" if status is None else f"it has {status.size:,} bytes"
    return SnapshotError(f"{path}: {now}, but had {file.size:,} when the snapshot was taken: take another snapshot")


# Under the locks


@contextmanager
def _standing_still(manager: LogManager) -> Iterator[list[TopicPartition]]:
    """Yields all partitions; within the ``with`` block, no process appends, replaces segments or changes root files.

    Takes the locks in the common order: partitions by topic and number, then the root.
    """
    for _ in range(LISTING_ATTEMPTS):
        with ExitStack() as locks:
            partitions = _partitions(manager)
            try:
                for partition in partitions:
                    locks.enter_context(wait_for_lock(_context(manager, partition), APPEND_LOCK_FILE))
            except FileNotFoundError:  # the topic was deleted
                continue
            locks.enter_context(manager.root_lock())
            if _partitions(manager) == partitions:
                yield partitions
                return
    raise StorageError(
        f"{manager.directory}: no snapshot was taken, because partitions lack directories, or topics are created and "
        "deleted all the time; check its topics with commitlog topics, and try again"
    )


def _partitions(manager: LogManager) -> list[TopicPartition]:
    return sorted(each for topic in manager.topics().values() for each in topic.topic_partitions)


def _context(manager: LogManager, partition: TopicPartition) -> LogContext:
    directory = manager.partition_path(*partition)
    return LogContext(directory, LogConfig(), manager.clock, manager.filesystem, writable=False)


def _take_all(
    manager: LogManager, partitions: list[TopicPartition], folder: str, *, links_active: bool = False
) -> Iterator[tuple[str, SnapshotFile]]:
    """Links or copies all files of the log directory to ``folder``; yields each with its path below ``folder``."""
    make_own_directory(manager.filesystem, folder)
    for name in manager.filesystem.list(manager.directory):
        if not name.startswith(".") and not name.endswith(file_names.TMP) and not _is_directory(manager, name):
            yield name, _take(manager.filesystem, manager.path(name), file_names.join(folder, name), may_link=False)
    for partition in partitions:
        context, directory = _context(manager, partition), file_names.partition_directory(*partition)
        make_own_directory(manager.filesystem, file_names.join(folder, directory))
        found = _segment_files(context)
        newest = max((name for name in found if name.endswith(file_names.LOG)), default=None)
        for name, current in found.items():
            path = file_names.join(directory, name)
            may_link = name.endswith(file_names.LOG) and (links_active or name != newest)
            source = file_names.join(context.directory, current)
            yield path, _take(manager.filesystem, source, file_names.join(folder, path), may_link=may_link)


def _report_remote(manager: LogManager, files: Iterable[str]) -> None:
    """Logs a warning for each partition with offsets that no snapshot has; ``files``: the paths in the snapshot."""
    firsts: dict[TopicPartition, int] = {}
    for path in sorted(files, reverse=True):  # the first segment of each partition comes last
        folder, _, name = path.partition("/")
        found = file_names.parse_partition_directory(folder) if name.endswith(file_names.LOG) else None
        if found is not None:
            firsts[TopicPartition(found.topic, found.partition)] = file_names.base_offset_of(name) or 0
    for partition, offsets in sorted(remote_offsets(manager, firsts).items()):
        report_remote(manager.partition_path(*partition), offsets)


def _is_directory(manager: LogManager, name: str) -> bool:
    status = manager.filesystem.status(manager.path(name))
    return status is None or status.is_directory


def _segment_files(context: LogContext) -> dict[str, str]:
    """Returns the current names of a partition's files, by their names in the snapshot.

    The files of an unfinished swap of segments count as a reader would see them, without the suffix ``.swap``.
    """
    listing = context.filesystem.list(context.directory)
    plan = swap_plan(context, listing)
    found = {name: name for name in (*plan.kept, *(name for name in SIDECARS if name in listing))}
    return found | {name.removesuffix(file_names.SWAP): name for name in plan.swapped_in}


def _take(filesystem: FileSystem, source: str, target: str, *, may_link: bool) -> SnapshotFile:
    status = filesystem.status(source)
    if status is None:
        raise StorageError(f"{source}: deleted, although its partition is locked")
    if may_link and _link(filesystem, source, target):
        return SnapshotFile(status.size, status.modified_ms, True)
    return SnapshotFile(_copy(filesystem, source, target, status.modified_ms), status.modified_ms, False)


def _link(filesystem: FileSystem, source: str, target: str) -> bool:
    """Makes a hard link; returns False if the file system has no links, or ``target`` is on another one."""
    try:
        filesystem.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        return False
    return True


def _copy(filesystem: FileSystem, source: str, target: str, modified_ms: int) -> int:
    """Copies a file; returns its size in bytes. Blocks of zeros, as in preallocated indexes, take no space there."""
    with filesystem.open(source, "read") as reading, filesystem.open(target, "create") as writing:
        size = reading.size()
        for position in range(0, size, COPY_BYTES):
            piece = bytes(reading.read(position, min(COPY_BYTES, size - position)))
            if piece.strip(b"\0"):
                writing.write(position, piece)
        writing.truncate(size)
    filesystem.set_modified(target, modified_ms)
    return size


# Making it durable


@contextmanager
def _building(filesystem: FileSystem, target: str) -> Iterator[str]:
    """Yields a directory to fill; renames it to ``target`` at the end of the ``with`` block.

    After a crash, ``target`` is missing and ``target`` + ``.unfinished`` has a part, or ``target`` is complete.
    """
    status = filesystem.status(target)
    if status is not None and (not status.is_directory or filesystem.list(target)):
        raise SnapshotError(f"{target}: this is not an empty directory; give one that is missing or empty")
    building = target.rstrip("/") + file_names.UNFINISHED
    make_directory_durably(filesystem, not_a_link(filesystem, building))
    lock_path = file_names.join(building, BUILDING_LOCK_FILE)
    lock = filesystem.lock(lock_path, wait=False)
    if lock is None:
        holders = lock_holders(lock_path)
        raise SnapshotError(f"{building}: another process is creating {target}; wait until it has ended{holders}")
    with lock:
        for name in filesystem.list(building):
            if name != BUILDING_LOCK_FILE:
                remove_tree(filesystem, file_names.join(building, name))
        yield building
        filesystem.remove(file_names.join(building, BUILDING_LOCK_FILE))
        filesystem.sync_directory(building)
        filesystem.rename(building, target.rstrip("/"))
        filesystem.sync_directory(parent_of(target))


def _complete(filesystem: FileSystem, building: str, snapshot: Snapshot) -> None:
    """Syncs the files of a snapshot, and then writes ``snapshot.json``: no crash leaves it without them."""
    _sync(filesystem, file_names.join(building, LOG_FOLDER), snapshot.files)
    write_atomically(filesystem, file_names.join(building, MANIFEST_FILE), _encode(snapshot))


def _sync(filesystem: FileSystem, folder: str, files: Iterable[str]) -> None:
    """Syncs all files, including linked ones, and their directories."""
    paths = [file_names.join(folder, path) for path in files]
    sync_files(filesystem, paths)
    directories = {folder, *map(parent_of, paths)}
    for directory in sorted(directories, reverse=True):
        filesystem.sync_directory(directory)


def sync_files(filesystem: FileSystem, paths: Iterable[str]) -> None:
    """Syncs files, several at once, so that the disk can choose their order."""

    def sync(path: str) -> None:
        with filesystem.open(path, "write") as file:
            file.sync()

    with closing(in_order(sync, paths, SYNCED_AT_ONCE)) as synced:
        for _ in synced:
            pass


# snapshot.json


def _encode(snapshot: Snapshot) -> bytes:
    content = {
        "version": MANIFEST_VERSION,
        "source": snapshot.source,
        "taken_at_ms": snapshot.taken_at_ms,
        "files": {path: file._asdict() for path, file in sorted(snapshot.files.items())},
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def _decode(directory: str, data: bytes) -> Snapshot:
    content: dict[str, Any] = json.loads(data)
    if content["version"] != MANIFEST_VERSION:
        raise ValueError(f"it has version {content['version']}, but this engine knows {MANIFEST_VERSION}")
    files = {path: SnapshotFile(**file) for path, file in content["files"].items()}
    outside = [path for path in files if path.startswith("/") or ".." in path.split("/")]
    if outside:
        raise ValueError(f"it names {outside[0]!r}, which lies outside the snapshot")
    return Snapshot(directory, content["source"], content["taken_at_ms"], files)
