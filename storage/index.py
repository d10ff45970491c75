"""The indexes of a segment: by offset, by time, and of aborted transactions (spec 5.1 to 5.4).

Entries are kept in memory, sorted, and written through to the file as they come; nothing is read, and no file made,
before it is needed. An index belongs to one thread at a time, the one that holds its log's lock.

An active segment's ``.index`` and ``.timeindex`` are extended to their full capacity with zeros, as Kafka does, and cut
to what is used when the segment is rolled or closed. A crash leaves the zeros behind, so here trailing zero entries are
no entries; Kafka takes them for entries, which is why it always rebuilds the indexes of what was not flushed.

All of them can be rebuilt from the ``.log``. ``sanity_check`` tells what is wrong with a file; a lookup in a damaged
file does not fail, it answers wrongly: the walk over the log must not trust a position that holds no batch.

More than 400 lines, for the three share the file behind them, and two of them their columns and their capacity.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from pyspark_commitlog.storage.errors import CorruptIndexError, InvalidOffsetError, SegmentOffsetOverflowError
from pyspark_commitlog.storage.filesystem import Buffer, File, FileSystem
from pyspark_commitlog.storage.format.fields import INT32_MAX, NO_TIMESTAMP
from pyspark_commitlog.storage.format.index_entries import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TXN_ENTRY,
    AbortedTxn,
    decode_aborted,
    decode_offset_entries,
    decode_time_entries,
    encode_aborted,
    encode_offset_entries,
    encode_time_entries,
    fits,
)
from pyspark_commitlog.storage.format.tables import Int64s

MAX_INDEX_BYTES: Final = 10 * 1024 * 1024  # segment.index.bytes
_ENTRIES_AT_FIRST = 16  # grows by doubling
_BLOCK_ENTRIES = 4096  # reading so many takes little longer than reading one
_NEW_ENTRIES = 256  # of other processes, that are read without reading all


class OffsetPosition(NamedTuple):
    """A batch: its last offset and its first byte in the ``.log``."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """No record up to ``offset`` is younger than ``timestamp`` (ms)."""

    timestamp: int
    offset: int


class _SidecarFile:
    """The file behind an index: opened for writing at the first write, read in one go and closed again."""

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
        """Bytes on the disk; 0 where there is no file."""
        status = self.filesystem.status(self.path)
        return 0 if status is None else status.size

    def read_entries(self, entry_bytes: int) -> Buffer:
        """The entries before the zeros of a preallocated file; nothing where there is no file."""
        try:
            file = self.filesystem.open(self.path, "read")
        except FileNotFoundError:
            return b""
        try:
            size = file.size()
            if size > INT32_MAX:
                raise CorruptIndexError(f"an index of {size} bytes, none has more than {INT32_MAX}", path=self.path)
            return bytes(file.read(0, _used_entries(file, size // entry_bytes, entry_bytes) * entry_bytes))
        finally:
            file.close()

    def sync(self) -> None:
        """Also of what an earlier process wrote; nothing where there is no file."""
        if self._file is not None or self.filesystem.status(self.path) is not None:
            self.for_writing().sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename_to(self, path: str) -> None:
        """No error where there is no file. What is open is closed: writing goes on under the new name."""
        self.close()
        if self.filesystem.status(self.path) is not None:
            self.filesystem.rename(self.path, path)
        self.path = path


def _used_entries(file: File, count: int, entry_bytes: int) -> int:
    """Entries before the padding: in a sound file nothing but zeros follows a zero entry.

    The block in which the padding begins is found by halving. The first entry alone may be all zero and still be one
    (offset 0 at time 0), so a file of one entry has one. A file damaged by zeros in its middle may give fewer entries,
    which costs time and no truth.
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


class _Format(NamedTuple):
    """How two columns lie in a file."""

    entry_bytes: int
    encode: Callable[[int, Int64s, Int64s], bytes]
    decode: Callable[[int, Buffer], tuple[Int64s, Int64s]]


