"""The common base of a segment's indexes: the file, and sorted pairs of numbers.

An index keeps its entries in memory, sorted, and writes new ones to its file at once. It reads and creates no file
before that is needed. One thread at a time, which holds the log's lock, may use an index.

As in Kafka, the ``.index`` and ``.timeindex`` of an active segment are extended with zeros to their full capacity, and
cut to the used size when the segment is rolled or closed. After a crash the zeros are still there; therefore entries of
zeros at the end do not count. Kafka counts them, which is why it always rebuilds the indexes of unflushed segments.

All indexes can be rebuilt from the ``.log``. ``sanity_check`` reports faults of a file. A lookup in a damaged
file does not fail but returns a wrong result; callers must check that a batch begins at the position that they get.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from ..errors import CorruptIndexError, SegmentOffsetOverflowError
from ..filesystem.operations import size_of
from ..filesystem.port import Buffer, File, FileSystem
from ..format.constants import INT32_MAX
from ..format.files.index_entries import fits
from ..format.tables import Int64s

MAX_INDEX_BYTES: Final = 10 * 1024 * 1024  # segment.index.bytes
_ENTRIES_AT_FIRST = 16  # grows by doubling
_BLOCK_ENTRIES = 4096  # reading this many entries takes hardly longer than reading one
_NEW_ENTRIES = 256  # if other processes added more, the whole file is read again


class SidecarFile:
    """The file of an index. Opened for writing when first written; for reading, opened, read in one go and closed."""

    def __init__(self, filesystem: FileSystem, path: str, writable: bool) -> None:
        self.filesystem = filesystem
        self.path = path
        self.writable = writable
        self._file: File | None = None

    def for_writing(self) -> File:
        """The file, open for writing, created if missing. Raises io.UnsupportedOperation if the index is read-only."""
        if not self.writable:
            raise io.UnsupportedOperation(
                f"{self.path}: this index was opened for reading only; open the log for writing to change it"
            )
        if self._file is None:
            self._file = self.filesystem.open(self.path, "create")
        return self._file

    def size(self) -> int:
        """Bytes on disk; 0 if there is no file."""
        return size_of(self.filesystem, self.path)

    def read_entries(self, entry_bytes: int) -> Buffer:
        """The entries before the zeros of a preallocated file; nothing if there is no file."""
        try:
            file = self.filesystem.open(self.path, "read")
        except FileNotFoundError:
            return b""
        try:
            size = file.size()
            if size > INT32_MAX:
                raise CorruptIndexError(
                    f"the index has {size} bytes, more than the limit of {INT32_MAX}; rebuild it from the log",
                    path=self.path,
                )
            return bytes(file.read(0, _used_entries(file, size // entry_bytes, entry_bytes) * entry_bytes))
        finally:
            file.close()

    def sync(self) -> None:
        """Wait until the file, including what other processes wrote, is on disk; does nothing if there is no file."""
        if self._file is not None or self.filesystem.status(self.path) is not None:
            self.for_writing().sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename_to(self, path: str) -> None:
        """Rename the file, if there is one, and close it. Later writes go to the new name."""
        self.close()
        if self.filesystem.status(self.path) is not None:
            self.filesystem.rename(self.path, path)
        self.path = path


def _used_entries(file: File, count: int, entry_bytes: int) -> int:
    """Returns how many of the ``count`` entries in an index file precede its padding of zeros.

    Finds the block in which the padding begins by bisection, since in an intact file only zeros follow an entry of
    zeros. The first entry may consist of zeros and still count (offset 0 at time 0), so a file of one entry has one. If
    damage put zeros into the middle of the file, the result may be too small, which makes lookups slower but not wrong.
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

    def add(self, first: int, second: int) -> None:
        self._make_room(self.count + 1)
        self._rows[0, self.count], self._rows[1, self.count] = first, second
        self.count += 1

    def _make_room(self, end: int) -> None:
        if end > self._rows.shape[1]:
            grown = np.empty((2, max(end, 2 * self._rows.shape[1])), dtype=np.int64)
            grown[:, : self.count] = self._rows[:, : self.count]
            self._rows = grown

    def extend(self, first: Int64s, second: Int64s) -> None:
        end = self.count + len(first)
        self._make_room(end)
        self._rows[0, self.count : end] = first
        self._rows[1, self.count : end] = second
        self.count = end


class PairFormat(NamedTuple):
    """The file format of an index with two columns of numbers, one of which contains offsets."""

    columns: tuple[str, str]
    entry_bytes: int
    encode: Callable[[int, Int64s, Int64s], bytes]
    encode_one: Callable[[int, int, int], bytes]
    decode: Callable[[int, Buffer], tuple[Int64s, Int64s]]


