"""Checks one segment: its log, its indexes and the snapshots above its base offset.

Reads no other segment, so that each segment can be a Spark task of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ..filesystem.operations import forget_read, is_zero, shown_path
from ..filesystem.port import File
from ..format import v2
from ..format.files import file_names
from ..format.files.checkpoints import EpochEntry, ProducerEntry
from ..format.files.index_entries import OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY, AbortedTxn
from ..format.internal.state_records import STATE_TOPICS
from ..segment.joining import first_offset
from ..segment.walk import LogContext, Window
from ..text import counted
from .batches import BatchFindings, BatchOrder, RecordChecks, check_headers
from .findings import Finding, Findings, Kind
from .indexes import IndexFile, OffsetIndexCheck, TimeIndexCheck, read_index
from .key_filters import FilterPlace, check_key_filter
from .producer_state import ProducerCheck, Snapshot, read_snapshot
from .resync import Damage, Tail, Walk
from .state_records import StateChecks, topic_of


@dataclass(frozen=True)
class SegmentToVerify:
    """A segment to verify, and what its neighbours show about it."""

    base_offset: int
    following: int | None = None  # base offset of the next segment; None: this is the active one
    opening: tuple[ProducerEntry, ...] | None = None  # state at the base offset; None: use the snapshot there, if any
    snapshots: tuple[int, ...] = ()  # offsets of snapshots above the base offset, up to the next segment's; ascending
    recovery_point: int = 0  # everything below was synced once
    is_compacted: bool = False  # according to config, checkpoint or earlier segments: offsets may then be missing
    has_time_indexes: bool = True  # some segment of the partition has one
    swapped: tuple[str, ...] = ()  # suffixes of its files that still have the additional suffix .swap
    filters: FilterPlace | None = None  # where the filter of its keys is, if it has one

    def path(self, directory: str, kind: str) -> str:
        """Returns the path of the segment's file with a suffix such as ``.log``."""
        suffix = file_names.SWAP if kind in self.swapped else ""
        return file_names.join(directory, file_names.segment_file(self.base_offset, kind) + suffix)


@dataclass(frozen=True)
class SegmentFindings:
    """The content of one segment, and what is wrong with it. Can be pickled."""

    segment: SegmentToVerify
    findings: tuple[Finding, ...]
    next_offset: int = 0  # after the last sound batch
    sound_bytes: int = 0  # of the sound batches
    batches: int = 0
    records: int = 0  # 0 unless records were decoded
    is_damaged: bool = False  # part of the log could not be read
    has_damaged_end: bool = False  # its last bytes are among those that could not be read
    is_compacted: bool = False
    closing: tuple[ProducerEntry, ...] | None = None  # producer state at next_offset; None: not known
    epochs: tuple[EpochEntry, ...] = ()  # found in the batches
    without_entry: tuple[AbortedTxn, ...] = ()  # missing from the transaction index, with no records in this segment
    undecided: tuple[tuple[int, int], ...] = ()  # producer, offset of its last batch with records, with no marker after
    gaps: tuple[tuple[int, int, int], ...] = ()  # (position, first and last offset) in no batch; the first three


def verify_segment(context: LogContext, segment: SegmentToVerify, *, deep: bool = True) -> SegmentFindings:
    """Checks one segment: every checksum, offset, index entry, marker and snapshot; with ``deep``, every record.

    Reads only; takes no lock. Reads the indexes before the log, so that concurrent appends do not look like errors.
    Every problem with the files is a finding in the result, an OSError too; nothing is raised. A file that is kept
    elsewhere is read twice before it is called damaged.
    """
    found = _verified(context, segment, deep)
    if found.is_damaged and _is_read_again(context, segment):
        found = _verified(context, segment, deep)
    named = tuple(replace(each, path=shown_path(context.filesystem, each.path)) for each in found.findings)
    return replace(found, findings=named)


def _is_read_again(context: LogContext, segment: SegmentToVerify) -> bool:
    try:
        with context.filesystem.open(segment.path(context.directory, file_names.LOG), "read") as log:
            return forget_read(log)
    except OSError:
        return False


def _verified(context: LogContext, segment: SegmentToVerify, deep: bool) -> SegmentFindings:
    check = _SegmentCheck(context, segment, deep)
    try:
        return check.run()
    except FileNotFoundError as error:
        check.findings.add(Kind.VANISHED, str(error.filename), "it existed when the directory was listed")
    except OSError as error:
        check.findings.add(Kind.UNREADABLE, str(error.filename or check.log_path), str(error))
    return SegmentFindings(segment, check.findings.all(), segment.base_offset, is_damaged=True, has_damaged_end=True)


