"""The table from old positions to new offsets: a file of text for each partition, which any program can read.

The first line is ``position,offset``. Then there is a line for each entry of the old log, in order: its position, and
the offset of its first message in the new log. The last line has the end of both logs. An entry without messages (an
empty compressed set) has no line: its position stands for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from ...storage.errors import CorruptCheckpointError, OffsetOutOfRangeError
from ...storage.filesystem.operations import parent_of
from ...storage.filesystem.port import FileSystem
from ...storage.format.tables import Int64s

HEADING = b"position,offset\n"
READ_BYTES = 1 << 20
TEMPORARY = ".tmp"


class Row(NamedTuple):
    """A position of the old log, and the offset in the new log."""

    position: int
    offset: int


def read_rows(path: str, filesystem: FileSystem) -> Iterator[Int64s]:
    """Yields the rows of a table in pieces of about a megabyte, shape (rows, 2): positions and offsets.

    Raises FileNotFoundError if there is no table; CorruptCheckpointError, with the path, if the file is not a table, is
    truncated, or is not in order.
    """
    with filesystem.open(path, "read") as file:
        size, at, rest, last = file.size(), len(HEADING), b"", -1
        if bytes(file.read(0, at)) != HEADING or size == at:
            raise CorruptCheckpointError("this is no table of positions", path=path)
        while at < size:
            whole, newline, rest = (rest + bytes(file.read(at, READ_BYTES))).rpartition(b"\n")
            at += READ_BYTES
            rows = _parsed(whole + newline, path)
            if (np.diff(rows[:, 0], prepend=last) < 0).any():
                raise CorruptCheckpointError("the positions are not in order", path=path)
            if len(rows):
                last = int(rows[-1, 0])
                yield rows
    if rest:
        raise CorruptCheckpointError("the last line has no end: the file was cut off", path=path)


def _parsed(lines: bytes, path: str) -> Int64s:
    try:
        return np.array([line.split(b",") for line in lines.splitlines()], dtype=np.int64).reshape(-1, 2)
    except ValueError as error:
        raise CorruptCheckpointError(f"a line is not two numbers: {error}", path=path) from None


class PositionTable:
    """The table of one partition in memory, 16 bytes a row."""

    def __init__(self, path: str, filesystem: FileSystem) -> None:
        """Reads the file. Raises like :func:`read_rows`."""
        self.path = path
        self._rows = np.concatenate(list(read_rows(path, filesystem)))

    @property
    def first(self) -> Row:
        """The first row: where the old log began."""
        return Row(*self._rows[0].tolist())

    @property
    def end(self) -> Row:
        """The last row: the ends of both logs."""
        return Row(*self._rows[-1].tolist())

    def offset_of(self, position: int) -> int:
        """Returns the offset of the first message at or after an old position, such as one that a group committed.

        Raises OffsetOutOfRangeError for a position before the first or after the end.
        """
        if not self.first.position <= position <= self.end.position:
            raise OffsetOutOfRangeError(
                f"{self.path} has positions {self.first.position} to {self.end.position}, but not {position}"
            )
        return int(self._rows[np.searchsorted(self._rows[:, 0], position), 1])


class PositionTableWriter:
    """Writes a table beside its final name; :meth:`finish` gives it that name.

    On disk after each step: the rows in ``<path>.tmp``, which means nothing; the same, synced; the table under its
    name; its name, synced. A second run writes the ``.tmp`` from its beginning.
    """

    def __init__(self, path: str, filesystem: FileSystem) -> None:
        self._path, self._filesystem = path, filesystem
        self._file = filesystem.open(path + TEMPORARY, "create")
        self._file.truncate(0)
        self._size = 0
        self._write(HEADING)

    def add(self, positions: Int64s, offsets: Int64s) -> None:
        """Adds rows, shape (rows,) each, in order."""
        pairs = zip(positions.tolist(), offsets.tolist(), strict=True)
        self._write("".join(f"{position},{offset}\n" for position, offset in pairs).encode())

    def _write(self, data: bytes) -> None:
        self._file.write(self._size, data)
        self._size += len(data)

    def finish(self) -> None:
        """Makes the table durable under its name."""
        self._file.sync()
        self._file.close()
        self._filesystem.rename(self._path + TEMPORARY, self._path)
        self._filesystem.sync_directory(parent_of(self._path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