class PairIndex(ABC):
    """The common base of ``.index`` and ``.timeindex``: two sorted columns, a capacity in entries, and a file."""

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
        """Opens no file. ``max_bytes``: the capacity (``segment.index.bytes``), rounded down to whole entries."""
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
        return self._columns.count >= self.max_entries - self.RESERVED_ENTRIES

    @property
    def room(self) -> int:
        """How many entries can be appended before the index is full."""
        return max(0, self.max_entries - self.RESERVED_ENTRIES - len(self))

    @property
    def size_in_bytes(self) -> int:
        """Bytes that the entries occupy; the file of an active segment is longer."""
        return len(self) * self.FORMAT.entry_bytes

    def resize(self) -> None:
        """Extend the file with zeros to its full capacity, as an active segment needs; creates the file if missing."""
        self._file.for_writing().truncate(max(self.max_entries * self.FORMAT.entry_bytes, self.size_in_bytes))

    def trim_to_valid_size(self) -> None:
        """Cut the file after its last entry; creates the file if missing.

        Called when a segment is rolled, closed or recovered.
        """
        self._file.for_writing().truncate(self.size_in_bytes)

    def reset(self) -> None:
        """Remove all entries and empty the file; creates the file if missing."""
        self._file.for_writing().truncate(0)
        self._loaded = _Columns(_none(), _none())

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and above ``offset``."""
        self._keep(int(np.searchsorted(self.offsets, offset, side="left")))

    def sanity_check(self) -> None:
        """Check the entries. Raises CorruptIndexError, with the position in the file, for the first fault.

        Faults: the first column does not increase, the second one decreases, the file ends with part of an entry, or an
        offset is below the segment's base offset.
        """
        self._check_length()
        columns = (self._columns.first, self._columns.second)
        for name, column, strictly in zip(self.FORMAT.columns, columns, (True, False), strict=True):
            self._check_sorted(column, name, strictly=strictly)
        if len(self) and min(self.offsets[0] - self.base_offset, columns[0][0], columns[1][0]) < 0:
            raise self._corrupt(
                f"entry 0 is {self._entry(0)}, but the segment begins at offset {self.base_offset}; rebuild the index",
                0,
            )

    def sync(self) -> None:
        """Wait until the file is on disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file without changing it; the next use opens it again."""
        self._file.close()
        self._loaded = None

    def rename_to(self, path: str) -> None:
        """Rename the file; does not sync the directory."""
        self._file.rename_to(path)

    def read_appended(self) -> None:
        """Read the entries that other processes appended to the file; if they rewrote the file, read it all again.

        Other processes rewrite an index when they recover the segment, and may add an entry that belongs to no batch
        when they close the log.
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
        """Append entries to the file, then to memory; if writing fails, memory is unchanged.

        After a crash, any number of the new entries may be on disk.
        """
        columns = self._columns
        self._check_room(len(first), skip_full_check)
        data = self.FORMAT.encode(self.base_offset, first, second)
        self._file.for_writing().write(columns.count * self.FORMAT.entry_bytes, data)
        columns.extend(first, second)

    def _write_one(self, first: int, second: int, skip_full_check: bool) -> None:
        """Append one entry like :meth:`_write`, without arrays."""
        columns = self._columns
        self._check_room(1, skip_full_check)
        data = self.FORMAT.encode_one(self.base_offset, first, second)
        self._file.for_writing().write(columns.count * self.FORMAT.entry_bytes, data)
        columns.add(first, second)

    def _check_room(self, count: int, skip_full_check: bool) -> None:
        if not skip_full_check and count > self.room:
            raise ValueError(
                f"{self.path}: cannot append {count} entries: the index has {len(self)}, and room for {self.room} "
                "more; roll the segment first"
            )

    @abstractmethod
    def _entry(self, n: int) -> tuple[int, int]: ...

    def _last_up_to(self, target: int) -> int:
        """The number of the last entry whose first column is at most ``target``; -1 if there is none."""
        return int(np.searchsorted(self._columns.first, target, side="right")) - 1

    def _keep(self, count: int) -> None:
        """Keep only the first ``count`` entries, in memory and in the file.

        A preallocated file keeps its size: zeros replace the other entries.
        """
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
        for offset in (first,) if first == last else (first, last):
            if not fits(self.base_offset, offset):
                raise SegmentOffsetOverflowError(
                    f"{self.path}: offset {offset} is not within 2^31 - 1 above the base offset {self.base_offset}"
                )

    def _check_length(self) -> None:
        over = self._file.size() % self.FORMAT.entry_bytes
        if over:
            position = self._file.size() - over
            raise self._corrupt(
                f"{over} bytes follow the last whole entry of {self.FORMAT.entry_bytes} bytes; rebuild the index",
                position,
            )

    def _check_sorted(self, column: Int64s, what: str, *, strictly: bool) -> None:
        before, after = column[:-1], column[1:]  # compared, since the difference of times may exceed 2^63
        wrong = np.flatnonzero(after <= before if strictly else after < before)
        if len(wrong):
            at = int(wrong[0]) + 1
            reason = (
                f"entry {at} has {what} {column[at]}, but the entry before it has {column[at - 1]}; rebuild the index"
            )
            raise self._corrupt(reason, at * self.FORMAT.entry_bytes)

    def _corrupt(self, reason: str, position: int) -> CorruptIndexError:
        return CorruptIndexError(reason, path=self.path, position=position)


def shifted(before: int, column: Int64s) -> Int64s:
    """Returns the column moved by one row: ``before``, then all values but the last; shape (n,), n > 0."""
    result = np.empty_like(column)
    result[0] = before
    result[1:] = column[:-1]
    return result


def _none() -> Int64s:
    return np.empty(0, dtype=np.int64)
