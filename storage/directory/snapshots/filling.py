"""Makes a log directory, or a snapshot, of what a caller writes to a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ...clock import Clock
from ...filesystem.local import LocalFileSystem
from ...filesystem.port import FileSystem
from ...format.files import file_names
from ...paths import local_path
from .building import sync_all, whole_directory
from .manifest import LOG_FOLDER, Snapshot, SnapshotFile, complete


def fill_log_directory(target: str, fill: Callable[[str], Iterable[str]]) -> None:
    """Makes a log directory that ``fill`` fills: it is called with the folder to write to; durable on return.

    ``fill`` returns the paths of its files below the folder. Raises SnapshotError if ``target`` is not empty, and the
    errors of ``fill``.
    """
    filesystem = LocalFileSystem()
    with whole_directory(filesystem, local_path(target)) as building:
        sync_all(filesystem, building, fill(building))


def fill_snapshot(target: str, source: str, fill: Callable[[str], None], clock: Clock) -> Snapshot:
    """Makes a snapshot that ``fill`` fills: it is called with the folder to write to; durable on return.

    ``source``: the log of the snapshot. Raises SnapshotError if ``target`` is not empty, and the errors of ``fill``.
    """
    filesystem, target = LocalFileSystem(), local_path(target)
    with whole_directory(filesystem, target) as building:
        folder = file_names.join(building, LOG_FOLDER)
        taken_at_ms = clock.now_ms()
        fill(folder)
        snapshot = Snapshot(target, source, taken_at_ms, dict(_all_in(filesystem, folder)))
        complete(filesystem, building, snapshot)
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
