"""PinnedTier: the files that a tier adds to a partition's directory, as of the moment when a reader opened the log."""

from __future__ import annotations

from ...bucket.files.read_only import ReadOnlyFileSystem
from ...filesystem.port import File, FileStatus, OpenMode
from .filesystem import TieredFiles
from .view import PartitionView


class PinnedTier(ReadOnlyFileSystem):
    """The files of a tier for a reader of one partition; readers share the cached parts of objects."""

    def __init__(self, files: TieredFiles, directory: str) -> None:
        self._files, self._directory = files, directory
        self._view: PartitionView | None = None

    def __reduce__(self) -> tuple[type[PinnedTier], tuple[TieredFiles, str]]:
        return type(self), (self._files, self._directory)

    @property
    def root(self) -> str:
        return self._files.root

    def catch_up(self) -> None:
        """Does nothing: :meth:`pin` updates the files."""

    def pin(self) -> None:
        self._view = self._files.view(self._directory, fresh=self._view is not None)

    def is_made(self, path: str) -> bool:
        return self._files.is_made(path)

    def holds_from_log_start(self, directory: str) -> bool:
        return self._files.holds_from_log_start(directory)

    def is_link(self, path: str) -> bool:
        return self._files.is_link(path)

    def shown_path(self, path: str) -> str:
        """Returns the URL of the object with a file's bytes; for a file of the directory, its path."""
        name = self._name(path)
        return (None if name is None or self._view is None else self._view.object_name(name)) or path

    @property
    def first_local(self) -> int | None:
        """Where the segments of the log directory begin; None: there are none, or the tier has nothing of the log."""
        return None if self._view is None else self._view.stop

    @property
    def last_tiered(self) -> int | None:
        """The last offset of the log in the tier, even if local segments begin below it; None: the tier has nothing."""
        return self._files.last_offset(self._directory)

    def list(self, directory: str) -> list[str]:
        """Returns the names in a directory; lists the tier again if the first local segment has changed."""
        if self._view is None or directory.rstrip("/") != self._directory:
            return self._files.list(directory)
        now = self._files.view(self._directory)
        if now is not None and now.stop != self._view.stop:
            self._view = now
        return self._files.list_in(self._view, directory)

    def status(self, path: str) -> FileStatus | None:
        name = self._name(path)
        return self._files.status(path) if name is None else self._files.status_in(self._view, name, path)

    def open(self, path: str, mode: OpenMode) -> File:
        name = self._name(path)
        return self._files.open(path, mode) if name is None else self._files.open_in(self._view, name, path, mode)

    def _name(self, path: str) -> str | None:
        """Returns the name of a file in the partition's directory; None for another file."""
        directory, _, name = path.rpartition("/")
        return name if self._view is not None and name and directory == self._directory else None
