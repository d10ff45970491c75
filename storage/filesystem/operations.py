"""Operations on files, such as atomic replacement, that need only the port and so work on every file system."""

from __future__ import annotations

import io
import os

import numpy as np

from ..errors import CorruptionError, NotALogDirError
from .port import Buffer, File, FileSystem, MadeFile, MadeFileSystem

PIECE_BYTES = 1 << 20  # read at once


def parent_of(path: str) -> str:
    """The parent directory of ``path``."""
    return os.path.dirname(path.rstrip("/")) or ("/" if path.startswith("/") else ".")


def catch_up(filesystem: FileSystem) -> None:
    """Updates a file system with others' changes; most show them at once."""
    if isinstance(filesystem, MadeFileSystem):
        filesystem.catch_up()


def pin(filesystem: FileSystem) -> None:
    """Lets a file system show a reader all files of one moment, if it can: see :meth:`MadeFileSystem.pin`."""
    if isinstance(filesystem, MadeFileSystem):
        filesystem.pin()


def is_made(filesystem: FileSystem, path: str) -> bool:
    """Whether a file was computed from checked content: see :meth:`MadeFileSystem.is_made`."""
    return isinstance(filesystem, MadeFileSystem) and filesystem.is_made(path)


def holds_from_log_start(filesystem: FileSystem, directory: str) -> bool:
    """Whether missing offsets were lost: see :meth:`MadeFileSystem.holds_from_log_start`."""
    return isinstance(filesystem, MadeFileSystem) and filesystem.holds_from_log_start(directory)


def shown_path(filesystem: FileSystem, path: str) -> str:
    """Returns the name for a file in errors: see :meth:`MadeFileSystem.shown_path`."""
    return filesystem.shown_path(path) if isinstance(filesystem, MadeFileSystem) else path


def forget_read(file: File) -> bool:
    """Makes the next read of a file fetch its bytes again; False if each read does, as for a local file."""
    if not isinstance(file, MadeFile):
        return False
    file.forget()
    return True


def count_other_names(filesystem: FileSystem, path: str) -> int:
    """Returns how many more names (hard links) a file has, as in a snapshot; 0 where the file system cannot show it."""
    with filesystem.open(path, "read") as file:
        try:
            held = file.hold()
        except io.UnsupportedOperation:
            return 0
        try:
            return os.fstat(held.descriptor).st_nlink - 1
        finally:
            held.release()


def not_a_link(filesystem: FileSystem, directory: str) -> str:
    """Return ``directory``. Raises NotALogDirError if it is a link, which may lead out of the log directory."""
    if filesystem.is_link(directory):
        raise NotALogDirError(
            f"{directory} is a link, and links out of a log directory are not followed; mount its target instead"
        )
    return directory


def make_own_directory(filesystem: FileSystem, path: str) -> None:
    """Create a directory inside a log directory, if it is missing; its name is durable after a sync of the parent.

    Everything that is written below a log directory is in directories that this function made or accepted. Raises
    NotALogDirError for a link, even a broken one: files written there would be outside the log directory.
    """
    filesystem.make_directory(not_a_link(filesystem, path))


def make_directory_durably(filesystem: FileSystem, path: str) -> None:
    """Create a directory and its missing parents, and sync their names; no-op if the directory exists."""
    missing = []
    while filesystem.status(path) is None:
        missing.append(path)
        path = parent_of(path)
    if missing:
        filesystem.make_directory(missing[0])
        for made in missing:
            filesystem.sync_directory(parent_of(made))


def remove_tree(filesystem: FileSystem, path: str) -> None:
    """Remove a file, or a directory with everything in it; no error if it does not exist. Syncs nothing.

    Of a link, removes only the link.
    """
    status = None if filesystem.is_link(path) else filesystem.status(path)
    if status is not None and status.is_directory:
        for name in filesystem.list(path):
            remove_tree(filesystem, f"{path}/{name}")
    filesystem.remove(path)


def size_of(filesystem: FileSystem, path: str) -> int:
    """Returns the size of a file, in bytes; 0 if there is none."""
    status = filesystem.status(path)
    return 0 if status is None else status.size


def read_file(filesystem: FileSystem, path: str, limit: int) -> bytes:
    """Returns the whole content of a small file.

    Raises CorruptionError, without reading the whole file, if it has more than ``limit`` bytes; raises OSError, such as
    FileNotFoundError, if it cannot be read.
    """
    with filesystem.open(path, "read") as file:
        data = bytes(file.read(0, limit + 1))
        if len(data) > limit:
            raise CorruptionError(
                (
                    f"the file has {file.size()} bytes, but a file of this kind has at "
                    f"most {limit}; restore or remove it"
                ),
                path=path,
            )
        return data


def is_zero(file: File, start: int, end: int) -> bool:
    """Whether all bytes of a file between two positions are 0; those beyond its end count as 0."""
    for at in range(start, end, PIECE_BYTES):
        if np.frombuffer(file.read(at, min(PIECE_BYTES, end - at)), dtype=np.uint8).any():
            return False
    return True


def write_atomically(filesystem: FileSystem, path: str, data: Buffer) -> None:
    """Replace the content of ``path`` so that a crash leaves the old or the new content, never a mixture.

    The state on disk after a crash that follows each step:

    1. ``<path>.tmp`` is written: ``path`` has the old content; the ``.tmp`` may be missing, empty, torn or complete.
    2. The ``.tmp`` is synced: ``path`` has the old content; the ``.tmp`` may be missing, since its name is not synced.
    3. The ``.tmp`` is renamed to ``path``: ``path`` has the old or the new content, complete.
    4. The directory is synced: ``path`` has the new content.

    A ``.tmp`` that remains after a crash or an error has no meaning; the next call overwrites it. Only one caller at a
    time may replace a file, because two would write the same ``.tmp``.
    """
    temporary = path + ".tmp"
    with filesystem.open(temporary, "create") as file:
        file.truncate(0)
        file.write(0, data)
        file.sync()
    filesystem.rename(temporary, path)
    filesystem.sync_directory(parent_of(path))
