"""A disk that nobody writes to: the reading half of the FileSystem port over bytes in memory, copied in no time."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, NoReturn, Self

from pyspark_commitlog.storage.filesystem.port import FileStatus

Changes = Mapping[str, bytes | None]  # by path; None: the file is gone


class FrozenFile:
    """An open file."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._data = memoryview(data)

    def size(self) -> int:
        return len(self._data)

    def read(self, position: int, length: int) -> memoryview:
        if position < 0 or length < 0:
            raise OSError(errno.EINVAL, "invalid position or length", self.path)
        return self._data[position : position + length]

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        raise OSError(errno.EROFS, f"{name}: nobody writes to it", self.path)


class FrozenFileSystem:
    """Files by their paths, such as ``/logs/t-0/00000000000000000000.log``; directories are what the paths name."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self._names: dict[str, set[str]] = {}
        for path in self.files:
            self._add(path)

    def _add(self, path: str) -> None:
        while path:
            directory, _, name = path.rpartition("/")
            self._names.setdefault(directory, set()).add(name)
            path = directory

    def changed(self, changes: Changes) -> FrozenFileSystem:
        """Another disk with other contents in some files; an empty directory stays."""
        found = FrozenFileSystem.__new__(FrozenFileSystem)
        found.files = {**self.files}
        found._names = {directory: set(names) for directory, names in self._names.items()}
        for path, data in changes.items():
            if data is not None:
                found.files[path] = data
                found._add(path)
            elif found.files.pop(path, None) is not None:
                directory, _, name = path.rpartition("/")
                found._names[directory].discard(name)
        return found

    def list_directories(self) -> list[str]:
        """The paths of all directories, those above first."""
        return sorted(self._names)

    def list(self, directory: str) -> list[str]:
        if directory not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        return sorted(self._names[directory])

    def status(self, path: str) -> FileStatus | None:
        if path in self.files:
            return FileStatus(len(self.files[path]), 0, id(self.files[path]), False)
        return FileStatus(0, 0, hash(path), True) if path in self._names else None

    def is_link(self, path: str) -> bool:
        return False

    def open(self, path: str, mode: str) -> FrozenFile:
        if mode != "read":
            raise OSError(errno.EROFS, "nobody writes to it", path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return FrozenFile(path, self.files[path])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise OSError(errno.EROFS, f"{name}: nobody writes to it")
