"""Recovers a segment: checks its batches, and rebuilds its indexes and the state of the producers from them.

Like Kafka's LogSegment.recover, this does not decode data records. It checks checksums, and that offsets, which no
checksum covers, increase; below the recovery point also that batches do not overlap. Readers find missing offsets, and
faults inside batches with a correct checksum.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..errors import CorruptionError, CorruptRecordError, InvalidRecordError, UnsupportedMagicError
from ..format.files import file_names
from ..format.internal import control_records
from ..format.tables import BatchHeaders, Int64s
from ..prefetch import one_ahead
from ..segment.joining import Holes, always, find_damage
from ..segment.walk import Window
from ..segment.writer import LogSegment
from .leader_epochs import LeaderEpochCache
from .producer_state import Marker
from .producer_state_manager import ProducerStateManager

logger = logging.getLogger(__name__)

CHECKED_BYTES = 16 * 1024 * 1024  # read at a time: enough to amortise the fixed cost of a window


class LogState(NamedTuple):
    """The state that recovery rebuilds beside the indexes: the producers, and the leader epochs."""

    producers: ProducerStateManager
    epochs: LeaderEpochCache


class Recovery(NamedTuple):
    """The result of recovering a segment."""

    next_offset: int  # after the last valid batch
    truncated_bytes: int  # after that batch, which :func:`cut` removes
    reason: str | None  # why the rest is cut off; None if there is no rest


def read_markers(window: Window, *, passes_bad: bool = False) -> tuple[dict[int, Marker], int]:
    """Returns the transaction markers in a window by base offset, and how many batches precede one that does not parse.

    Data batches, batches emptied by compaction and other control records are not markers. With ``passes_bad``, markers
    that do not parse are skipped, and all batches count.
    """
    headers = window.headers
    rows = np.flatnonzero(headers.is_control & (headers.table["count"] > 0))
    if not len(rows):
        return {}, len(headers)
    found, good = _read_markers(window, rows, passes_bad)
    offsets = headers.table["base_offset"][rows[: len(found)]].tolist()
    return {offset: Marker(*each) for offset, each in zip(offsets, found, strict=True) if each is not None}, good


def _read_markers(
    window: Window, rows: Int64s, passes_bad: bool
) -> tuple[list[control_records.MarkerRecord | None], int]:
    """Returns the control records of the batches in ``rows``, up to one that does not parse.

    Also returns how many batches precede that one. None stands for control records that are not markers.
    """
    buffer, headers = window.buffer, window.headers
    with suppress(InvalidRecordError):
        return control_records.read_markers(buffer, headers[rows]), len(headers)
    found: list[control_records.MarkerRecord | None] = []
    for row in rows.tolist():
        try:
            found.append(control_records.read_marker(buffer, headers[row : row + 1]))
        except InvalidRecordError as error:
            if not passes_bad:
                logger.warning("%s", error)
                return found, row
            found.append(None)
    return found, len(headers)


def replay(segment: LogSegment, window: Window, producers: ProducerStateManager, *, index_aborts: bool) -> int:
    """Update the state of the producers by the batches of a window, as a replica does: no batch is rejected.

    ``index_aborts``: also write aborted transactions to the segment's transaction index. Returns the number of good
    batches: all of them, or, as in Kafka, those up to and including a marker that does not parse.
    """
    markers, good = read_markers(window)
    completed = producers.replay(window.headers[:good], markers)
    if index_aborts:
        for transaction in completed:
            if transaction.aborted:
                segment.txn_index.append(transaction.index_entry)
    return min(good + 1, len(window.headers))


def recover(segment: LogSegment, state: LogState, synced_offset: int = 0) -> Recovery:
    """Find where the valid batches of a segment end, and rebuild its indexes and ``state`` from them.

    Sets ``segment.size`` to the end of the valid batches; :func:`cut` removes the rest. Batches below
    ``synced_offset`` were synced and acknowledged, so damage among them raises an error. After a crash before the end
    of :func:`cut`, the ``.index`` is missing: the next opening recovers the segment again.

    Raises CorruptRecordError for damage below ``synced_offset``, UnsupportedMagicError for a complete batch of a newer
    format wherever it is, and SegmentOffsetOverflowError for offsets too far from the segment's base offset.
    """
    file_size = segment.file_size
    segment.begin_rebuild()
    next_offset, error = segment.base_offset, None
    windows = one_ahead(segment.walk(0, file_size, CHECKED_BYTES))  # reading takes twice as long as checking
    try:
        with closing(windows):
            for window in windows:
                damage = _out_of_order(window.headers, next_offset)
                damage += [*_damaged(window, next_offset, synced_offset, damage), *_broken(window, synced_offset)]
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
    if segment.size < file_size and next_offset < synced_offset:
        raise records_lost(segment, next_offset, synced_offset) from error
    return Recovery(next_offset, file_size - segment.size, None if error is None else str(error))


def cut(segment: LogSegment) -> None:
    """Remove the bytes after the last valid batch, and bring the indexes to their final size.

    After a crash, the ``.log`` may be cut or not, and the indexes may still end with zeros. Running recovery again has
    the same result.
    """
    segment.truncate_file(segment.size)
    segment.add_closing_time_entry()
    segment.trim()
    segment.end_rebuild()


def records_lost(segment: LogSegment, next_offset: int, synced_offset: int) -> CorruptRecordError:
    """Returns the error for a segment that ends at ``next_offset``, below ``synced_offset``.

    Everything below ``synced_offset`` was synced.
    """
    return CorruptRecordError(
        f"the segment is sound only up to offset {next_offset}, but everything below {synced_offset} was synced: "
        "records are missing or damaged. Restore the file, or, to do without the records that follow, lower the offset "
        f"in the partition's line in {file_names.RECOVERY_POINT_CHECKPOINT}",
        path=segment.shown_path,
        position=segment.size,
    )


def _take(
    segment: LogSegment, window: Window, state: LogState, damage: Sequence[int]
) -> tuple[int, CorruptionError | None]:
    """Add the valid batches of a window to indexes and state, up to the first one that is not valid.

    ``damage``: the rows of batches that are not valid, in any order. Returns the number of batches added, and the
    problem with the next one; None if all were added.
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
    """Returns a list with the row of the first batch that is out of order; an empty list if there is none.

    A batch is out of order if it does not end above its predecessor, or begins below offset 0. Accepts batches that
    overlap, as Kafka does: every offset can still be found.
    """
    last_offsets = headers.table["last_offset"]
    is_wrong = headers.table["base_offset"] < 0
    is_wrong[:1] |= last_offsets[:1] < next_offset
    is_wrong[1:] |= last_offsets[1:] <= last_offsets[:-1]
    return np.flatnonzero(is_wrong)[:1].tolist()  # type: ignore[no-any-return]


