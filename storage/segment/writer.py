"""LogSegment: appends to a segment, and rolls and truncates it (Kafka's LogSegment).

One writer at a time may use it: the holder of the partition's append lock.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..config import INT64_MAX
from ..errors import CorruptIndexError, SegmentOffsetOverflowError
from ..filesystem.port import Buffer
from ..format.constants import INT32_MAX, LOG_OVERHEAD, NO_TIMESTAMP
from ..format.files import file_names
from ..format.tables import BatchHeaders, Bytes, Int64s
from ..kernels import scan
from .reader import SegmentReader
from .time_index import TimestampOffset, running_largest
from .walk import FILE_KINDS, LastSeen, LogContext

logger = logging.getLogger(__name__)


class PlacedBatch(NamedTuple):
    """A batch with its offsets, ready to be written."""

    data: Buffer
    last_offset: int
    max_timestamp: int  # ms


class LogSegment(SegmentReader):
    """A segment open for writing."""

    _known_bytes_since_entry: int | None = None

    def __init__(self, context: LogContext, base_offset: int, suffix: str = "") -> None:
        """Opens no file. ``suffix`` is ``.cleaned`` or ``.swap`` while the segment is being swapped in."""
        super().__init__(context, base_offset, suffix)
        self.created_ms = context.clock.now_ms()

    @cached_property
    def roll_jitter_ms(self) -> int:
        """Milliseconds by which the segment rolls before ``segment.ms``.

        Random, so that logs that began together do not roll together.
        """
        jitter_ms_max = min(self.context.config.segment_jitter_ms, self.context.config.segment_ms)
        return random.randrange(jitter_ms_max) if jitter_ms_max else 0

    @classmethod
    def create(cls, context: LogContext, base_offset: int, suffix: str = "") -> LogSegment:
        """Creates an empty segment.

        After a crash it may be missing, or an empty ``.log``, until the directory is synced.
        """
        segment = cls(context, base_offset, suffix)
        segment._file = context.filesystem.open(segment.path(file_names.LOG), "create")
        segment._file.truncate(context.config.segment_bytes if context.config.preallocate else 0)
        segment.forget()
        segment.resize_indexes()
        return segment

    # Files

    def sync(self, *, with_indexes: bool = False) -> None:
        """Wait until the ``.log`` is on disk; ``with_indexes``: the indexes too."""
        self._file.sync()
        if with_indexes:
            for index in (self.offset_index, self.time_index, self.txn_index):
                index.sync()

    def begin_sync(self) -> None:
        """Start to write appended data to disk without waiting for it."""
        self._file.begin_sync()

    def truncate_file(self, size: int) -> None:
        """Cut the ``.log`` to ``size`` bytes; changes no index."""
        self._file.truncate(size)

    def change_suffix(self, suffix: str) -> None:
        """Give all files of the segment another suffix, the ``.log`` first; does not sync the directory."""
        filesystem = self.context.filesystem
        self.close()
        for kind in FILE_KINDS:
            source = self.path(kind)
            if filesystem.status(source) is not None:
                filesystem.rename(source, source.removesuffix(self.suffix) + suffix)
        self.suffix = suffix

    def mark_deleted(self) -> None:
        """Rename all files of the segment to ``.deleted``, the ``.log`` first; does not sync the directory."""
        self.close()
        for kind in FILE_KINDS:
            mark_deleted(self.context, self.path(kind))
        self.suffix += file_names.DELETED

    def remove_files(self) -> None:
        """Remove all files of the segment, the ``.log`` first; does not sync the directory."""
        self.close()
        for kind in FILE_KINDS:
            self.context.filesystem.remove(self.path(kind))

    def is_padded_from(self, position: int) -> bool:
        """Whether preallocated zeros begin at ``position``: no batch begins with twelve zeros."""
        return self.context.config.preallocate and not any(bytes(self._file.read(position, LOG_OVERHEAD)))

    # Appending

    def append(self, buffer: Bytes, headers: BatchHeaders) -> None:
        """Write whole batches to the end of the ``.log``, then their index entries; syncs nothing.

        After a crash, the disk has part of ``buffer``, which recovery cuts off, or all of it but perhaps not all index
        entries, so that lookups read more. Raises SegmentOffsetOverflowError, before it writes anything, if an offset
        is too far from the segment's base offset.
        """
        self.check_offsets(headers)
        self._file.write(self.size, buffer.data)
        self.advance(headers)

    def advance(self, headers: BatchHeaders) -> None:
        """Count batches that were just written to the end of the ``.log``, and add their index entries.

        Adds entries even above ``segment.index.bytes``: the setting may have been lowered since the index was begun.
        """
        table = headers.table
        timestamps, offsets = running_largest(self.largest, headers)
        rows = self._rows_to_index(headers)
        positions = self.size + np.cumsum(table["size"]) - table["size"]
        self.offset_index.append_many(table["last_offset"][rows], positions[rows], skip_full_check=True)
        self.time_index.append_many(timestamps[rows], offsets[rows], skip_full_check=True)
        self.known_largest = TimestampOffset(int(timestamps[-1]), int(offsets[-1]))
        self._count(headers)

    def append_batch(self, buffers: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int) -> None:
        """Do what :meth:`append` does for one batch of ``size`` bytes, which is in ``buffers``, one after the other.

        ``max_timestamp`` (ms) is its largest. Needs no table, and so takes a twentieth of the time.
        """
        self._check_offset_range(last_offset, last_offset)
        position = self.size
        self._file.write(position, *buffers)
        if position == 0:
            self._known_first_timestamp = max_timestamp
        if max_timestamp > self.largest.timestamp:
            self.known_largest = TimestampOffset(max_timestamp, last_offset)
        since = self.bytes_since_entry
        if since > self.context.config.index_interval_bytes:
            self.offset_index.append(last_offset, position, skip_full_check=True)
            self.time_index.append(*self.largest, skip_full_check=True)
            since = 0
        self._known_bytes_since_entry = since + size
        self._known_size, self._appended_end = position + size, None

    def append_batches(self, batches: Sequence[PlacedBatch]) -> None:
        """Do what :meth:`append_batch` does for each batch, with one write for all of them, and one for each index.

        The segment is not empty.
        """
        self._check_offset_range(batches[0].last_offset, batches[-1].last_offset)
        position = self.size
        self._file.write(position, *(each.data for each in batches))
        positions, times = list[tuple[int, int]](), list[TimestampOffset]()
        largest, since, interval = self.largest, self.bytes_since_entry, self.context.config.index_interval_bytes
        for data, last_offset, max_timestamp in batches:
            if max_timestamp > largest.timestamp:
                largest = TimestampOffset(max_timestamp, last_offset)
            if since > interval:
                positions.append((last_offset, position))
                times.append(largest)
                since = 0
            since += len(data)
            position += len(data)
        self._add_entries(positions, times)
        if largest is not self.largest:
            self.known_largest = largest
        self._known_bytes_since_entry = since
        self._known_size, self._appended_end = position, None

    def _add_entries(self, positions: Sequence[tuple[int, int]], times: Sequence[TimestampOffset]) -> None:
        if len(positions) == 1:
            self.offset_index.append(*positions[0], skip_full_check=True)
            self.time_index.append(*times[0], skip_full_check=True)
        elif positions:
            self.offset_index.append_many(*_columns(positions), skip_full_check=True)
            self.time_index.append_many(*_columns(times), skip_full_check=True)

    def pass_over(self, headers: BatchHeaders) -> None:
        """Count batches that another process appended and indexed; :meth:`read_appended_entries` reads its entries."""
        self._update_largest(headers)
        self._count(headers)

    def read_appended_entries(self, end_offset: int) -> bool:
        """Read the index entries that other processes wrote, for their batches or when they closed the log.

        ``end_offset`` is the end of the log. Returns False if an index has an entry above the end, or for a time after
        that of all records: then this process cannot add entries to it.
        """
        self.offset_index.read_appended()
        self.time_index.read_appended()
        self._known_bytes_since_entry = None
        is_ahead = len(self.offset_index) > 0 and self.offset_index.last_offset >= end_offset
        return not is_ahead and self.time_index.last_entry.timestamp <= self.largest.timestamp

    def _count(self, headers: BatchHeaders) -> None:
        if self.size == 0:
            self._known_first_timestamp = int(headers.table["max_timestamp"][0])
        self._known_size, self._appended_end = self.size + int(headers.table["size"].sum()), None

    def check_offsets(self, headers: BatchHeaders) -> None:
        """Raises SegmentOffsetOverflowError if an offset is below the base offset or more than 2^31 - 1 above it."""
        self._check_offset_range(int(headers.table["last_offset"].min()), int(headers.table["last_offset"].max()))

    def _check_offset_range(self, lowest: int, highest: int) -> None:
        if lowest < self.base_offset or highest - self.base_offset > INT32_MAX:
            raise SegmentOffsetOverflowError(
                f"{self.path(file_names.LOG)}: offsets {lowest} to {highest} are not within 2^31 - 1 above the "
                "segment's base offset"
            )

    def _rows_to_index(self, headers: BatchHeaders) -> Int64s:
        """The rows of the batches that get an index entry.

        These follow more than ``index.interval.bytes`` without an entry.
        """
        ends = np.cumsum(headers.table["size"])
        starts, rows = ends - headers.table["size"], np.empty(len(ends), dtype=np.int64)
        interval, since = self.context.config.index_interval_bytes, self.bytes_since_entry
        rows = rows[: scan.spaced(starts, interval - since, interval, rows)]
        self._known_bytes_since_entry = int(ends[-1] - starts[rows[-1]] if len(rows) else since + ends[-1])
        return rows

    @property
    def bytes_since_entry(self) -> int:
        """Bytes since the last batch with an index entry.

        Computed from the index, so that all processes agree. Kafka counts from 0 when a log is opened.
        """
        if self._known_bytes_since_entry is None:
            positions = self.offset_index.positions
            self._known_bytes_since_entry = self.size - (int(positions[-1]) if len(positions) else 0)
        return self._known_bytes_since_entry

    # Rolling

    def should_roll(self, size: int, max_timestamp: int, last_offset: int) -> bool:
        """Whether batches of ``size`` bytes in total must go to a new segment (Kafka's LogSegment.shouldRoll).

        ``max_timestamp`` (ms) and ``last_offset`` are the largest of these batches. Another reason to roll belongs
        here, into :meth:`fitting`, which does the same for many batches, and into ``PlainAppends.may_take``.
        """
        config = self.context.config
        return (
            self.size > config.segment_bytes - size
            or self.is_too_late(max_timestamp)
            or self.offset_index.is_full
            or self.time_index.is_full
            or not 0 <= last_offset - self.base_offset <= INT32_MAX
        )

    def fitting(self, headers: BatchHeaders) -> int:
        """How many of these batches, at least one, can be appended before the segment must roll; may be too few."""
        if len(headers) == 1:
            return 1
        table, config = headers.table, self.context.config
        first = self.first_timestamp if self.size else int(table["max_timestamp"][0])
        latest = first + config.max_segment_ms - self.roll_jitter_ms if first >= 0 else INT64_MAX
        room, farthest = config.segment_bytes - self.size, self.base_offset + INT32_MAX
        count = len(headers)
        if table["size"].sum() > room or table["last_offset"][-1] > farthest or table["max_timestamp"].max() > latest:
            is_full = np.cumsum(table["size"]) > room
            is_late, is_far = table["max_timestamp"] > latest, table["last_offset"] > farthest
            count = int(np.argmax(is_late | is_full | is_far))
        return max(1, min(count, self.offset_index.room, self.time_index.room))

    def is_too_late(self, max_timestamp: int) -> bool:
        """Whether a batch with this largest timestamp (ms) must go to a new segment for its time."""
        return self.size > 0 and max_timestamp > self.latest_ms

    @property
    def latest_ms(self) -> int:
        """The largest timestamp (ms) of a batch that need not go to a new segment, if this one is not empty."""
        first, patience_ms = self.first_timestamp, self.context.config.max_segment_ms - self.roll_jitter_ms
        if first >= 0:
            return min(first + patience_ms, INT64_MAX)
        return INT64_MAX if self.context.clock.now_ms() - self.created_ms <= patience_ms else -INT64_MAX

    def become_inactive(self) -> None:
        """Complete the segment after a roll: add the last time index entry, cut preallocated space off, sync, close.

        Because the files are closed, a log that rolls often has no more files open than one that never rolls.
        """
        self.add_closing_time_entry()
        self.trim()
        self.sync(with_indexes=True)
        self.close()

    def add_closing_time_entry(self) -> None:
        """Append the segment's largest timestamp to the time index, even if the index is full."""
        self.time_index.append(*self.largest, skip_full_check=True)

    def trim(self) -> None:
        """Cut the indexes and the ``.log`` to their used size."""
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
        if self._file.size() > self.size:
            self._file.truncate(self.size)

    def resize_indexes(self) -> None:
        """Extend ``.index`` and ``.timeindex`` to their full capacity, as an active segment needs."""
        self.offset_index.resize()
        self.time_index.resize()

    # Recovery and truncation

    def has_sound_indexes(self) -> bool:
        """Whether the indexes pass their checks and the last offset index entry leads to a batch; logs why not."""
        try:
            for index in (self.offset_index, self.time_index, self.txn_index):
                index.sanity_check()
        except CorruptIndexError as error:
            logger.warning("%s; rebuilding the index", error)
            return False
        self.position_before(self.offset_index.last_offset)
        return not self._is_index_distrusted

    def begin_rebuild(self) -> None:
        """Empty all indexes, and forget everything read from the ``.log``.

        Up to :meth:`end_rebuild`, the ``.index`` has the suffix ``.unfinished``: after a crash before that, the next
        opening finds no ``.index``, and rebuilds the indexes again. The suffix is synced even if the segment is above
        the recovery point, which another process may raise during the rebuild.
        """
        self.offset_index.rename_to(self.path(file_names.INDEX) + file_names.UNFINISHED)
        self.context.filesystem.sync_directory(self.context.directory)
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.reset()
        self.forget()

    def end_rebuild(self) -> None:
        """Sync the indexes, which are complete, and give the ``.index`` its name; does not sync the directory."""
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.sync()
        self.offset_index.rename_to(self.path(file_names.INDEX))

    def forget(self) -> None:
        """Forget everything read from the ``.log``: the next counted batch becomes its first one."""
        self._is_index_distrusted = self._is_time_index_distrusted = self.is_largest_confirmed = False
        self._last_seen = LastSeen()
        self._known_size, self._known_bytes_since_entry, self._known_first_timestamp = 0, 0, None
        self.known_largest, self._appended_largest = TimestampOffset(NO_TIMESTAMP, self.base_offset), None
        self._appended_end = None
        self.record_times = None

    def truncate_to(self, offset: int) -> None:
        """Remove the batches that reach ``offset`` or lie above it, and their index entries.

        Cuts the indexes first. After a crash the ``.log`` may be uncut; recovery then rebuilds the indexes above the
        recovery point.
        """
        position = self.position_reaching(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if position is not None:
            self._file.truncate(position)
            self._known_size = position
            self.created_ms = self.context.clock.now_ms() if position == 0 else self.created_ms
        self.known_largest = self._appended_largest = self._appended_end = self.record_times = None
        self._known_bytes_since_entry = self._known_first_timestamp = None
        self._last_seen = LastSeen()
        self.next_offset()


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[Int64s, Int64s]:
    first, second = zip(*pairs, strict=True)  # an array of pairs takes longer than two of numbers
    return np.array(first, np.int64), np.array(second, np.int64)


def mark_deleted(context: LogContext, path: str) -> None:
    """Rename a file, if it exists, to ``.deleted``, and set its time, from which ``file.delete.delay.ms`` counts."""
    if context.filesystem.status(path) is not None:
        context.filesystem.set_modified(path, context.clock.now_ms())
        context.filesystem.rename(path, path + file_names.DELETED)
