"""ReadOnlyFileSystem: the operations that would write, all refused."""

from __future__ import annotations

from typing import NoReturn

from ...filesystem.port import MadeFileSystem
from .open_files import ReadOnlyError


class ReadOnlyFileSystem(MadeFileSystem):
    """A file system that shows a log on an object store.

    All operations that would write raise io.UnsupportedOperation.
    """

    def is_link(self, path: str) -> bool:
        return False

    def make_directory(self, path: str) -> NoReturn:
        raise ReadOnlyError(path)

    def rename(self, source: str, target: str) -> NoReturn:
        raise ReadOnlyError(source)

    def link(self, source: str, target: str) -> NoReturn:
        raise ReadOnlyError(target)

    def remove(self, path: str) -> NoReturn:
        raise ReadOnlyError(path)

    def set_modified(self, path: str, modified_ms: int) -> NoReturn:
        raise ReadOnlyError(path)

    def sync_directory(self, path: str) -> NoReturn:
        raise ReadOnlyError(path)

    def lock(self, path: str, *, exclusive: bool = True, wait: bool = True) -> NoReturn:
        raise ReadOnlyError(path)

    def byte_locks(self, path: str) -> NoReturn:
        raise ReadOnlyError(path)

    def lock_shared_with_broker(self, path: str) -> NoReturn:
        raise ReadOnlyError(path)