class _PairIndex:
    """What ``.index`` and ``.timeindex`` share: two columns, a capacity, and the file they are written through to."""

    FORMAT: _Format
    RESERVED_ENTRIES = 0  # slots that only an append with skip_full_check may take

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
        self._file = _SidecarFile(filesystem, path, writable)
        self._loaded: _Columns | None = None

    def __len__(self) -> int:
        return self._columns.count

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def is_full(self) -> bool:
        """The segment rolls before the next append."""
        return self.room <= 0

    @property
    def room(self) -> int:
        """Entries that can be appended before it is full."""
        return max(0, self.max_entries - self.RESERVED_ENTRIES - len(self))

    @property
    def size_in_bytes(self) -> int:
        """Bytes in use; the file of an active segment is longer."""
        return len(self) * self.FORMAT.entry_bytes

    def resize(self) -> None:
        """Extend the file to its full capacity with zeros, creating it if need be: for an active segment."""
        self._file.for_writing().truncate(max(self.max_entries * self.FORMAT.entry_bytes, self.size_in_bytes))

    def trim_to_valid_size(self) -> None:
        """Cut the file behind its last entry, creating it if need be: on roll, clean close and after recovery."""
        self._file.for_writing().truncate(self.size_in_bytes)

    def reset(self) -> None:
        """Drop all entries; the file is empty, or made."""
        self._file.for_writing().truncate(0)
        self._loaded = _Columns(_none(), _none())

    def sync(self) -> None:
        """Return when the file is on the disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file and change nothing in it; the next use opens it again."""
        self._file.close()
        self._loaded = None

    def rename_to(self, path: str) -> None:
        """Give the file another name; the directory is not synced."""
        self._file.rename_to(path)

    def take_in(self) -> None:
        """See what other processes added behind the entries known here; all is read anew where they made it anew.

        They may: closing a log adds an entry that no batch asks for, and recovery writes the index from its beginning.
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
        """On the disk after a crash: some of the new entries, or none; in memory: all, or none where writing failed."""
        columns = self._columns
        if not skip_full_check and len(first) > self.room:
            raise ValueError(
                f"{self.path}: {len(first)} entries more than its {columns.count}, room is for {self.room}"
            )
        data = self.FORMAT.encode(self.base_offset, first, second)
        self._file.for_writing().write(columns.count * self.FORMAT.entry_bytes, data)
        columns.extend(first, second)

    def _keep(self, count: int) -> None:
        """Drop the entries from ``count`` on, in the file too: what stood there reads as zeros or is cut off."""
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
            raise self._corrupt(f"{over} bytes behind the last entry of {self.FORMAT.entry_bytes}", position)

    def _check_sorted(self, column: Int64s, what: str, *, strictly: bool) -> None:
        before, after = column[:-1], column[1:]  # compared, since times may lie further apart than 2^63
        wrong = np.flatnonzero(after <= before if strictly else after < before)
        if len(wrong):
            at = int(wrong[0]) + 1
            reason = f"entry {at} has {what} {column[at]}, the one before it {column[at - 1]}"
            raise self._corrupt(reason, at * self.FORMAT.entry_bytes)

    def _corrupt(self, reason: str, position: int) -> CorruptIndexError:
        return CorruptIndexError(reason, path=self.path, position=position)


class OffsetIndex(_PairIndex):
    """Where to start reading: for some batches of the segment, their last offset and their position (``.index``)."""

    FORMAT = _Format(OFFSET_ENTRY.itemsize, encode_offset_entries, decode_offset_entries)

    @property
    def offsets(self) -> Int64s:
        """Last offsets of the indexed batches, shape (len,); valid until the next change."""
        return self._columns.first

    @property
    def positions(self) -> Int64s:
        """Positions of the indexed batches, shape (len,); valid until the next change."""
        return self._columns.second

    @property
    def last_offset(self) -> int:
        """Of the last entry; the base offset where there is none."""
        return self._columns.last()[0] if len(self) else self.base_offset

    def append(self, offset: int, position: int, *, skip_full_check: bool = False) -> None:
        """An entry for the batch that ends with ``offset`` and begins at ``position``; see :meth:`append_many`."""
        self.append_many(_one(offset), _one(position), skip_full_check=skip_full_check)

    def append_many(self, offsets: Int64s, positions: Int64s, *, skip_full_check: bool = False) -> None:
        """Entries in one write; both of shape (n,).

        Raises InvalidOffsetError unless offsets increase, SegmentOffsetOverflowError for one the segment cannot hold,
        ValueError where the index has no room; then nothing was appended. ``skip_full_check`` is for rebuilding an
        index under a smaller ``segment.index.bytes`` than the one it grew under.
        """
        if not len(offsets):
            return
        self._check_offsets_fit(int(offsets[0]), int(offsets[-1]))
        before = self.last_offset if len(self) else self.base_offset - 1
        if (offsets <= _shifted(before, offsets)).any():
            found = ", ".join(map(str, offsets[:3].tolist()))
            raise InvalidOffsetError(f"{self.path}: offsets {found} ... do not increase from {self.last_offset}")
        self._write(offsets, positions, skip_full_check)

    def lookup(self, target_offset: int) -> OffsetPosition:
        """The last entry at or below ``target_offset``; (base offset, 0) where there is none."""
        n = int(np.searchsorted(self.offsets, target_offset, side="right")) - 1
        return self._entry(n) if n >= 0 else OffsetPosition(self.base_offset, 0)

    def fetch_upper_bound_offset(self, start: OffsetPosition, fetch_bytes: int) -> OffsetPosition | None:
        """The first entry that lies wholly behind ``fetch_bytes`` from ``start``; None where there is none."""
        n = int(np.searchsorted(self.positions, start.position + fetch_bytes, side="left"))
        return self._entry(n) if n < len(self) else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and above ``offset``."""
        self._keep(int(np.searchsorted(self.offsets, offset, side="left")))

    def sanity_check(self) -> None:
        """Raise CorruptIndexError, with the position, unless offsets increase and nothing goes back."""
        self._check_length()
        self._check_sorted(self.offsets, "offset", strictly=True)
        self._check_sorted(self.positions, "position", strictly=False)
        if len(self) and (self.offsets[0] < self.base_offset or self.positions[0] < 0):
            raise self._corrupt(f"entry 0 says {self._entry(0)}, the segment begins at {self.base_offset}", 0)

    def _entry(self, n: int) -> OffsetPosition:
        return OffsetPosition(int(self.offsets[n]), int(self.positions[n]))


