"""The objects of a log in a tier: consecutive offsets with their records, and the small files that a broker needs.

Everything is computed from the records: a transaction index, which no checksum covers, is never trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..errors import PolicyViolationError
from ..format.files import checkpoints, file_names as names
from ..format.files.checkpoints import EpochEntry
from ..format.files.index_entries import encode_aborted
from ..format.internal import control_records
from ..index_rebuild.segment import IndexEntries
from ..reading.reader import LogReader
from ..recovery.loader import LogLoader
from ..recovery.producer_state_manager import ProducerStateManager, rows_for_replay
from ..recovery.segment_recovery import read_markers
from ..segment.walk import Window
from ..tiers.metadata_records import SegmentEpoch, SegmentMetadata, SegmentState, TopicIdPartition
from ..transfer.pieces import PIECE_BYTES_MAX, pieces_of

FLAT = (EpochEntry(0, 0),)  # one epoch for a whole log: a broker's next epoch is always larger


@dataclass(frozen=True)
class SegmentContent:
    """A segment for a tier, in memory."""

    start_offset: int
    end_offset: int  # the offset of its last record, or the last offset that it covers
    max_timestamp_ms: int  # of its records
    leader_epochs: tuple[SegmentEpoch, ...]
    files: dict[str, bytes]  # by suffix; .txnindex only if transactions were aborted

    @property
    def size(self) -> int:
        """Bytes of the .log."""
        return len(self.files[names.LOG])

    def metadata(
        self,
        partition: TopicIdPartition,
        segment_id: str,
        broker_id: int,
        now_ms: int,
        state: SegmentState = SegmentState.COPY_SEGMENT_STARTED,
    ) -> SegmentMetadata:
        """Returns its entry for ``__remote_log_metadata``."""
        return SegmentMetadata(
            partition,
            segment_id,
            self.start_offset,
            self.end_offset,
            broker_id,
            self.max_timestamp_ms,
            now_ms,
            self.leader_epochs,
            self.size,
            state=state,
            is_txn_index_empty=names.TXN_INDEX not in self.files,
        )


def contents_of(
    reader: LogReader,
    start: int,
    end: int,
    *,
    epochs: Sequence[EpochEntry] | None = None,
    bytes_max: int = PIECE_BYTES_MAX,
    cuts_batch: bool = False,
    aborts_open: bool = False,
) -> Iterator[SegmentContent]:
    """Yields segments with the records from ``start`` (of a batch, or the log) to ``end`` (the start of a segment).

    Each has at most ``bytes_max`` bytes, so it may be a part of a segment of the log, and none has a batch below the
    log start. Every checksum is compared. ``epochs``: the log's leader epochs, ascending; by default those that it has.
    ``cuts_batch``: the first one begins at the log start, for brokers that take the start from there, and not with the
    batch that contains it. ``aborts_open``: a last segment, after ``end``, has a marker for each transaction that is
    open there, as if a coordinator had aborted it. Raises CorruptionError for damage.
    """
    made = _Contents(reader, start, epochs or reader.epochs.entries or FLAT)
    for piece in pieces_of(reader, bytes_max, end, start=start):
        data, base = piece.read(), max(piece.base, reader.log_start_offset)
        if base > piece.base and not cuts_batch:
            base = _batch_start(data, base)
        yield made.add(data, base, piece.end, piece.max_timestamp)
    if aborts_open and made.producers.ongoing:
        markers = abort_markers(made.producers, end)
        data = b"".join(each.data for each in markers)
        yield made.add(data, end, end + len(markers), max(each.timestamp_ms for each in markers))


class _Contents:
    """Makes consecutive segments of a log."""

    def __init__(self, reader: LogReader, start: int, epochs: Sequence[EpochEntry]) -> None:
        self._interval_bytes = reader.context.config.index_interval_bytes
        self._epochs = epochs
        self.producers = _producers_at(reader, start)

    def add(self, data: bytes, base: int, end: int, max_timestamp_ms: int) -> SegmentContent:
        """Returns the segment of the next batches, whose offsets are from ``base`` to ``end`` - 1."""
        files = _files_of(data, base, self._interval_bytes, self.producers)
        self.producers.map_end_offset = end
        self.producers.on_high_watermark(end)
        own = [each for each in self._epochs if each.start_offset < end]
        files |= {names.SNAPSHOT: self.producers.to_bytes(), names.EPOCHS: checkpoints.encode_leader_epochs(own)}
        return SegmentContent(base, end - 1, max_timestamp_ms, epochs_within(own, base), files)


class AbortMarker(NamedTuple):
    """The batch that aborts an open transaction."""

    data: bytes
    timestamp_ms: int  # the time of the producer's last batch, so that a second run writes the same bytes


def abort_markers(producers: ProducerStateManager, offset: int) -> list[AbortMarker]:
    """Returns a marker for each open transaction, at consecutive offsets from ``offset`` on."""
    found = []
    for at, producer_id in enumerate(producers.ongoing.values(), offset):
        known = producers.producers[producer_id]
        data = control_records.end_transaction_marker(
            commit=False,
            offset=at,
            leader_epoch=0,
            timestamp_ms=known.last_timestamp,
            producer_id=producer_id,
            producer_epoch=known.epoch,
            coordinator_epoch=max(known.coordinator_epoch, 0),
        )
        found.append(AbortMarker(data.tobytes(), known.last_timestamp))
    return found


def _batch_start(data: bytes, offset: int) -> int:
    """Returns where the batch with an offset begins; the offset itself if no batch has it."""
    table = formats.scan(np.frombuffer(data, np.uint8)).headers.table
    having = table["base_offset"][table["last_offset"] >= offset][:1]
    found: list[int] = having.tolist()
    return min([offset, *found])


def epochs_within(entries: Sequence[EpochEntry], start: int) -> tuple[SegmentEpoch, ...]:
    """Returns the leader epochs of a segment that begins at ``start``; ``entries``: those of its log up to its end."""
    before = [each for each in entries if each.start_offset <= start][-1:]
    inside = [each for each in entries if each.start_offset > start]
    return tuple(SegmentEpoch(each.epoch, max(start, each.start_offset)) for each in (*before, *inside))


def check_whole(reader: LogReader, *, aborts_open: bool = False) -> None:
    """Raises PolicyViolationError for a log that a broker could not serve from a tier.

    ``aborts_open``: its open transactions will be aborted there.
    """
    if reader.context.config.compact:
        raise PolicyViolationError(
            f"{reader.context.directory}: has cleanup.policy=compact, and brokers keep no compacted topic in a tier"
        )
    if reader.last_stable_offset < reader.log_end_offset and not aborts_open:
        raise PolicyViolationError(
            f"{reader.context.directory}: a transaction is open from offset {reader.last_stable_offset} on, and a "
            "broker would show its records: wait for its end, or end it (commitlog transactions --abort)"
        )


def _producers_at(reader: LogReader, offset: int) -> ProducerStateManager:
    if offset <= reader.log_start_offset and offset <= reader.segments.first.base_offset:
        return ProducerStateManager(reader.context.directory, map_end_offset=offset)
    marks = reader.checkpoints.read()
    loader = LogLoader(
        reader.context,
        recovery_point=marks.recovery_point,
        log_start_offset=marks.log_start_offset,
        was_closed_cleanly=marks.was_closed_cleanly,
    )
    return reader.looking_again(lambda: loader.producers_at(offset, reader.segments))


def _files_of(data: bytes, base: int, interval_bytes: int, producers: ProducerStateManager) -> dict[str, bytes]:
    """Returns a segment's records from ``base`` on with its indexes, and moves ``producers`` to its end."""
    buffer = np.frombuffer(data, np.uint8)
    headers = formats.scan(buffer).headers
    formats.verify(buffer, headers)
    ended = producers.replay(headers[rows_for_replay(headers)], read_markers(Window(0, buffer, headers))[0])
    below = int(np.searchsorted(headers.table["last_offset"], base))  # batches that are deleted
    cut = int(headers.table["position"][below]) if below < len(headers) else len(data)
    kept = buffer[cut:]
    entries = IndexEntries(base, interval_bytes)
    if len(kept):
        entries.add(Window(0, kept, formats.scan(kept).headers))
    aborted = [each.index_entry for each in ended if each.aborted]
    files = {names.LOG: kept.tobytes(), names.INDEX: entries.offset_index(), names.TIME_INDEX: entries.time_index()}
    return files | ({names.TXN_INDEX: encode_aborted(aborted)} if aborted else {})
