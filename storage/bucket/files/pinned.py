"""PinnedFiles: a partition's directory as it was at one moment.

The log changes while a reader opens one file after the other, and a name may then mean other bytes: a ``.log`` has
grown, or a segment with fewer offsets has its name. In such a mixture, sound files look damaged, and records are
skipped. So a reader gets the files as they were when it loaded the log last.
"""

from __future__ import annotations

from ...filesystem.port import FileStatus, OpenMode
from .filesystem import BucketFileSystem
from .layout import PartitionFiles, names_in
from .open_files import OpenFile
from .read_only import ReadOnlyFileSystem


class PinnedFiles(ReadOnlyFileSystem):
    """The files of a log for a reader of one partition; readers share the cached parts of objects."""

    def __init__(self, files: BucketFileSystem, directory: str) -> None:
        self._files, self._directory = files, directory
        self._pinned: PartitionFiles | None = None  # None: not yet pinned, or these are the offsets of groups

    def __reduce__(self) -> tuple[type[PinnedFiles], tuple[BucketFileSystem, str]]:
        return type(self), (self._files, self._directory)

    @property
    def root(self) -> str:
        return self._files.root

    @property
    def pinned(self) -> PartitionFiles | None:
        """The pinned files; None: not yet pinned, or not a partition in the commits."""
        return self._pinned

    def catch_up(self) -> None:
        """Reads the commits of others; the pinned files stay the same."""
        self._files.catch_up()

    def pin(self) -> None:
        self._pinned = self._files.partition_files(self._directory)

    def is_made(self, path: str) -> bool:
        pinned, name = self._place(path)
        return self._files.is_made(path) if pinned is None else self._files.is_made_in(pinned, name)

    def list(self, directory: str) -> list[str]:
        if self._pinned is None or directory.rstrip("/") != self._directory:
            return self._files.list(directory)
        return names_in(self._pinned)

    def status(self, path: str) -> FileStatus | None:
        """Returns the pinned status of a file; the status of the directory reveals changes by others."""
        pinned, name = self._place(path)
        return self._files.status(path) if pinned is None else self._files.status_in(pinned, name, path)

    def open(self, path: str, mode: OpenMode) -> OpenFile:
        pinned, name = self._place(path)
        if pinned is None or mode != "read":
            return self._files.open(path, mode)
        return self._files.open_in(pinned, name, path)

    def _place(self, path: str) -> tuple[PartitionFiles | None, str]:
        directory, _, name = path.rpartition("/")
        return (self._pinned, name) if name and directory == self._directory else (None, "")
