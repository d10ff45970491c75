"""Indexes and snapshots made anew, from the logs alone (spec 5, 9.4, 9.5).

The offset and the time index of a segment need nothing but its log: :func:`rebuild_segment`. Transaction indexes and
snapshots need the state of the producers, which goes from segment to segment: :func:`rebuild_log`.

What is written is what Kafka's own recovery writes. A sound index may differ from it: a broker begins to count
``index.interval.bytes`` anew when it is started, brokers before 3 made one entry an append, and a snapshot lists
producers in any order. Snapshots that say all that the log says are left alone, since they may say more: of producers
whose batches compaction or retention has removed.

Only damaged logs stop it, each for itself: they are named, and nothing is rebuilt from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import CorruptionError, CorruptRecordError
from pyspark_commitlog.storage.filesystem import read_file, write_atomically
from pyspark_commitlog.storage.format import checkpoints, names
from pyspark_commitlog.storage.format.checkpoints import ProducerEntry, encode_snapshot
from pyspark_commitlog.storage.format.fields import NO_TIMESTAMP
from pyspark_commitlog.storage.format.index_entries import (
    AbortedTxn,
    decode_aborted,
    encode_aborted,
    encode_offset_entries,
    encode_time_entries,
    fits,
)
from pyspark_commitlog.storage.format.tables import BatchHeaders, Int64s
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.producers import PRODUCER_ID_EXPIRATION_MS, ProducerStateManager
from pyspark_commitlog.storage.reader import LogReader
from pyspark_commitlog.storage.recovery import read_markers
from pyspark_commitlog.storage.segment_reader import LogContext, SegmentReader, Window

SIDECAR_BYTES_MAX = 64 * 1024 * 1024  # a snapshot of a million producers; what is larger is damaged


@dataclass(frozen=True)
class Change:
    """A file that is not what the log says, and what it should hold."""

    path: str
    reason: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; {len(self.data)} bytes are right"


@dataclass(frozen=True)
class RebuildReport:
    """What was rebuilt, or would be."""

    changes: tuple[tuple[str, str], ...]  # path and reason, in the order of the segments
    refused: tuple[CorruptionError, ...]  # damaged logs: nothing is rebuilt from them


# One segment


def rebuild_segment(
    context: LogContext, base_offset: int, *, suffix: str = "", dry_run: bool = False
) -> tuple[Change, ...]:
    """Offset and time index of one closed segment, from its log; what had to be changed, or with ``dry_run`` would be.

    The caller holds the maintenance lock. On disk after a crash: each index as it was, or as it should be.

    Raises CorruptRecordError, with path and position, for a log that is damaged; then nothing was changed.
    """
    segment = SegmentReader(context, base_offset, suffix)
    try:
        entries = IndexEntries(base_offset, context.config.index_interval_bytes)
        for window in _sound_windows(segment, segment.file_size):
            entries.add(window)
        changes = tuple(_index_changes(segment, entries, is_active=False))
    finally:
        segment.close()
    if not dry_run:
        _carry_out(context, changes)
    return changes


class IndexEntries:
    """The entries that recovery gives a segment: one for each batch behind more than ``interval_bytes`` without one."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._indexed_position = 0
        self._largest = (NO_TIMESTAMP, base_offset)
        self._offset_entries: list[bytes] = []
        self._time_entries: list[bytes] = []
        self._last_time = NO_TIMESTAMP

    def add(self, window: Window) -> None:
        """Take in batches, which follow those before."""
        table = window.headers.table
        timestamps, offsets = self._running_largest(window.headers)
        rows = self._rows_to_index(window.position + table["position"])
        positions = window.position + table["position"][rows]
        self._offset_entries.append(encode_offset_entries(self.base_offset, table["last_offset"][rows], positions))
        self._add_times(timestamps[rows], offsets[rows])
        self._largest = int(timestamps[-1]), int(offsets[-1])

    def _rows_to_index(self, positions: Int64s) -> Int64s:
        rows: list[int] = []
        row = int(np.searchsorted(positions, self._indexed_position + self._interval_bytes, side="right"))
        while row < len(positions):
            rows.append(row)
            self._indexed_position = int(positions[row])
            row = int(np.searchsorted(positions, self._indexed_position + self._interval_bytes, side="right"))
        return np.array(rows, dtype=np.int64)

    def _running_largest(self, headers: BatchHeaders) -> tuple[Int64s, Int64s]:
        """After each batch: the largest timestamp so far, and the last offset of the first batch that reached it."""
        timestamp, offset = self._largest
        timestamps = np.concatenate(([timestamp], headers.table["max_timestamp"]))
        offsets = np.concatenate(([offset], headers.table["last_offset"]))
        running = np.maximum.accumulate(timestamps)
        rises = np.flatnonzero(np.diff(running) > 0) + 1
        reached = np.zeros(len(running), dtype=np.int64)
        reached[rises] = rises
        return running[1:], offsets[np.maximum.accumulate(reached)][1:]

    def _add_times(self, timestamps: Int64s, offsets: Int64s) -> None:
        """A timestamp that is not above the one before is passed over."""
        rises = np.diff(timestamps, prepend=self._last_time) > 0
        if rises.any():
            self._time_entries.append(encode_time_entries(self.base_offset, timestamps[rises], offsets[rises]))
            self._last_time = int(timestamps[-1])

    def offset_index(self) -> bytes:
        """The ``.index``."""
        return b"".join(self._offset_entries)

    def time_index(self, *, closed: bool = True) -> bytes:
        """The ``.timeindex``; that of a closed segment ends with the largest timestamp of all."""
        timestamp, offset = self._largest
        last = b""
        if closed and timestamp > self._last_time:
            last = encode_time_entries(self.base_offset, np.array([timestamp]), np.array([offset]))
        return b"".join(self._time_entries) + last


