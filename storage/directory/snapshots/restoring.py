"""Reads a snapshot, and restores a log directory from it."""

from __future__ import annotations

from ...errors import CorruptionError, SnapshotError
from ...filesystem.local import LocalFileSystem
from ...filesystem.operations import parent_of, read_file
from ...filesystem.port import FileSystem
from ...format.files import file_names
from ...paths import local_path
from .building import copy_file, sync_all, whole_directory
from .manifest import LOG_FOLDER, MANIFEST_BYTES_MAX, MANIFEST_FILE, Snapshot, SnapshotFile, decode


def restore_snapshot(directory: str, target: str, *, filesystem: FileSystem | None = None) -> Snapshot:
    """Copies the log in the snapshot ``directory`` to ``target``, which must be missing or empty; durable on return.

    Returns the snapshot. Raises SnapshotError if ``target`` is not empty, or ``directory`` is not a complete snapshot.
    """
    filesystem = filesystem or LocalFileSystem()
    directory, target = local_path(directory), local_path(target)
    snapshot = read_snapshot(directory, filesystem=filesystem)
    with whole_directory(filesystem, target) as building:
        for path, file in snapshot.files.items():
            source, copy = file_names.join(directory, LOG_FOLDER, path), file_names.join(building, path)
            filesystem.make_directory(parent_of(copy))
            if copy_file(filesystem, source, copy, file.modified_ms) != file.size:
                raise _changed(source, filesystem, file)
        sync_all(filesystem, building, snapshot.files)
    return snapshot


def read_snapshot(directory: str, *, filesystem: FileSystem | None = None) -> Snapshot:
    """Reads ``snapshot.json`` and checks the size of each file; returns the snapshot.

    Raises SnapshotError if ``directory`` is not a snapshot, or a file is missing or has another size.
    """
    filesystem, directory = filesystem or LocalFileSystem(), local_path(directory)
    path = file_names.join(directory, MANIFEST_FILE)
    try:
        snapshot = decode(directory, read_file(filesystem, path, MANIFEST_BYTES_MAX))
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