def _damaged(window: Window, next_offset: int, synced_offset: int, out_of_order: Sequence[int]) -> list[int]:
    """Returns a list with the row of the first damaged batch that ends below ``synced_offset``, or an empty list.

    A batch in ``out_of_order`` that follows all synced ones is not below them: a power cut may leave zeros in place of
    a base offset, which is outside the checksum. Accepts missing offsets.
    """
    last_offsets = window.headers.table["last_offset"]
    is_below = last_offsets < synced_offset
    for row in out_of_order:
        is_below[row] &= (last_offsets[row - 1] + 1 if row else next_offset) < synced_offset
    rows = np.flatnonzero(is_below)
    if not len(rows):
        return []
    found = find_damage(window.buffer, window.headers[rows], always(Holes.ANYWHERE), expected=next_offset)
    return [] if found is None else [int(rows[found.row])]


def _broken(window: Window, synced_offset: int) -> list[int]:
    """Returns a list with the row of the first batch at or above ``synced_offset`` with a wrong checksum, or []."""
    to_check = np.flatnonzero(window.headers.table["last_offset"] >= synced_offset)
    found = to_check[~formats.checksums_match(window.buffer, window.headers[to_check])][:1]
    return found.tolist()  # type: ignore[no-any-return]


def _reason(segment: LogSegment, window: Window, headers: BatchHeaders, is_damaged: bool) -> CorruptionError:
    path = segment.shown_path
    position = int(headers.table["position"][0])
    try:
        formats.verify(window.buffer, headers)
    except CorruptRecordError as error:
        return error.located(path, window.position)
    base, last = int(headers.table["base_offset"][0]), int(headers.table["last_offset"][0])
    reason = f"offsets {base} to {last} are out of order" if is_damaged else "the batch follows an unreadable marker"
    return CorruptRecordError(reason, path=path, position=window.position + position)


def assign_epochs(epochs: LeaderEpochCache, headers: BatchHeaders) -> None:
    """Record every leader epoch that begins in these batches."""
    latest = epochs.latest.epoch if epochs.latest else -1
    if len(headers) and headers.table["leader_epoch"].max() <= latest:
        return  # the usual case
    seen = np.maximum.accumulate(np.concatenate(([latest], headers.table["leader_epoch"])))
    for row in np.flatnonzero(np.diff(seen) > 0).tolist():
        epochs.assign(int(headers.table["leader_epoch"][row]), int(headers.table["base_offset"][row]))
