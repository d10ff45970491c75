"""Dumps the files beside a log: indexes, compared with their log entry by entry, and producer snapshots.

Every slot of an index file counts as an entry, including the zero padding of an active index, until an entry has the
base offset again (``DumpLogSegments.dumpIndex``): a dump shows the file as it is, not as loading would repair it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import CorruptIndexError, CorruptionError
from ..filesystem.port import File, FileSystem
from ..format.constants import NO_SEQUENCE, NO_TIMESTAMP
from ..format.files import file_names
from ..format.files.checkpoints import ProducerEntry, decode_snapshot
from ..format.files.index_entries import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TXN_VERSION,
    decode_aborted,
    decode_offset_entries,
    decode_time_entries,
)
from ..format.tables import Int64s
from .damaged_batches import records_of
from .files import BatchAt, base_offset_of, batches_from, opened, sibling
from .layouts import Columns, Layout
from .options import DumpFindings, DumpOptions, Pairs

WARM_ENTRIES = 8192 // OFFSET_ENTRY.itemsize  # at the end of an offset index; most lookups end there


class IndexDump:
    """Dumps the indexes of one segment, always together with its log."""

    def __init__(self, path: str, options: DumpOptions, layout: Layout, filesystem: FileSystem) -> None:
        self.path = path
        self.base_offset = base_offset_of(path)
        self.options = options
        self.layout = layout
        self.filesystem = filesystem

    def offset_index(self, findings: DumpFindings) -> Iterator[list[str]]:
        """Yields lines for a ``.index``. An entry must have the last offset of the batch at its position."""
        with opened(self.filesystem, sibling(self.path, file_names.LOG)) as log:
            size, offsets, positions = self._offset_entries(self.path)
            if not len(offsets):
                yield [self.layout.note(f"{self.path} is empty.")]
                return
            if self.options.index_sanity_check:
                self._check(size, OFFSET_ENTRY.itemsize, offsets)
                yield [self._passed()]
                return
            for at, (offset, position) in enumerate(zip(offsets.tolist(), positions.tolist(), strict=True)):
                if at and offset == self.base_offset:
                    return  # the padding
                batch = self._first_batch(log, position, at)
                if batch.last_offset != offset:
                    _note(findings.index_mismatches, self.path, (offset, batch.last_offset))
                if not self.options.verify_index_only:
                    yield self.layout.lines("offset entry", {"offset": [offset], "position": [position]})

    def time_index(self, findings: DumpFindings) -> Iterator[list[str]]:
        """Yields lines for a ``.timeindex``. An entry must have a batch's last offset and largest timestamp."""
        with opened(self.filesystem, sibling(self.path, file_names.LOG)) as log:
            _, offsets, positions = self._offset_entries(sibling(self.path, file_names.INDEX))
            size, timestamps, time_offsets = self._time_entries()
            if self.options.index_sanity_check:
                self._check(size, TIME_ENTRY.itemsize, time_offsets, timestamps)
                yield [self._passed()]
                return
            before = NO_TIMESTAMP
            for at, (timestamp, offset) in enumerate(zip(timestamps.tolist(), time_offsets.tolist(), strict=True)):
                if at and offset == self.base_offset:
                    return  # the padding
                slot = _floor_slot(offsets, offset)
                position = 0 if slot < 0 else int(positions[slot])
                self._compare(log, self._checked(log, position, slot), (timestamp, offset), before, findings)
                if not self.options.verify_index_only:
                    yield self.layout.lines("time entry", {"timestamp": [timestamp], "offset": [offset]})
                before = timestamp

    def _compare(self, log: File, position: int, entry: tuple[int, int], before: int, findings: DumpFindings) -> None:
        """Compares an entry, (timestamp, offset), with the first batch from ``position`` on that reaches its offset."""
        timestamp, offset = entry
        batches = batches_from(log, position, log.size())
        batch = next((batch for batch in batches if batch.last_offset >= offset), None)
        if batch is None or batch.last_offset != offset:
            _note(findings.offsets_not_found, self.path, (offset, -1 if batch is None else batch.last_offset))
            return
        largest = _largest_timestamp(log, batch)
        if largest != timestamp:
            _note(findings.time_mismatches, self.path, (timestamp, largest))
        if before >= timestamp:
            _note(findings.times_out_of_order, self.path, (timestamp, before))

    def _offset_entries(self, path: str) -> tuple[int, Int64s, Int64s]:
        """Returns the size of an offset index, and the offsets and positions of its entries."""
        with opened(self.filesystem, path) as file:
            data = file.read(0, file.size())
        return len(data), *decode_offset_entries(self.base_offset, data)

    def _time_entries(self) -> tuple[int, Int64s, Int64s]:
        """Returns the size of the time index, and the timestamps and offsets of its entries."""
        with opened(self.filesystem, self.path) as file:
            data = file.read(0, file.size())
        return len(data), *decode_time_entries(self.base_offset, data)

    def _first_batch(self, log: File, position: int, entry: int) -> BatchAt:
        """Returns the batch at an entry's position; CorruptIndexError if ``max_message_size`` bytes hold none."""
        start = self._checked(log, position, entry)
        end = min(log.size(), start + self.options.max_message_size)
        batch = next(batches_from(log, start, end), None)
        if batch is None:
            raise self._corrupt(f"entry {entry} points at position {position} of the log, where no batch begins", entry)
        return batch

    def _checked(self, log: File, position: int, entry: int) -> int:
        if not 0 <= position <= log.size():
            raise self._corrupt(
                f"entry {entry} of the offset index points at position {position}, but the log has {log.size()} bytes",
                entry,
            )
        return position

    def _check(self, size: int, entry_bytes: int, offsets: Int64s, timestamps: Int64s | None = None) -> None:
        """Checks an index as a broker does before using the index (``sanityCheck``). Raises CorruptIndexError."""
        if len(offsets) and offsets[-1] < self.base_offset:
            raise self._corrupt(f"the last offset {offsets[-1]} is below the base offset", len(offsets) - 1)
        if timestamps is not None and len(timestamps) and timestamps[-1] < timestamps[0]:
            raise self._corrupt(f"the last timestamp {timestamps[-1]} is below the first", len(offsets) - 1)
        if size % entry_bytes:
            raise self._corrupt(f"{size} bytes are not a multiple of the entry size, {entry_bytes}", len(offsets))

    def _passed(self) -> str:
        return self.layout.note(f"{self.path} passed sanity check.")

    def _corrupt(self, reason: str, entry: int) -> CorruptIndexError:
        entry_bytes = TIME_ENTRY.itemsize if self.path.endswith(file_names.TIME_INDEX) else OFFSET_ENTRY.itemsize
        return CorruptIndexError(f"{reason}; rebuild the index", path=self.path, position=max(entry, 0) * entry_bytes)


