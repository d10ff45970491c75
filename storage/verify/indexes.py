"""Checks the offset and time index of a segment, entry by entry, against the batches as they are read.

A missing entry costs a longer search, but no record; only the last entry of a time index must exist, since retention
uses it. Entries of Kafka 2.8 are valid too: for an append of several batches, the entry has the last offset of all of
them and the position of the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..filesystem.operations import is_made
from ..filesystem.port import FileSystem
from ..format.files.index_entries import OFFSET_ENTRY, TIME_ENTRY, decode_offset_entries, decode_time_entries
from ..format.tables import Bools, Int64s
from ..segment.walk import Window
from .findings import Findings, Kind

INDEX_BYTES_MAX = 64 * 1024 * 1024  # segment.index.bytes is 10 MiB by default; a far larger file is no index


class IndexFile(NamedTuple):
    """The path and content of an index file."""

    path: str
    entries: bytes  # whole entries, without the zeros of a preallocated file
    is_there: bool


def read_index(filesystem: FileSystem, path: str, kind: Kind, entry_bytes: int, findings: Findings) -> IndexFile:
    """Reads an index file; adds a finding of ``kind`` if the file has a wrong length or is too large to be checked.

    Skips the entries of an offset index that was computed from checked batches: they may name any batch of an append.
    """
    status = filesystem.status(path)
    if status is None:
        return IndexFile(path, b"", is_there=False)
    if kind is Kind.BAD_OFFSET_INDEX and is_made(filesystem, path):
        return IndexFile(path, b"", is_there=True)
    if status.size > INDEX_BYTES_MAX:
        findings.add(kind, path, f"an index of {status.size} bytes is too large; none of its entries was checked")
        return IndexFile(path, b"", is_there=True)
    with filesystem.open(path, "read") as file:
        data = bytes(file.read(0, INDEX_BYTES_MAX))
    used = data.rstrip(b"\0")
    whole = min(-(-len(used) // entry_bytes), len(data) // entry_bytes) * entry_bytes
    if len(data) % entry_bytes:
        what = f"{len(data)} bytes, which is not a multiple of {entry_bytes}"
        findings.add(kind, path, what, position=len(data) // entry_bytes * entry_bytes)
    return IndexFile(path, data[:whole], is_there=True)


class _Entries(NamedTuple):
    """The entries of an index, in the order in which their batches are read."""

    keys: Int64s  # ascending: positions in an offset index, offsets in a time index
    values: Int64s
    numbers: Int64s  # index of each entry in the file

    @classmethod
    def sort(cls, keys: Int64s, values: Int64s) -> _Entries:
        numbers = np.argsort(keys, kind="stable")
        return cls(keys[numbers], values[numbers], numbers)

    def below(self, start: int, key: int) -> int:
        return max(start, int(np.searchsorted(self.keys, key, side="left")))


class OffsetIndexCheck:
    """Checks a ``.index``: a batch begins at each entry's position, and none before it is above the entry's offset."""

    def __init__(self, file: IndexFile, base_offset: int, findings: Findings) -> None:
        self._file, self._findings = file, findings
        self._reported: set[int] = set()
        offsets, positions = decode_offset_entries(base_offset, file.entries)
        _check_rising(self, offsets, "offset")
        self._entries = _Entries.sort(positions, offsets)
        self._done = 0

    def add(self, number: int, what: str) -> None:
        """Adds a finding about the entry with this number in the file, at most one per entry."""
        _add_once(
            self._findings,
            self._reported,
            (Kind.BAD_OFFSET_INDEX, self._file.path),
            (number, OFFSET_ENTRY.itemsize),
            what,
        )

    def check(self, window: Window) -> None:
        table = window.headers.table
        starts = window.position + table["position"]
        end = self._entries.below(self._done, window.position + window.headers.end)
        positions, offsets, numbers = (column[self._done : end] for column in self._entries)
        rows = np.searchsorted(starts, positions)
        begins = starts[np.minimum(rows, len(starts) - 1)] == positions
        rows = np.minimum(rows, len(starts) - 1)
        is_sound = begins & (table["base_offset"][rows] <= offsets) & self._ends_a_batch(table, rows, offsets)
        for n in np.flatnonzero(~is_sound).tolist():
            found = f"the batch there has offsets {table['base_offset'][rows[n]]} to {table['last_offset'][rows[n]]}"
            what = found if begins[n] else "no batch begins there"
            self.add(int(numbers[n]), f"offset {offsets[n]} at position {positions[n]}, but {what}")
        self._done = end

    def _ends_a_batch(self, table: np.ndarray, rows: Int64s, offsets: Int64s) -> Bools:
        """Whether each offset is the last of its batch, or of a later batch of the same append, as Kafka 2.8 wrote it.

        Shape (entries,); ``rows`` are the batches at the entries' positions.
        """
        later = np.searchsorted(table["last_offset"], offsets)
        at = table["last_offset"][np.minimum(later, len(table) - 1)]
        is_last: Bools = (table["last_offset"][rows] == offsets) | (at == offsets) | (later >= len(table))
        return is_last

    def skip(self, end: int) -> None:
        """Skips the entries up to position ``end``, which refer to damaged bytes."""
        self._done = self._entries.below(self._done, end)

    def finish(self, end: int) -> None:
        """Adds a finding for each remaining entry, which refers to bytes after ``end``, where the sound batches end."""
        positions, offsets, numbers = (column[self._done :] for column in self._entries)
        for position, offset, number in zip(positions.tolist(), offsets.tolist(), numbers.tolist(), strict=True):
            self.add(number, f"offset {offset} at position {position}, but the log has {end} bytes of sound batches")


class TimeIndexCheck:
    """Checks a ``.timeindex``: an entry's time must be the largest up to the batch that holds the entry's offset."""

    def __init__(self, file: IndexFile, base_offset: int, findings: Findings) -> None:
        self._file, self._findings = file, findings
        self._reported: set[int] = set()
        timestamps, offsets = decode_time_entries(base_offset, file.entries)
        _check_rising(self, timestamps, "timestamp")
        self._entries = _Entries.sort(offsets, timestamps)
        self._done = 0
        self._is_known = True  # whether the largest timestamp is known, as there was no damage so far
        self._largest = -1

    def add(self, number: int, what: str) -> None:
        """Adds a finding about the entry with this number in the file, at most one per entry."""
        _add_once(
            self._findings, self._reported, (Kind.BAD_TIME_INDEX, self._file.path), (number, TIME_ENTRY.itemsize), what
        )

    def check(self, window: Window) -> None:
        table = window.headers.table
        running = np.maximum(np.maximum.accumulate(table["max_timestamp"]), self._largest)
        end = self._entries.below(self._done, window.headers.next_offset)
        offsets, timestamps, numbers = (column[self._done : end] for column in self._entries)
        rows = np.minimum(np.searchsorted(table["last_offset"], offsets), len(table) - 1)
        for n in np.flatnonzero((running[rows] != timestamps) & self._is_known).tolist():
            what = f"timestamp {timestamps[n]} up to offset {offsets[n]}, but the largest up to that offset is"
            self.add(int(numbers[n]), f"{what} {running[rows[n]]}")
        self._done, self._largest = end, int(running[-1])

    def skip(self) -> None:
        """Ends the comparison of timestamps: damaged bytes follow, which may have held the largest one."""
        self._is_known = False

    def finish(self, next_offset: int, *, is_closed: bool) -> None:
        """Adds a finding for each remaining entry, and one if a closed segment lacks its largest timestamp.

        ``next_offset``: the offset after the segment. ``is_closed``: the segment is not the active one.
        """
        offsets, timestamps, numbers = (column[self._done :] for column in self._entries)
        if self._is_known:
            for offset, timestamp, number in zip(offsets.tolist(), timestamps.tolist(), numbers.tolist(), strict=True):
                self.add(number, f"timestamp {timestamp} up to offset {offset}, but the segment ends at {next_offset}")
        last = int(self._entries.values.max(initial=-1))
        if is_closed and self._is_known and self._file.is_there and last < self._largest:
            what = f"it ends with timestamp {last}, but the segment's largest, for retention, is {self._largest}"
            self._findings.add(Kind.BAD_TIME_INDEX, self._file.path, what, position=len(self._file.entries))


def _add_once(findings: Findings, reported: set[int], of: tuple[Kind, str], entry: tuple[int, int], what: str) -> None:
    kind, path = of
    number, entry_bytes = entry
    if number not in reported:
        reported.add(number)
        findings.add(kind, path, f"entry {number}: {what}", position=number * entry_bytes)


def _check_rising(check: OffsetIndexCheck | TimeIndexCheck, column: Int64s, name: str) -> None:
    """Adds a finding for each entry that is not above the one before: lookups are binary searches."""
    for number in (np.flatnonzero(column[1:] <= column[:-1]) + 1).tolist():
        check.add(number, f"{name} {column[number]} is not above that of the entry before, {column[number - 1]}")
