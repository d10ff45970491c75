"""What the indexes of a segment share: the file, and sorted pairs of numbers.

Entries are kept in memory, sorted, and written through to the file; nothing is read, and no file created, before it is
needed. An index belongs to one thread at a time, which holds its log's lock.

Like Kafka, extends an active segment's ``.index`` and ``.timeindex`` to full capacity with zeros, and cuts them to the
used size when the segment is rolled or closed. A crash leaves the zeros in place, so trailing zero entries do not count
as entries here. Kafka counts them, which is why it always rebuilds the indexes of unflushed segments.

All indexes can be rebuilt from the ``.log``. ``sanity_check`` reports what is wrong with a file; a lookup in a damaged
file does not fail but gives a wrong result, so a walk over the log must not trust a position without a batch.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from ..errors import CorruptIndexError, SegmentOffsetOverflowError
from ..filesystem import Buffer, File, FileSystem
from ..format.constants import INT32_MAX
from ..format.files.index_entries import fits
from ..format.tables import Int64s

MAX_INDEX_BYTES: Final = 10 * 1024 * 1024  # segment.index.bytes
_ENTRIES_AT_FIRST = 16  # grows by doubling
_BLOCK_ENTRIES = 4096  # reading this many takes little longer than reading one
_NEW_ENTRIES = 256  # of other processes, that can be read without rereading everything


class SidecarFile:
    """An index's file: opened for writing on the first write, read in one go and closed again."""

    def __init__(self, filesystem: FileSystem, path: str, writable: bool) -> None:
        self.filesystem = filesystem
        self.path = path
        self.writable = writable
        self._file: File | None = None

    def for_writing(self) -> File:
        if not self.writable:
            raise io.UnsupportedOperation(f"{self.path}: this index was opened for reading only")
        if self._file is None:
            self._file = self.filesystem.open(self.path, "create")
        return self._file

    def size(self) -> int:
        """Bytes on disk; 0 if there is no file."""
        status = self.filesystem.status(self.path)
        return 0 if status is None else status.size

    def read_entries(self, entry_bytes: int) -> Buffer:
        """The entries before the zeros of a preallocated file; nothing if there is no file."""
        try:
            file = self.filesystem.open(self.path, "read")
        except FileNotFoundError:
            return b""
        try:
            size = file.size()
            if size > INT32_MAX:
                raise CorruptIndexError(f"index of {size} bytes, more than the limit of {INT32_MAX}", path=self.path)
            return bytes(file.read(0, _used_entries(file, size // entry_bytes, entry_bytes) * entry_bytes))
        finally:
            file.close()

    def sync(self) -> None:
        """Sync, including what an earlier process wrote; does nothing if there is no file."""
        if self._file is not None or self.filesystem.status(self.path) is not None:
            self.for_writing().sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename_to(self, path: str) -> None:
        """Rename; no error if there is no file. Closes the file: writing continues under the new name."""
        self.close()
        if self.filesystem.status(self.path) is not None:
            self.filesystem.rename(self.path, path)
        self.path = path


def _used_entries(file: File, count: int, entry_bytes: int) -> int:
    """The number of entries before the padding: in an intact file, only zeros follow a zero entry.

    Finds the block in which the padding begins by bisection. The first entry may be all zero and still be an entry
    (offset 0 at time 0), so a file of one entry has one. A file damaged by zeros in its middle may give fewer entries,
    which costs time but no correctness.
    """

    def is_zero(entry: int) -> bool:
        return not any(file.read(entry * entry_bytes, entry_bytes))

    if count <= 1 or not is_zero(count - 1):
        return count
    starts = range(0, count, _BLOCK_ENTRIES)
    first = starts[max(bisect_left(starts, True, key=is_zero) - 1, 0)]
    block = bytes(file.read(first * entry_bytes, min(_BLOCK_ENTRIES, count - first) * entry_bytes))
    return first + -(-len(block.rstrip(b"\0")) // entry_bytes)


class _Columns:
    """Two sorted columns of int64 that grow by doubling."""

    def __init__(self, first: Int64s, second: Int64s) -> None:
        self._rows = np.empty((2, max(_ENTRIES_AT_FIRST, len(first))), dtype=np.int64)
        self.count = 0
        self.extend(first, second)

    @property
    def first(self) -> Int64s:
        return self._rows[0, : self.count]

    @property
    def second(self) -> Int64s:
        return self._rows[1, : self.count]

    def last(self) -> tuple[int, int]:
        return int(self._rows[0, self.count - 1]), int(self._rows[1, self.count - 1])

    def extend(self, first: Int64s, second: Int64s) -> None:
        end = self.count + len(first)
        if end > self._rows.shape[1]:
            grown = np.empty((2, max(end, 2 * self._rows.shape[1])), dtype=np.int64)
            grown[:, : self.count] = self._rows[:, : self.count]
            self._rows = grown
        self._rows[0, self.count : end] = first
        self._rows[1, self.count : end] = second
        self.count = end


class PairFormat(NamedTuple):
    """The file format of two columns, of which one has offsets."""

    columns: tuple[str, str]
    entry_bytes: int
    encode: Callable[[int, Int64s, Int64s], bytes]
    decode: Callable[[int, Buffer], tuple[Int64s, Int64s]]


class PairIndex(ABC):
    """Common to ``.index`` and ``.timeindex``: two columns, a capacity, and the file they are written through to."""

    FORMAT: PairFormat
    RESERVED_ENTRIES = 0  # slots that only an append with skip_full_check may use

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        base_offset: int,
        *,
        max_bytes: int = MAX_INDEX_BYTES,
        writable: bool = True,
    ) -> None:
        """Opens nothing. ``max_bytes`` is ``segment.index.bytes``, rounded down to whole entries."""
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.FORMAT.entry_bytes
        self._file = SidecarFile(filesystem, path, writable)
        self._loaded: _Columns | None = None

    def __len__(self) -> int:
        return self._columns.count

    @property
    @abstractmethod
    def offsets(self) -> Int64s: ...

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def is_full(self) -> bool:
        """Whether the segment must roll before the next append."""
        return self.room <= 0

    @property
    def room(self) -> int:
        """The number of entries that can be appended before it is full."""
        return max(0, self.max_entries - self.RESERVED_ENTRIES - len(self))

    @property
    def size_in_bytes(self) -> int:
        """Bytes in use; an active segment's file is longer."""
        return len(self) * self.FORMAT.entry_bytes

    def resize(self) -> None:
        """Extend the file to full capacity with zeros, creating it if necessary: for an active segment."""
        self._file.for_writing().truncate(max(self.max_entries * self.FORMAT.entry_bytes, self.size_in_bytes))

    def trim_to_valid_size(self) -> None:
        """Cut the file after its last entry, creating it if necessary: on roll, clean close and after recovery."""
        self._file.for_writing().truncate(self.size_in_bytes)

    def reset(self) -> None:
        """Drop all entries; the file is empty afterwards, created if necessary."""
        self._file.for_writing().truncate(0)
        self._loaded = _Columns(_none(), _none())

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and above ``offset``."""
        self._keep(int(np.searchsorted(self.offsets, offset, side="left")))

    def sanity_check(self) -> None:
        """Raise CorruptIndexError, with the position, unless column 1 increases and column 2 never decreases."""
        self._check_length()
        columns = (self._columns.first, self._columns.second)
        for name, column, strictly in zip(self.FORMAT.columns, columns, (True, False), strict=True):
            self._check_sorted(column, name, strictly=strictly)
        if len(self) and min(self.offsets[0] - self.base_offset, columns[0][0], columns[1][0]) < 0:
            raise self._corrupt(f"entry 0 has {self._entry(0)}, but the segment begins at {self.base_offset}", 0)

    def sync(self) -> None:
        """Wait until the file is on disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file without changing it; the next use opens it again."""
        self._file.close()
        self._loaded = None

    def rename_to(self, path: str) -> None:
        """Give the file another name; does not sync the directory."""
        self._file.rename_to(path)

    def read_appended(self) -> None:
        """Read what other processes added after the known entries; reads everything again if they rewrote the file.

        They may do so: closing a log adds an entry that belongs to no batch, and recovery rewrites the index.
        """
        if self._loaded is None:
            return
        entry_bytes, known = self.FORMAT.entry_bytes, self._loaded.count
        last = max(known - 1, 0)
        data = bytes(self._file.for_writing().read(last * entry_bytes, _NEW_ENTRIES * entry_bytes))
        count = min(-(-len(data.rstrip(b"\0")) // entry_bytes), len(data) // entry_bytes)
        first, second = self.FORMAT.decode(self.base_offset, data[: count * entry_bytes])
        is_same = not known or (count > 0 and (int(first[0]), int(second[0])) == self._loaded.last())
        if is_same and count < _NEW_ENTRIES:
            self._loaded.extend(first[known - last :], second[known - last :])
        else:
            self._loaded = None

    @property
    def _columns(self) -> _Columns:
        if self._loaded is None:
            data = self._file.read_entries(self.FORMAT.entry_bytes)
            self._loaded = _Columns(*self.FORMAT.decode(self.base_offset, data))
        return self._loaded

    def _write(self, first: Int64s, second: Int64s, skip_full_check: bool) -> None:
        """After a crash, some of the new entries or none are on disk; in memory: all, or none if writing failed."""
        columns = self._columns
        if not skip_full_check and len(first) > self.room:
            raise ValueError(
                f"{self.path}: {len(first)} entries after its {columns.count}, but there is room for only {self.room}"
            )
        data = self.FORMAT.encode(self.base_offset, first, second)
        self._file.for_writing().write(columns.count * self.FORMAT.entry_bytes, data)
        columns.extend(first, second)

    @abstractmethod
    def _entry(self, n: int) -> tuple[int, int]: ...

    def _last_up_to(self, target: int) -> int:
        """The last entry whose first column is at most ``target``; -1 if there is none."""
        return int(np.searchsorted(self._columns.first, target, side="right")) - 1

    def _keep(self, count: int) -> None:
        """Drop the entries from ``count`` on, in the file too: their bytes read as zeros or are cut off."""
        if count == len(self):
            return
        size = self._file.size()
        kept_bytes = count * self.FORMAT.entry_bytes
        was_preallocated = size > self.size_in_bytes
        self._columns.count = count
        file = self._file.for_writing()
        file.truncate(kept_bytes)
        if was_preallocated:
            file.truncate(size)

    def _check_offsets_fit(self, first: int, last: int) -> None:
        for offset in (first, last):
            if not fits(self.base_offset, offset):
                raise SegmentOffsetOverflowError(
                    f"{self.path}: offset {offset} is not within 2^31 - 1 above the base offset {self.base_offset}"
                )

    def _check_length(self) -> None:
        over = self._file.size() % self.FORMAT.entry_bytes
        if over:
            position = self._file.size() - over
            raise self._corrupt(f"{over} bytes after the last entry of {self.FORMAT.entry_bytes}", position)

    def _check_sorted(self, column: Int64s, what: str, *, strictly: bool) -> None:
        before, after = column[:-1], column[1:]  # compared, since the difference of times may exceed 2^63
        wrong = np.flatnonzero(after <= before if strictly else after < before)
        if len(wrong):
            at = int(wrong[0]) + 1
            reason = f"entry {at} has {what} {column[at]}, the one before it {column[at - 1]}"
            raise self._corrupt(reason, at * self.FORMAT.entry_bytes)

    def _corrupt(self, reason: str, position: int) -> CorruptIndexError:
        return CorruptIndexError(reason, path=self.path, position=position)


def shifted(before: int, column: Int64s) -> Int64s:
    """For each value the one before it, ``before`` for the first; shape (n,), n > 0."""
    result = np.empty_like(column)
    result[0] = before
    result[1:] = column[:-1]
    return result


def _none() -> Int64s:
    return np.empty(0, dtype=np.int64)


def one(value: int) -> Int64s:
    return np.array([value], dtype=np.int64)