class TimeIndex(_PairIndex):
    """How time went by: the largest timestamp up to some offsets of the segment (``.timeindex``).

    The last slot is kept free for the entry that closes a segment (``skip_full_check``).
    """

    FORMAT = _Format(TIME_ENTRY.itemsize, encode_time_entries, decode_time_entries)
    RESERVED_ENTRIES = 1

    @property
    def timestamps(self) -> Int64s:
        """ms, shape (len,), increasing; valid until the next change."""
        return self._columns.first

    @property
    def offsets(self) -> Int64s:
        """Shape (len,), not decreasing; valid until the next change."""
        return self._columns.second

    @property
    def last_entry(self) -> TimestampOffset:
        """(-1, base offset) where there is none."""
        return TimestampOffset(*self._columns.last()) if len(self) else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Say that the segment's largest timestamp up to ``offset`` is ``timestamp``; see :meth:`append_many`."""
        self.append_many(_one(timestamp), _one(offset), skip_full_check=skip_full_check)

    def append_many(self, timestamps: Int64s, offsets: Int64s, *, skip_full_check: bool = False) -> None:
        """Entries in one write; both of shape (n,). A timestamp equal to the one before it is passed over.

        Raises InvalidOffsetError for an offset or a timestamp below the one before it, SegmentOffsetOverflowError for
        an offset the segment cannot hold, ValueError where the index has no room; then nothing was appended.
        """
        if not len(offsets):
            return
        self._check_offsets_fit(int(offsets[0]), int(offsets[-1]))
        before = self.last_entry
        times_before = _shifted(before.timestamp, timestamps)
        if (timestamps < times_before).any() or (offsets < _shifted(before.offset, offsets)).any():
            found = TimestampOffset(int(timestamps[0]), int(offsets[0]))
            raise InvalidOffsetError(f"{self.path}: from {found} on, entries go back behind {before} or each other")
        rises = timestamps > times_before
        if rises.any():
            self._write(timestamps[rises], offsets[rises], skip_full_check)

    def lookup(self, target_timestamp: int) -> TimestampOffset:
        """The last entry at or below ``target_timestamp``; (-1, base offset) where there is none."""
        n = int(np.searchsorted(self.timestamps, target_timestamp, side="right")) - 1
        return self._entry(n) if n >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and above ``offset``."""
        self._keep(int(np.searchsorted(self.offsets, offset, side="left")))

    def sanity_check(self) -> None:
        """Raise CorruptIndexError, with the position, unless timestamps increase and offsets do not go back."""
        self._check_length()
        self._check_sorted(self.timestamps, "timestamp", strictly=True)
        self._check_sorted(self.offsets, "offset", strictly=False)
        if len(self) and (self.offsets[0] < self.base_offset or self.timestamps[0] < 0):
            raise self._corrupt(f"entry 0 says {self._entry(0)}, the segment begins at {self.base_offset}", 0)

    def _entry(self, n: int) -> TimestampOffset:
        return TimestampOffset(int(self.timestamps[n]), int(self.offsets[n]))


class TransactionIndex:
    """The aborted transactions whose marker lies in the segment (``.txnindex``); made with the first of them."""

    def __init__(self, filesystem: FileSystem, path: str, base_offset: int, *, writable: bool = True) -> None:
        """Opens nothing."""
        self.base_offset = base_offset
        self._file = _SidecarFile(filesystem, path, writable)
        self._loaded: list[AbortedTxn] | None = None

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def entries(self) -> list[AbortedTxn]:
        """In the order of their markers; not to be changed. Raises CorruptIndexError for an unknown entry version."""
        if self._loaded is None:
            try:
                self._loaded = decode_aborted(self._file.read_entries(TXN_ENTRY.itemsize))
            except CorruptIndexError as error:
                raise error.located(self.path) from None
        return self._loaded

    def append(self, aborted: AbortedTxn) -> None:
        """Add a transaction; InvalidOffsetError unless its marker lies behind that of the last one.

        On the disk after a crash: the whole entry, none, or a part, which a reader passes over and the next append
        overwrites.
        """
        if self.entries and aborted.last_offset <= self.entries[-1].last_offset:
            last = self.entries[-1].last_offset
            raise InvalidOffsetError(f"{self.path}: marker {aborted.last_offset} is not behind the last one, {last}")
        self._file.for_writing().write(len(self.entries) * TXN_ENTRY.itemsize, encode_aborted([aborted]))
        self.entries.append(aborted)

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
        """(aborted transactions with records in [fetch_offset, upper_bound_offset), whether that is all of them).

        Where it is not all, the index of the next segment may know more.
        """
        found = []
        begin = bisect_left(self.entries, fetch_offset, key=lambda entry: entry.last_offset)
        for entry in self.entries[begin:]:
            if entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at or above ``offset``."""
        count = bisect_left(self.entries, offset, key=lambda entry: entry.last_offset)
        if count < len(self.entries):
            self._file.for_writing().truncate(count * TXN_ENTRY.itemsize)
            del self.entries[count:]

    def reset(self) -> None:
        """Drop all transactions; no file is made where there was none."""
        if self._file.filesystem.status(self.path) is not None:
            self._file.for_writing().truncate(0)
        self._loaded = []

    def sanity_check(self) -> None:
        """Raise CorruptIndexError, with the position, unless all entries are whole and the markers in order."""
        if self._file.size() % TXN_ENTRY.itemsize:
            raise self._corrupt("a partial entry at the end", len(self.entries))
        before = self.base_offset - 1
        for n, entry in enumerate(self.entries):
            if entry.last_offset <= before or entry.first_offset >= entry.last_offset:
                raise self._corrupt(f"{entry} does not follow marker {before}", n)
            before = entry.last_offset

    def sync(self) -> None:
        """Return when the file, if there is one, is on the disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()
        self._loaded = None

    def rename_to(self, path: str) -> None:
        """Give the file, if there is one, another name; the directory is not synced."""
        self._file.rename_to(path)

    def _corrupt(self, reason: str, entry: int) -> CorruptIndexError:
        return CorruptIndexError(reason, path=self.path, position=entry * TXN_ENTRY.itemsize)


def _shifted(before: int, column: Int64s) -> Int64s:
    """For each value the one before it, the first of them being ``before``; shape (n,), n > 0."""
    shifted = np.empty_like(column)
    shifted[0] = before
    shifted[1:] = column[:-1]
    return shifted


def _none() -> Int64s:
    return np.empty(0, dtype=np.int64)


def _one(value: int) -> Int64s:
    return np.array([value], dtype=np.int64)
