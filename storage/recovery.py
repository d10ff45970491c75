"""Producer state and indexes out of the log itself: replay of batches, and recovery of a segment (spec 9.4, 9.5).

Recovery never decodes data records: it trusts checksums, and that offsets increase, which no checksum covers; below the
recovery point also that batches do not overlap, as readers do. Offsets that are missing, and damage behind a right
checksum, are found by whoever reads there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import NamedTuple

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.ahead import one_ahead
from pyspark_commitlog.storage.epochs import LeaderEpochCache
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedMagicError,
)
from pyspark_commitlog.storage.format import control, names
from pyspark_commitlog.storage.format.tables import BatchHeaders, Int64s
from pyspark_commitlog.storage.joining import Holes, always, find_damage
from pyspark_commitlog.storage.producers import Marker, ProducerStateManager
from pyspark_commitlog.storage.segment import LogSegment
from pyspark_commitlog.storage.segment_reader import Window

logger = logging.getLogger(__name__)

CHECKED_BYTES = 16 * 1024 * 1024  # at a time: enough to amortise what each window costs


class LogState(NamedTuple):
    """What a log knows of its records beside the records themselves."""

    producers: ProducerStateManager
    epochs: LeaderEpochCache


class Recovery(NamedTuple):
    """What recovering a segment came to."""

    next_offset: int
    truncated_bytes: int
    reason: str | None  # why the rest was cut off; None if nothing was


def read_markers(window: Window) -> tuple[dict[int, Marker], int]:
    """The transaction markers in a window by base offset, and how many of its batches precede one that does not parse.

    Data, batches emptied by compaction and other control records have none.
    """
    headers = window.headers
    rows = np.flatnonzero(headers.is_control & (headers.table["count"] > 0))
    if not len(rows):
        return {}, len(headers)
    found, good = _read_markers(window, rows)
    offsets = headers.table["base_offset"][rows[: len(found)]].tolist()
    return {offset: Marker(*each) for offset, each in zip(offsets, found, strict=True) if each is not None}, good


def _read_markers(window: Window, rows: Int64s) -> tuple[list[control.MarkerRecord | None], int]:
    """What each of some control batches says up to one that does not parse, and how many batches precede that one."""
    buffer, headers = window.buffer, window.headers
    with suppress(InvalidRecordError):
        return control.read_markers(buffer, headers[rows]), len(headers)
    found: list[control.MarkerRecord | None] = []
    for row in rows.tolist():
        try:
            found.append(control.read_marker(buffer, headers[row : row + 1]))
        except InvalidRecordError as error:
            logger.warning("%s", error)
            return found, row
    return found, len(headers)


def replay(segment: LogSegment, window: Window, producers: ProducerStateManager, *, index_aborts: bool) -> int:
    """Bring producer state up to the end of a window, as a replica does: nothing is refused.

    ``index_aborts``: also write aborted transactions to the segment's transaction index. Returns how many batches were
    good: all of them, or those up to and with a marker that does not parse, as Kafka counts.
    """
    markers, good = read_markers(window)
    completed = producers.replay(window.headers[:good], markers)
    if index_aborts:
        for transaction in completed:
            if transaction.aborted:
                segment.txn_index.append(transaction.index_entry)
    return min(good + 1, len(window.headers))


def recover(segment: LogSegment, state: LogState, flushed_offset: int = 0) -> Recovery:
    """Walk a segment, rebuild its indexes and the state behind it, and find its last valid batch: ``segment.size``.

    What is behind that is still there: :func:`cut` removes it. Batches below ``flushed_offset`` were synced and
    acknowledged: damage among them is reported, as the state that is rebuilt would rest on it. On disk while it works:
    indexes that are shorter than they will be.

    Raises CorruptRecordError for damage below ``flushed_offset``, UnsupportedMagicError for a whole batch of a newer
    format wherever it lies, and SegmentOffsetOverflowError for offsets too far from the segment's base.
    """
    file_size = segment.file_size
    segment.reset_indexes()
    segment.txn_index.reset()
    next_offset, error = segment.base_offset, None
    windows = one_ahead(segment.walk(0, file_size, CHECKED_BYTES))  # reading takes twice as long as checking
    try:
        with closing(windows):
            for window in windows:
                damage = [
                    *_out_of_order(window.headers, next_offset),
                    *_damaged(window, next_offset, flushed_offset),
                    *_broken(window, flushed_offset),
                ]
                good, error = _take(segment, window, state, damage)
                if good:
                    next_offset = int(window.headers.table["last_offset"][good - 1]) + 1
                if error is not None:
                    break
    except UnsupportedMagicError as found:
        if segment.is_whole_in_newer_format(segment.size):
            raise
        error = found
    except CorruptRecordError as found:
        error = found
    if segment.size < file_size and next_offset < flushed_offset:
        raise records_lost(segment, next_offset, flushed_offset) from error
    return Recovery(next_offset, file_size - segment.size, None if error is None else str(error))


def cut(segment: LogSegment) -> None:
    """Remove what recovery found no valid batch in, and close the indexes.

    On disk after a crash: the log cut, or not yet, and indexes longer than they will be. Recovery, run again, comes to
    the same end.
    """
    segment.truncate_file(segment.size)
    segment.add_closing_time_entry()
    segment.trim()


def records_lost(segment: LogSegment, next_offset: int, flushed_offset: int) -> CorruptRecordError:
    """The error for a segment that should reach ``flushed_offset`` and does not."""
    return CorruptRecordError(
        f"the segment is sound up to offset {next_offset} only, but everything below {flushed_offset} was synced once: "
        "records are missing or damaged. Restore the file, or lower the partition's line in "
        f"{names.RECOVERY_POINT_CHECKPOINT} to give up what follows",
        path=segment.path(names.LOG),
        position=segment.size,
    )


def _take(
    segment: LogSegment, window: Window, state: LogState, damage: Sequence[int]
) -> tuple[int, CorruptionError | None]:
    """Take a window's valid batches into indexes and state; how many those were, and what is wrong with the next.

    ``damage`` are batches that are not valid, in any order.
    """
    headers = window.headers
    valid = headers[: min(damage, default=len(headers))]
    if len(valid):
        segment.check_offsets(valid)
    valid = valid[: replay(segment, window._replace(headers=valid), state.producers, index_aborts=True)]
    assign_epochs(state.epochs, valid)
    if len(valid):
        segment.advance(valid)
    if len(valid) == len(headers):
        return len(valid), None
    return len(valid), _reason(segment, window, headers[len(valid) : len(valid) + 1], len(valid) in damage)


def _out_of_order(headers: BatchHeaders, next_offset: int) -> list[int]:
    """The first batch, if there is one, that does not end above its predecessor, or begins below offset 0.

    Batches that overlap are taken, as Kafka takes them: every offset is found.
    """
    last_offsets = headers.table["last_offset"]
    is_wrong = headers.table["base_offset"] < 0
    is_wrong[:1] |= last_offsets[:1] < next_offset
    is_wrong[1:] |= last_offsets[1:] <= last_offsets[:-1]
    return np.flatnonzero(is_wrong)[:1].tolist()  # type: ignore[no-any-return]


def _damaged(window: Window, next_offset: int, flushed_offset: int) -> list[int]:
    """The first batch, if there is one, below ``flushed_offset`` that is not as it was written, whatever is missing."""
    rows = np.flatnonzero(window.headers.table["last_offset"] < flushed_offset)
    if not len(rows):
        return []
    found = find_damage(window.buffer, window.headers[rows], always(Holes.ANYWHERE), expected=next_offset)
    return [] if found is None else [int(rows[found.row])]


def _broken(window: Window, flushed_offset: int) -> list[int]:
    """The first batch, if there is one, from ``flushed_offset`` on whose checksum is wrong."""
    to_check = np.flatnonzero(window.headers.table["last_offset"] >= flushed_offset)
    found = to_check[~formats.checksums_match(window.buffer, window.headers[to_check])][:1]
    return found.tolist()  # type: ignore[no-any-return]


def _reason(segment: LogSegment, window: Window, headers: BatchHeaders, is_damaged: bool) -> CorruptionError:
    path = segment.path(names.LOG)
    position = int(headers.table["position"][0])
    try:
        formats.verify(window.buffer, headers)
    except CorruptRecordError as error:
        return error.located(path, window.position)
    base, last = int(headers.table["base_offset"][0]), int(headers.table["last_offset"][0])
    reason = f"offsets {base} to {last} do not follow" if is_damaged else "follows a transaction marker not understood"
    return CorruptRecordError(reason, path=path, position=window.position + position)


def assign_epochs(epochs: LeaderEpochCache, headers: BatchHeaders) -> None:
    """Note every leader epoch that begins in these batches."""
    latest = epochs.latest.epoch if epochs.latest else -1
    if len(headers) and headers.table["leader_epoch"].max() <= latest:
        return  # the usual case
    seen = np.maximum.accumulate(np.concatenate(([latest], headers.table["leader_epoch"])))
    for row in np.flatnonzero(np.diff(seen) > 0).tolist():
        epochs.assign(int(headers.table["leader_epoch"][row]), int(headers.table["base_offset"][row]))
