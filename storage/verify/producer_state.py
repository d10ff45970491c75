"""Compares producer state from the batches with snapshots, and aborted transactions with the transaction index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import CorruptIndexError, CorruptionError
from ..filesystem.operations import is_made, read_file
from ..filesystem.port import FileSystem
from ..format.files import checkpoints
from ..format.files.checkpoints import ProducerEntry
from ..format.files.index_entries import TXN_ENTRY, AbortedTxn, decode_aborted
from ..format.tables import BatchHeaders
from ..recovery.producer_state import PRODUCER_ID_EXPIRATION_MS
from ..recovery.producer_state_manager import ProducerStateManager
from ..recovery.segment_recovery import read_markers
from ..segment.walk import Window
from .findings import Findings, Kind
from .indexes import IndexFile

SNAPSHOT_BYTES_MAX = 64 * 1024 * 1024  # a million producers
NEVER_EXPIRED_MS = 0  # the time at which state is loaded: no producer expires


class Snapshot(NamedTuple):
    """A readable ``.snapshot``."""

    path: str
    offset: int
    modified_ms: int
    entries: tuple[ProducerEntry, ...]


def read_snapshot(filesystem: FileSystem, path: str, offset: int, findings: Findings) -> Snapshot | None:
    """Reads a snapshot. Returns None if it does not exist, and None with a finding if it is unreadable.

    Also returns None for the snapshot shown at the end of a log on an object store: it has the producers of the last
    segment that was put, and commits have later ones.
    """
    status = filesystem.status(path)
    try:
        entries = checkpoints.decode_snapshot(read_file(filesystem, path, SNAPSHOT_BYTES_MAX))
    except FileNotFoundError:
        return None
    except CorruptionError as error:
        findings.add(Kind.BAD_SNAPSHOT, path, error.reason, position=error.position)
        return None
    if is_made(filesystem, path):
        return None
    return Snapshot(path, offset, 0 if status is None else status.modified_ms, tuple(entries))


class ProducerCheck:
    """Follows the producers in a segment's batches, and compares them with snapshots and the transaction index."""

    def __init__(self, opening: Iterable[ProducerEntry] | None, base_offset: int, findings: Findings) -> None:
        """``opening``: the state at the base offset; None if it is unknown."""
        self._findings = findings
        self.is_known = opening is not None
        self._state = ProducerStateManager()
        self._state.load(opening or (), NEVER_EXPIRED_MS, base_offset)
        self.aborted: list[AbortedTxn] = []
        self.without_entry: tuple[AbortedTxn, ...] = ()  # set by check_index; earlier segments decide about these
        self._readable = ReadableData()
        self._hiding: set[int] = set()  # last offsets of aborted transactions with records in this segment
        self.markers: dict[int, int] = {}  # of ABORT markers: offset, producer id
        self._base_offset = base_offset

    def entries(self) -> tuple[ProducerEntry, ...]:
        return tuple(self._state.entries())

    def replay(self, window: Window) -> None:
        """Updates the state of the producers with the next batches, which must be sound."""
        markers, _ = read_markers(window, passes_bad=True)  # the check of control records reports bad ones
        for row in np.flatnonzero(window.headers.is_control).tolist():
            batch = window.headers.table[row]
            marker = markers.get(int(batch["base_offset"]))
            if marker is not None and not marker.is_commit:
                self.markers[int(batch["base_offset"])] = int(batch["producer_id"])
        completed = self._state.replay(window.headers, markers)
        aborted = [each.index_entry for each in completed if each.aborted]
        self.aborted += aborted
        self._hiding |= self._readable.of(aborted, window.headers)

    def lose_track(self) -> None:
        """Makes the state unknown, because damaged bytes follow that may contain batches of producers."""
        self.is_known = False

    def load(self, entries: Iterable[ProducerEntry], offset: int) -> None:
        """Replaces the state, which is unknown after damage, with the entries of a snapshot at ``offset``."""
        self._state.load(entries, NEVER_EXPIRED_MS, offset)
        self.is_known = True

    # Snapshots

    def compare(self, snapshot: Snapshot, *, is_compacted: bool) -> None:
        """Compares a snapshot with the producer state at its offset, and adds a finding for each difference."""
        snapshotted = {entry.producer_id: entry for entry in snapshot.entries}
        for entry in snapshotted.values():
            if entry.last_offset >= snapshot.offset or entry.current_txn_first_offset >= snapshot.offset:
                self._add(snapshot, f"{_name(entry)} at offset {entry.last_offset}, not below the snapshot's offset")
        if self.is_known and not is_compacted:
            self._compare_exactly(snapshot, snapshotted)

    def _compare_exactly(self, snapshot: Snapshot, snapshotted: Mapping[int, ProducerEntry]) -> None:
        found = {entry.producer_id: entry for entry in self._state.entries()}
        for producer_id in sorted(snapshotted.keys() | found.keys()):
            stored, seen = snapshotted.get(producer_id), found.get(producer_id)
            if stored is None and seen is not None:
                if not _may_be_forgotten(seen, snapshot.modified_ms):
                    self._add(
                        snapshot, f"{_name(seen)} wrote up to offset {seen.last_offset}, but is not in the snapshot"
                    )
            elif seen is None and stored is not None:
                self._add(snapshot, f"{_name(stored)} is in the snapshot, but not in the log")
            elif stored is not None and seen is not None and _comparable(stored, seen) != seen:
                self._add(snapshot, f"the snapshot has {stored}, the log {seen}")

    def _add(self, snapshot: Snapshot, what: str) -> None:
        self._findings.add(Kind.BAD_SNAPSHOT, snapshot.path, what, offset=snapshot.offset)

    # The transaction index

    @property
    def undecided(self) -> tuple[tuple[int, int], ...]:
        """(producer id, base offset) of each producer's last batch with records, if no marker follows it."""
        return self._readable.undecided

    def check_index(self, file: IndexFile, next_offset: int, *, is_active: bool, is_compacted: bool) -> None:
        """Checks that every entry has its marker, and that every aborted transaction with records has an entry.

        Compaction drops the entry of a transaction whose records it removed, and keeps the marker for a while.
        """
        entries = self._read(file)
        in_log = [entry for entry in entries if not (is_active and entry.last_offset >= next_offset)]
        before = self._base_offset - 1
        for number, entry in enumerate(in_log):
            fault = self._fault(entry, before, is_compacted=is_compacted)
            if fault is not None:
                position = number * TXN_ENTRY.itemsize
                self._findings.add(Kind.BAD_TXN_INDEX, file.path, f"entry {number}: {fault}", position=position)
            before = max(before, entry.last_offset)
        named = {(entry.producer_id, entry.last_offset) for entry in in_log}
        missing = [each for each in self.aborted if (each.producer_id, each.last_offset) not in named]
        for aborted in missing:
            if aborted.last_offset in self._hiding:
                add_missing_abort(aborted, file.path, self._findings)
        self.without_entry = tuple(each for each in missing if each.last_offset not in self._hiding)

    def _fault(self, entry: AbortedTxn, before: int, *, is_compacted: bool) -> str | None:
        if entry.last_offset <= before:
            return f"{entry} is not above offset {before}"
        if self.is_known and self.markers.get(entry.last_offset) != entry.producer_id:
            return f"{entry}, but there is no ABORT marker of that producer at offset {entry.last_offset}"
        seen = next((each for each in self.aborted if each.last_offset == entry.last_offset), None)
        if seen is None or not self.is_known:
            return None if 0 <= entry.first_offset < entry.last_offset else f"{entry} ends before it begins"
        if entry.first_offset > seen.first_offset or (not is_compacted and entry != seen):
            return f"{entry}, but the log has {seen}"
        return None

    def _read(self, file: IndexFile) -> list[AbortedTxn]:
        try:
            return decode_aborted(file.entries)
        except CorruptIndexError as error:
            self._findings.add(Kind.BAD_TXN_INDEX, file.path, error.reason, position=error.position)
            return decode_aborted(file.entries[: error.position])