def dump_txn_index(path: str, layout: Layout, filesystem: FileSystem) -> Iterator[list[str]]:
    """Yields lines for a ``.txnindex``; omits a partial entry at its end."""
    base_offset_of(path)
    with opened(filesystem, path) as file:
        try:
            aborted = decode_aborted(file.read(0, file.size()))
        except CorruptionError as error:
            raise error.located(path) from error
    columns = {
        "version": [TXN_VERSION] * len(aborted),
        "producerId": [txn.producer_id for txn in aborted],
        "firstOffset": [txn.first_offset for txn in aborted],
        "lastOffset": [txn.last_offset for txn in aborted],
        "lastStableOffset": [txn.last_stable_offset for txn in aborted],
    }
    yield layout.lines("aborted transaction", columns)


def dump_snapshot(path: str, layout: Layout, filesystem: FileSystem) -> Iterator[list[str]]:
    """Yields lines for a ``.snapshot``, in file order. Raises CorruptSnapshotError if it is invalid."""
    with opened(filesystem, path) as file:
        try:
            entries = decode_snapshot(file.read(0, file.size()))
        except CorruptionError as error:
            raise error.located(path) from error
    for entry in entries:
        kind = "producer" if entry.last_offset >= 0 else "producer without batch"
        yield layout.lines(kind, _producer_columns(entry))


def _producer_columns(entry: ProducerEntry) -> Columns:
    open_txn = entry.current_txn_first_offset
    batch = {
        "firstSequence": [_first_sequence(entry.last_sequence, entry.offset_delta)],
        "lastSequence": [entry.last_sequence],
        "lastOffset": [entry.last_offset],
        "offsetDelta": [entry.offset_delta],
        "timestamp": [entry.timestamp],
    }
    return {
        "producerId": [entry.producer_id],
        "producerEpoch": [entry.producer_epoch],
        "coordinatorEpoch": [entry.coordinator_epoch],
        "currentTxnFirstOffset": [None if open_txn < 0 else open_txn],
        "lastTimestamp": [entry.timestamp],
        **(batch if entry.last_offset >= 0 else {}),
    }


def _floor_slot(offsets: Int64s, target: int) -> int:
    """Returns the slot of the largest offset up to ``target``, -1 if there is none, by Kafka's binary search.

    The exact steps matter in a damaged, unsorted index, since they decide which entry is found
    (``AbstractIndex.indexSlotRangeFor``, which searches the last ``WARM_ENTRIES`` first).
    """
    if not len(offsets):
        return -1
    low, high = 0, len(offsets) - 1
    first_warm = max(0, high - WARM_ENTRIES)
    if offsets[first_warm] < target:
        low = first_warm
    elif offsets[0] > target:
        return -1
    else:
        high = first_warm
    while low < high:
        middle = (low + high + 1) // 2
        if offsets[middle] == target:
            return middle
        low, high = (low, middle - 1) if offsets[middle] > target else (middle, high)
    return low


def _first_sequence(last_sequence: int, offset_delta: int) -> int:
    """Returns the first sequence of a batch; sequences wrap below 0 to 2^31 - 1."""
    return NO_SEQUENCE if last_sequence == NO_SEQUENCE else (last_sequence - offset_delta) % 2**31


def _largest_timestamp(log: File, batch: BatchAt) -> int:
    timestamps = records_of(log, batch).timestamps
    return int(timestamps.max()) if len(timestamps) else NO_TIMESTAMP


def _note(found: Pairs, path: str, pair: tuple[int, int]) -> None:
    found.setdefault(path, []).append(pair)