def _sound_windows(segment: SegmentReader, end: int) -> Iterator[Window]:
    """All batches up to ``end``; CorruptRecordError unless they are all there, sound and in order."""
    path = segment.path(names.LOG)
    position, next_offset = 0, segment.base_offset
    for window in segment.batches(0, end):
        table = window.headers.table
        try:
            formats.verify(window.buffer, window.headers)
        except CorruptRecordError as error:
            raise error.located(path, window.position) from None
        wrong = np.flatnonzero(np.diff(table["last_offset"], prepend=next_offset - 1) <= 0)
        if len(wrong):
            place = window.position + int(table["position"][wrong[0]])
            raise CorruptRecordError(f"offset {table['last_offset'][wrong[0]]} goes back", path=path, position=place)
        next_offset = int(table["last_offset"][-1]) + 1
        if not fits(segment.base_offset, next_offset - 1):
            reason = f"offset {next_offset - 1} is too far from the base offset: open the log to write, which splits it"
            raise CorruptRecordError(reason, path=path, position=window.position)
        position = window.position + window.headers.end
        yield window
    if position < end:
        raise CorruptRecordError(f"{end - position} bytes behind the last whole batch", path=path, position=position)


def _index_changes(segment: SegmentReader, entries: IndexEntries, *, is_active: bool) -> Iterator[Change]:
    """An active segment's indexes may be padded with zeros, its time index may lack the last entry."""
    offset_index = entries.offset_index()
    time_indexes = [entries.time_index(), *([entries.time_index(closed=False)] if is_active else [])]
    for kind, right in ((names.INDEX, [offset_index]), (names.TIME_INDEX, time_indexes)):
        path = segment.path(kind)
        found = _read(segment.context, path)
        accepted = [
            data for each in right for data in (each, each.ljust(len(found or b""), b"\0") if is_active else each)
        ]
        if found not in accepted:
            yield Change(path, _difference(found, right[0]), right[0])


def _read(context: LogContext, path: str) -> bytes | None:
    """None where there is no such file; what is larger than any such file is cut, and so differs."""
    try:
        return read_file(context.filesystem, path, SIDECAR_BYTES_MAX)
    except FileNotFoundError:
        return None
    except CorruptionError:
        return b"\xff"