def add_missing_abort(aborted: AbortedTxn, path: str, findings: Findings) -> None:
    """Adds the finding that a transaction index lacks the entry of an aborted transaction, which has records."""
    findings.add(Kind.MISSING_ABORT, path, f"no entry for {aborted}", offset=aborted.last_offset)


class ReadableData:
    """Finds the aborted transactions that still have records.

    Compaction may remove the records of a transaction and keep its marker or empty batches. Memory: two numbers per
    producer, however large the log is.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}  # base offset of the last batch with records, by producer id
        self._markers: dict[int, int] = {}  # offset of the last marker, by producer id

    @property
    def undecided(self) -> tuple[tuple[int, int], ...]:
        """(id, base offset) of each producer's last batch with records, if no marker follows it."""
        return tuple((each, offset) for each, offset in self._last.items() if offset > self._markers.get(each, -1))

    def of(self, ended: Iterable[AbortedTxn], headers: BatchHeaders) -> set[int]:
        """Processes the next batches; returns the marker offsets of those transactions that still have records.

        ``ended``: the aborted transactions whose markers are in these batches.
        """
        table, is_control = headers.table, headers.is_control
        data = table[headers.is_transactional & ~is_control & (table["count"] > 0)]
        data = data[np.lexsort((data["base_offset"], data["producer_id"]))]
        readable = {each.last_offset for each in ended if self._last_before(each, data) >= each.first_offset}
        for kept, rows in ((self._last, data), (self._markers, table[is_control])):
            kept.update(zip(rows["producer_id"].tolist(), rows["base_offset"].tolist(), strict=True))
        return readable

    def _last_before(self, ended: AbortedTxn, data: npt.NDArray[np.void]) -> int:
        """Returns the base offset of the producer's last batch with records before the marker; -1: there is none."""
        first, last = (np.searchsorted(data["producer_id"], ended.producer_id, side) for side in ("left", "right"))
        before = first + np.searchsorted(data["base_offset"][first:last], ended.last_offset)
        return int(data["base_offset"][before - 1]) if before > first else self._last.get(ended.producer_id, -1)


def _may_be_forgotten(entry: ProducerEntry, now_ms: int) -> bool:
    """Whether the producer was idle for a day, without an open transaction, when the snapshot was written."""
    return entry.current_txn_first_offset < 0 and now_ms - entry.timestamp >= PRODUCER_ID_EXPIRATION_MS


def _comparable(stored: ProducerEntry, seen: ProducerEntry) -> ProducerEntry:
    """Returns ``stored`` with the coordinator epoch of ``seen`` if it has none.

    A producer that expired and wrote again has no coordinator epoch until its next marker.
    """
    return stored._replace(coordinator_epoch=seen.coordinator_epoch) if stored.coordinator_epoch < 0 else stored


def _name(entry: ProducerEntry) -> str:
    return f"producer {entry.producer_id} (epoch {entry.producer_epoch})"
