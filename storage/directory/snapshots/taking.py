"""Takes snapshots of a log directory, with all partitions at one moment.

Closed segments are hard links to those of the log, so they take no space until the log deletes them; everything else is
copied. A log never writes to a closed segment, except to cut it (``Log.truncate_to``): that cuts the snapshot too, and
restoring it reports that.

While links and copies are made, the append locks of all partitions and the root lock are held, so that a transaction is
in the snapshot with all its partitions or with none. Writers wait in the meantime, readers do not.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from ...config import LogConfig
from ...errors import StorageError
from ...filesystem.open_files import OPEN_FILES
from ...filesystem.operations import make_own_directory
from ...filesystem.port import FileSystem
from ...format.files import file_names
from ...format.files.file_names import TopicPartition
from ...paths import local_path
from ...segment.swap import swap_plan
from ...segment.walk import LogContext
from ...writing.locks import APPEND_LOCK_FILE, wait_for_lock
from ..manager import LogManager
from ..remote_tier import remote_offsets, report_remote
from .building import check_outside, copy_file, whole_directory
from .manifest import LOG_FOLDER, Snapshot, SnapshotFile, complete

LISTING_ATTEMPTS = 200  # attempts while topics are created and deleted; each takes the locks of all partitions
NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}  # other disk, or no link support
SIDECARS = (file_names.LEADER_EPOCH_CHECKPOINT, file_names.PARTITION_METADATA_FILE)


def take_snapshot(manager: LogManager, target: str) -> Snapshot:
    """Takes a snapshot and returns it; ``target`` must be missing or an empty directory. Durable on return.

    Links files if ``target`` is on the log's disk, and copies them otherwise. Raises SnapshotError if ``target`` is not
    empty, LogDirLockedError while a broker runs on the log directory, and StorageError if this process may not lock so
    many partitions at once.
    """
    OPEN_FILES.check_room_for_locks(len(_partitions(manager)), f"a snapshot of {manager.directory}")
    target = local_path(target)
    check_outside(target, manager)
    manager.lock_brokers_out()
    with whole_directory(manager.filesystem, target) as building:
        folder = file_names.join(building, LOG_FOLDER)
        with _standing_still(manager) as partitions:
            taken_at_ms = manager.clock.now_ms()
            files = dict(_take_all(manager, partitions, folder))
        _report_remote(manager, files)
        snapshot = Snapshot(target, manager.directory, taken_at_ms, files)
        complete(manager.filesystem, building, snapshot)
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
    return SnapshotFile(copy_file(filesystem, source, target, status.modified_ms), status.modified_ms, False)


def _link(filesystem: FileSystem, source: str, target: str) -> bool:
    """Makes a hard link; returns False if the file system has no links, or ``target`` is on another one."""
    try:
        filesystem.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        return False
    return True