@dataclass
class _Epochs:
    """Leader epochs found in the batches; they must never decrease."""

    findings: BatchFindings
    found: list[EpochEntry] = field(default_factory=list)

    def check(self, window: Window) -> None:
        epochs = window.headers.table["leader_epoch"]
        latest = self.found[-1].epoch if self.found else -1
        running = np.maximum.accumulate(np.concatenate(([latest], epochs)))
        for row in np.flatnonzero(np.diff(running) > 0).tolist():
            self.found.append(EpochEntry(int(epochs[row]), int(window.headers.table["base_offset"][row])))
        for row in np.flatnonzero((epochs >= 0) & (epochs < running[1:])).tolist():
            self.findings.add(
                Kind.ODD_EPOCH, window, row, f"leader epoch {epochs[row]} follows epoch {running[row + 1]}"
            )


class _SegmentCheck:
    def __init__(self, context: LogContext, segment: SegmentToVerify, deep: bool) -> None:
        self.context, self.segment = context, segment
        self.findings = Findings()
        self.log_path = self._path(file_names.LOG)
        of_batches = BatchFindings(self.findings, self.log_path)
        self._of_batches = of_batches
        self._order = BatchOrder(of_batches, segment.base_offset)
        self._order.is_compacted = segment.is_compacted or context.config.compact
        self._records = RecordChecks(of_batches, context.config.max_decompressed_bytes) if deep else None
        topic, limit = topic_of(context.directory), context.config.max_decompressed_bytes
        self._states = StateChecks(of_batches, topic, limit) if deep and topic in STATE_TOPICS else None
        self._epochs = _Epochs(of_batches)
        self._batches, self._sound_bytes, self._sound_end, self._magic_max = 0, 0, 0, 0
        self._is_damaged = self._has_damaged_end = False
        self._unbounded: Damage | None = None  # the offset after it is in the next batch

    def _path(self, kind: str) -> str:
        return self.segment.path(self.context.directory, kind)

    def run(self) -> SegmentFindings:
        base_offset = self.segment.base_offset
        offset_file = self._index(file_names.INDEX, Kind.BAD_OFFSET_INDEX, OFFSET_ENTRY.itemsize)
        time_file = self._index(file_names.TIME_INDEX, Kind.BAD_TIME_INDEX, TIME_ENTRY.itemsize)
        txn_file = self._index(file_names.TXN_INDEX, Kind.BAD_TXN_INDEX, TXN_ENTRY.itemsize)
        self._offset_index = OffsetIndexCheck(offset_file, base_offset, self.findings)
        self._time_index = TimeIndexCheck(time_file, base_offset, self.findings)
        self._snapshots = self._read_snapshots()
        self._producers = ProducerCheck(self._opening(), base_offset, self.findings)
        with self.context.filesystem.open(self.log_path, "read") as log:
            end = log.size()
            for part in Walk(log, base_offset, end):
                self._take(part, log)
        if end:
            self._add_missing(offset_file, time_file)
        self._finish(txn_file)
        is_closed = self.segment.following is not None and not self.segment.swapped
        if self._records is not None and self.segment.filters is not None and is_closed and not self._is_damaged:
            check_key_filter(self.context, base_offset, self.segment.filters, self.findings)
        return self._result()

    def _index(self, kind: str, fault: Kind, entry_bytes: int) -> IndexFile:
        return read_index(self.context.filesystem, self._path(kind), fault, entry_bytes, self.findings)

    def _add_missing(self, offset_file: IndexFile, time_file: IndexFile) -> None:
        """Adds a finding for each index that the segment lacks; brokers before 0.10.1 wrote no time indexes."""
        is_older = not self.segment.has_time_indexes and self._magic_max < v2.MAGIC
        for file in (offset_file,) if is_older else (offset_file, time_file):
            if not file.is_there:
                self.findings.add(Kind.MISSING_INDEX, file.path, "the segment has no such index")

    def _read_snapshots(self) -> list[Snapshot]:
        return [found for offset in self.segment.snapshots if (found := self._snapshot(offset, self.findings))]

    def _snapshot(self, offset: int, findings: Findings) -> Snapshot | None:
        path = file_names.join(self.context.directory, file_names.segment_file(offset, file_names.SNAPSHOT))
        return read_snapshot(self.context.filesystem, path, offset, findings)

    def _opening(self) -> Iterable[ProducerEntry] | None:
        """Returns the producer state at the base offset; None if no earlier segment or snapshot shows it."""
        if self.segment.opening is not None or self.segment.base_offset == 0:
            return self.segment.opening or ()
        snapshot = self._snapshot(self.segment.base_offset, Findings())  # reported with the previous segment
        return None if snapshot is None else snapshot.entries

    # What the walk finds

    def _take(self, part: Window | Damage | Tail, log: File) -> None:
        if isinstance(part, Window):
            self._take_batches(part)
        elif isinstance(part, Damage):
            self._take_damage(part)
            self._unbounded = part
        else:
            self._take_tail(part.damage, log)

    def _take_batches(self, window: Window) -> None:
        if self._unbounded is not None:
            self._add_bounded(self._unbounded, window)
            self._unbounded = None
        self._order.check(window)
        check_headers(self._of_batches, window)
        self._epochs.check(window)
        self._offset_index.check(window)
        self._time_index.check(window)
        for part in self._between_snapshots(window):
            self._producers.replay(part)
        if self._records is not None:
            self._records.check(window)
        if self._states is not None:
            self._states.check(window)
        self._batches += len(window.headers)
        self._magic_max = max(self._magic_max, int(window.headers.table["magic"].max()))
        self._sound_bytes += window.headers.end
        self._sound_end = window.position + window.headers.end

    def _between_snapshots(self, window: Window) -> Iterator[Window]:
        """Yields a window in pieces that end at the offsets of snapshots; compares each snapshot after its piece."""
        last_offsets = window.headers.table["last_offset"]
        begin = 0
        while self._snapshots and self._snapshots[0].offset <= int(last_offsets[-1]):
            end = max(begin, int(np.searchsorted(last_offsets, self._snapshots[0].offset)))
            if end > begin:
                yield window._replace(headers=window.headers[begin:end])
            self._compare(self._snapshots.pop(0))
            begin = end
        if begin < len(window.headers):
            yield window._replace(headers=window.headers[begin:])

    def _compare(self, snapshot: Snapshot) -> None:
        is_compacted = self._order.is_compacted or bool(self._order.gaps)
        self._producers.compare(snapshot, is_compacted=is_compacted)
        if not self._producers.is_known:
            self._producers.load(snapshot.entries, snapshot.offset)

    def _take_damage(self, damage: Damage) -> None:
        self._is_damaged = True
        self._order.has_gap_before = True
        self._offset_index.skip(damage.end)
        self._time_index.skip()
        self._producers.lose_track()

    def _add_bounded(self, damage: Damage, following: Window) -> None:
        """Adds a finding for damage before a window of sound batches, whose first offset shows what is lost."""
        rest = f"; lost: {counted(damage.end - damage.position, 'byte')} up to the next sound batch"
        self._add_damage(damage.kind, damage, damage.what + rest, first_offset(following.headers))

    def _add_damage(self, kind: Kind, damage: Damage, what: str, end: int | None = None) -> None:
        """``end``: the offset before which the records are lost; None if that is unknown, or nothing is lost."""
        begin = self._order.next_offset
        lost = None if end is None or end <= begin else (begin, end - 1)
        self.findings.add(kind, self.log_path, what, position=damage.position, offset=begin, lost=lost)

    def _take_tail(self, damage: Damage, log: File) -> None:
        """Adds a finding for the bytes after the last sound batch, unless they are preallocated zeros.

        They are damage if they were synced once or a roll followed them; otherwise a write is in progress or failed.
        """
        is_active = self.segment.following is None
        if self.context.config.preallocate and is_active and is_zero(log, damage.position, damage.end):
            return
        if is_active and self._order.next_offset >= self.segment.recovery_point:
            what = f"{counted(damage.end - damage.position, 'byte')} after the last whole batch: {damage.what}"
            self._add_damage(Kind.UNSYNCED_TAIL, damage, what)
            return
        self._take_damage(damage)
        self._has_damaged_end = True
        kind = Kind.TORN_TAIL if damage.kind is Kind.BAD_BATCH else damage.kind
        rest = counted(damage.end - damage.position, "byte")
        what = f"{damage.what}; no sound batch follows in the {rest} up to the end"
        self._add_damage(kind, damage, what, self.segment.recovery_point if is_active else self.segment.following)

    def _finish(self, txn_file: IndexFile) -> None:
        is_active = self.segment.following is None
        next_offset = self._order.next_offset
        self._offset_index.finish(self._sound_end)
        self._time_index.finish(next_offset, is_closed=not is_active)
        is_compacted = self._order.is_compacted or bool(self._order.gaps)
        self._producers.check_index(txn_file, next_offset, is_active=is_active, is_compacted=is_compacted)
        for snapshot in self._snapshots:
            if snapshot.offset > next_offset and is_active:
                what = f"it is for offset {snapshot.offset}, but the log ends at {next_offset}"
                self.findings.add(Kind.BAD_SNAPSHOT, snapshot.path, what, offset=snapshot.offset)
                continue
            if snapshot.offset > next_offset and not is_compacted:
                self._producers.lose_track()  # a segment is missing in between
            self._compare(snapshot)

    def _result(self) -> SegmentFindings:
        return SegmentFindings(
            segment=self.segment,
            findings=self.findings.all(),
            next_offset=self._order.next_offset,
            sound_bytes=self._sound_bytes,
            batches=self._batches,
            records=0 if self._records is None else self._records.records,
            is_damaged=self._is_damaged,
            has_damaged_end=self._has_damaged_end,
            is_compacted=self._order.is_compacted,
            closing=self._producers.entries() if self._producers.is_known else None,
            epochs=tuple(self._epochs.found),
            without_entry=self._producers.without_entry,
            undecided=self._producers.undecided,
            gaps=tuple(self._order.gaps),
        )
