"""Open files of a log on an object store. They are read-only, and keep the content that they had when opened."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import NoReturn, Protocol, Self

from ...errors import ObjectMissingError, StorageError
from ...filesystem.port import Buffer, Held, MadeFile
from .parts import PART_BYTES, Part, Parts, Progress


class ReadOnlyError(StorageError, io.UnsupportedOperation):
    """The files that show a log on an object store cannot be written."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: this log is shown as files that can be read only")


class Content(Protocol):
    """The bytes of a file."""

    def read(self, position: int, length: int) -> memoryview: ...

    def forget(self) -> None: ...


class OpenFile(MadeFile):
    """An open file. ``missing`` returns the error to raise for an object that the store does not have."""

    def __init__(
        self, path: str, size: int, content: Content, missing: Callable[[ObjectMissingError], Exception]
    ) -> None:
        self._path, self._size, self._content, self._missing = path, size, content, missing

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._size

    def read(self, position: int, length: int) -> memoryview:
        if position < 0 or length < 0:
            raise ValueError(f"{self._path}: cannot read {length} bytes at position {position}")
        try:
            return self._content.read(position, min(length, max(0, self._size - position)))
        except ObjectMissingError as error:
            raise self._missing(error) from error

    def forget(self) -> None:
        self._content.forget()

    def write(self, position: int, *data: Buffer) -> NoReturn:
        raise ReadOnlyError(self._path)

    def truncate(self, size: int) -> NoReturn:
        raise ReadOnlyError(self._path)

    def begin_sync(self) -> NoReturn:
        raise ReadOnlyError(self._path)

    def sync(self) -> NoReturn:
        raise ReadOnlyError(self._path)

    def hold(self) -> Held:
        raise io.UnsupportedOperation(f"{self._path}: an object has no descriptor")

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class MadeBytes:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def read(self, position: int, length: int) -> memoryview:
        return self._data[position : position + length]

    def forget(self) -> None:
        """Does nothing: the bytes were made here."""


class ObjectBytes:
    """The bytes of an object of known size, read in parts of ``part_bytes``."""

    def __init__(self, key: str, size: int, parts: Parts, part_bytes: int = PART_BYTES) -> None:
        self._key, self._size, self._parts, self._part_bytes = key, size, parts, part_bytes
        self._progress = Progress()

    def read(self, position: int, length: int) -> memoryview:
        end = min(position + length, self._size)
        if position >= end:
            return memoryview(b"")
        ahead = self._progress.ahead_of(position, length)
        numbers = range(position // self._part_bytes, (end - 1) // self._part_bytes + 1)
        behind = range(numbers.stop, -(-min(end + ahead, self._size) // self._part_bytes))
        found = self._parts.get(list(map(self._part, numbers)), list(map(self._part, behind)))
        data = found[0] if len(found) == 1 else b"".join(found)
        start = numbers.start * self._part_bytes
        return memoryview(data)[position - start : end - start]

    def forget(self) -> None:
        self._parts.forget({self._key})

    def _part(self, number: int) -> Part:
        start = number * self._part_bytes
        return Part(self._key, start, min(self._part_bytes, self._size - start), self._size)