def _difference(found: bytes | None, right: bytes) -> str:
    if found is None:
        return "missing"
    place = next((n for n, (a, b) in enumerate(zip(found, right, strict=False)) if a != b), min(len(found), len(right)))
    return f"{len(found)} bytes that differ from position {place} on"


def _carry_out(context: LogContext, changes: Iterable[Change]) -> None:
    for change in changes:
        write_atomically(context.filesystem, change.path, change.data)


# A whole log


def plan_rebuild(log: LogReader) -> RebuildReport:
    """What :func:`rebuild_log` would change; reads only, takes no lock."""
    rebuild = _Rebuild(log)
    changes = [(change.path, change.reason) for change in rebuild.changes()]
    return RebuildReport(tuple(changes), tuple(rebuild.refused))


def rebuild_log(log: Log) -> RebuildReport:
    """Rebuild what differs from what the log says, under its maintenance lock.

    If an index of the active segment had to be rebuilt, under the append lock, the segment is rolled: other processes
    that have the log open see that, and do not go on writing to the old files.

    On disk after a crash: every file as it was, or as it should be; ``.tmp`` files mean nothing.

    Raises LogDirLockedError where another process works on the partition, StorageError where the disk fails.
    """
    with log.maintaining():
        _remove_temporary(log.context)
        rebuild = _Rebuild(log)
        done = []
        for change in rebuild.changes(with_active=False):
            write_atomically(log.context.filesystem, change.path, change.data)
            done.append((change.path, change.reason))
        active = _rebuild_active(log)
        for segment in log.segments:
            segment.close()  # what is open are the old files
        if active:
            log.roll()
    return RebuildReport((*done, *active), tuple(rebuild.refused))


def _rebuild_active(log: Log) -> list[tuple[str, str]]:
    with log.replacing_segments({}) as segments:
        changes = tuple(_active_changes(segments.active))
        _carry_out(log.context, changes)
        segments.active.close()
    return [(change.path, change.reason) for change in changes]


def _active_changes(segment: SegmentReader) -> Iterator[Change]:
    entries = IndexEntries(segment.base_offset, segment.context.config.index_interval_bytes)
    for window in _sound_windows(segment, segment.size):
        entries.add(window)
    yield from _index_changes(segment, entries, is_active=True)


def _remove_temporary(context: LogContext) -> None:
    for name in context.filesystem.list(context.directory):
        if name.endswith(names.TMP) and names.base_offset_of(name) is not None:
            context.filesystem.remove(names.join(context.directory, name))


class _Rebuild:
    """One walk through a log, its producers' state going along."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._context = log.context
        self._producers = ProducerStateManager(log.context.directory)
        self._is_state_whole = True  # of all that the log ever held; else a file may know more than the log
        self.refused: list[CorruptionError] = []

    def changes(self, *, with_active: bool = True) -> Iterator[Change]:
        """In the order of the segments. ``with_active``: also of the active segment's offset and time index."""
        segments = tuple(self._log.segments)
        for segment in segments:
            is_active = segment is segments[-1]
            try:
                changes = tuple(self._of_segment(segment, is_active=is_active))
            except CorruptionError as error:
                self.refused.append(error)
                continue
            for change in changes:
                if with_active or not is_active or not change.path.endswith((names.INDEX, names.TIME_INDEX)):
                    yield change
        if self._is_there(self._log.log_end_offset) and self._producers.map_end_offset == self._log.log_end_offset:
            yield from self._of_snapshot(self._log.log_end_offset)

    def _is_there(self, snapshot_offset: int) -> bool:
        return self._context.filesystem.status(self._snapshot_path(snapshot_offset)) is not None

    def _of_segment(self, segment: SegmentReader, *, is_active: bool) -> Iterator[Change]:
        if self._reaches(segment.base_offset):
            yield from self._of_snapshot(segment.base_offset)
        entries = IndexEntries(segment.base_offset, self._context.config.index_interval_bytes)
        aborted: list[AbortedTxn] = []
        for window in _sound_windows(segment, segment.size if is_active else segment.file_size):
            entries.add(window)
            completed = self._producers.replay(window.headers, read_markers(window)[0])
            aborted += [each.index_entry for each in completed if each.aborted]
        yield from _index_changes(segment, entries, is_active=is_active)
        yield from self._of_txn_index(segment, aborted)

    def _reaches(self, base_offset: int) -> bool:
        """Whether the state is that at ``base_offset``, and the log says it.

        At the first segment, and where one is missing or damaged, its snapshot is all that is known of what was before.
        """
        first = self._log.segments.first.base_offset
        state_end = self._producers.map_end_offset
        if base_offset == first == 0:
            return False
        if base_offset > first and (state_end == base_offset or (self._context.config.compact and not self.refused)):
            self._producers.map_end_offset = base_offset
            return True
        self._is_state_whole = False
        self._producers.load(self._read_snapshot(base_offset) or (), 0, base_offset)
        return False

    # Transaction indexes

    def _of_txn_index(self, segment: SegmentReader, aborted: list[AbortedTxn]) -> Iterator[Change]:
        """Where the log no longer holds all it held, entries may name more than it shows; those stay."""
        path, right = segment.path(names.TXN_INDEX), encode_aborted(aborted)
        found = _read(self._context, path)
        if (found or b"") != right and not (self._may_know_more and _names_all(found or b"", aborted)):
            yield Change(path, _difference(found, right), right)

    @property
    def _may_know_more(self) -> bool:
        return self._context.config.compact or not self._is_state_whole

    # Snapshots

    def _of_snapshot(self, offset: int) -> Iterator[Change]:
        """The state is that below ``offset``."""
        wanted = [entry for entry in self._producers.entries() if not self._is_expired(entry)]
        told = self._read_snapshot(offset)
        if told is None or not self._says_all({entry.producer_id: entry for entry in told}, wanted, offset):
            reason = "not what the log says" if self._is_there(offset) else "missing"
            yield Change(self._snapshot_path(offset), reason, encode_snapshot(wanted))

    def _says_all(self, told: Mapping[int, ProducerEntry], wanted: list[ProducerEntry], offset: int) -> bool:
        for entry in wanted:
            said = told.get(entry.producer_id)
            if said is None:
                return False
            knows_more = (said.producer_epoch, said.last_offset) >= (entry.producer_epoch, entry.last_offset)
            forgotten = said._replace(coordinator_epoch=entry.coordinator_epoch) if said.coordinator_epoch < 0 else said
            if forgotten != entry and not (knows_more and self._may_know_more):
                return False
        return all(entry.last_offset < offset for entry in told.values())

    def _is_expired(self, entry: ProducerEntry) -> bool:
        idle_ms = self._context.clock.now_ms() - entry.timestamp
        return entry.current_txn_first_offset < 0 and idle_ms >= PRODUCER_ID_EXPIRATION_MS

    def _snapshot_path(self, offset: int) -> str:
        return names.join(self._context.directory, names.segment_file(offset, names.SNAPSHOT))

    def _read_snapshot(self, offset: int) -> list[ProducerEntry] | None:
        data = _read(self._context, self._snapshot_path(offset))
        try:
            return None if data is None else checkpoints.decode_snapshot(data)
        except CorruptionError:
            return None


def _names_all(found: bytes, aborted: list[AbortedTxn]) -> bool:
    """Whether a sound transaction index has an entry for each of these."""
    try:
        entries = decode_aborted(found)
    except CorruptionError:
        return False
    markers = [entry.last_offset for entry in entries]
    first_offsets = {(entry.producer_id, entry.last_offset): entry.first_offset for entry in entries}
    return markers == sorted(set(markers)) and all(
        first_offsets.get((each.producer_id, each.last_offset), each.first_offset + 1) <= each.first_offset
        for each in aborted
    )
