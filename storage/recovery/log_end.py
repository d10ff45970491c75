"""Finds the end of a log for readers: after its last sound batch, if a crash can explain the bytes that follow.

Nothing above the recovery point was acknowledged as synced: a crash may leave part of a batch there, or a batch of the
right length with wrong bytes. If no recovery point is known, as in a partition that was copied, nothing indicates a
crash; then only an incomplete batch at the very end is skipped, with a warning. A damaged batch before a sound one is
damage within the log: the log does not end there, and a reader that gets there raises an error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..errors import CorruptionError, CorruptRecordError
from ..format import v2
from ..format.constants import HEADER_UP_TO_MAGIC, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT
from ..format.files import file_names
from ..segment.joining import size_at_start
from ..segment.resync import SEARCHED_BATCH_BYTES_MAX, one_sound_batch
from ..segment.writer import LogSegment


class LogEnd(NamedTuple):
    """The end of a log, and the problem with the bytes after it."""

    offset: int  # after the last sound batch
    torn: CorruptionError | None = None  # an incomplete batch at the end, for a warning
    damage: CorruptionError | None = None  # a damaged batch at the end: the log continues there, but cannot be read


def find_end(active: LogSegment, recovery_point: int | None, *, ends_there: bool = False) -> LogEnd:
    """Returns the end of the log whose last segment is ``active``; sets that segment's size.

    Everything below ``recovery_point`` was synced; None: unknown. If it is above the returned end, the records between
    them are missing. But if those are in one batch with a wrong checksum, whose header says that it ends at the
    recovery point, the recovery point is the end. ``ends_there``: a broker closed the log cleanly, so that it ends at
    the recovery point.
    """
    end, hidden = _pass_damage(active)
    if ends_there and recovery_point is not None and end > recovery_point:
        return LogEnd(recovery_point, damage=_beyond(active, end, recovery_point))
    if hidden is not None or active.size == active.file_size:
        return LogEnd(end, damage=hidden)
    rest = _Rest(active, end)
    if recovery_point is None:
        return LogEnd(end, torn=rest.error()) if rest.is_torn() else LogEnd(end, damage=rest.error())
    if end < recovery_point and rest.claimed_end() == recovery_point:
        active.end_at(active.file_size)
        return LogEnd(recovery_point)
    return LogEnd(end, damage=None if rest.may_be_left_by_a_crash() else rest.error())


def is_sound_up_to_end(active: LogSegment, end: int, recovery_point: int | None) -> bool:
    """Whether there is no damage after ``active.size``, where the log ends at offset ``end``.

    Returns True if there are no bytes, or those of an ongoing write, or those that a crash left of a write.
    """
    if active.size >= active.file_size:
        return True
    rest = _Rest(active, end)
    is_unfinished = rest.is_torn() or (recovery_point is not None and rest.may_be_left_by_a_crash())
    return is_unfinished and active.search(active.file_size).next_sound(active.size + 1) is None


def _pass_damage(active: LogSegment) -> tuple[int, CorruptionError | None]:
    """Returns the offset after the last sound batch, and the damage at which the log ends, if there is any.

    That damage is followed only by sound batches with lower offsets, which a reader of the log never reaches.
    """
    end, hidden = active.next_offset(), None
    while active.size < active.file_size:
        before, error = end, _Rest(active, end).error()
        if not active.skip_damage():
            break
        for window in active.read_appended():
            end = max(end, window.headers.next_offset)
        hidden = None if end > before else error
    return end, hidden


def _beyond(active: LogSegment, end: int, recovery_point: int) -> CorruptRecordError:
    """Returns the error for batches above ``recovery_point``, at which the log ended when it was closed cleanly.

    Sets the size of the segment to exclude these batches.
    """
    position = active.position_reaching(recovery_point) or 0  # 0: the segment begins above it
    active.end_at(position)
    reason = (
        f"the log reaches offset {end}, but ended at {recovery_point} when a broker closed it cleanly: the offsets of "
        "this batch are wrong. Restore the file, or, if files were added later, remove "
        f"{file_names.CLEAN_SHUTDOWN_FILE}"
    )
    return CorruptRecordError(reason, path=active.shown_path, position=position)


class _Rest:
    """The bytes after the last sound batch of a log; they contain no sound batch that continues the log."""

    def __init__(self, active: LogSegment, expected: int) -> None:
        self._active = active
        self._expected = expected
        self._search = active.search(active.file_size)
        start = active.read_bytes(active.size, min(v2.LAYOUT.itemsize, active.file_size - active.size))
        self._start = np.frombuffer(start, dtype=np.uint8)
        self._size = active.file_size - active.size

    def is_torn(self) -> bool:
        """Whether the bytes are zeros, or the beginning of a batch, perhaps followed by zeros."""
        before_zeros = self._search.end_of_data(self._active.size) - self._active.size
        if not before_zeros or len(self._start) < LOG_OVERHEAD:
            return True
        wanted = size_at_start(self._start)
        is_header = bool((self._start[MAGIC_AT:HEADER_UP_TO_MAGIC] <= v2.MAGIC).all()) and wanted > HEADER_UP_TO_MAGIC
        is_incomplete = wanted > self._size or before_zeros < wanted < self._size
        return is_header and is_incomplete and not self._is_whole()

    def _is_whole(self) -> bool:
        """Whether the bytes are a complete batch with a wrong length field.

        With the right length, its checksum is correct.
        """
        if self._size > SEARCHED_BATCH_BYTES_MAX:
            return False
        data = np.frombuffer(self._active.read_bytes(self._active.size, self._size), dtype=np.uint8).copy()
        data[LENGTH_AT:LOG_OVERHEAD] = np.frombuffer((self._size - LOG_OVERHEAD).to_bytes(4, "big"), dtype=np.uint8)
        return one_sound_batch(data) is not None

    def may_be_left_by_a_crash(self) -> bool:
        """Whether a crash may have left the bytes.

        They then begin neither with a sound batch nor with one of a newer format.
        """
        position = self._active.size
        return not self._search.is_sound_at(position) and not self._active.is_whole_in_newer_format(position)

    def claimed_end(self) -> int | None:
        """The offset after the batch, if the bytes have the length of exactly one batch; None otherwise."""
        if size_at_start(self._start) != self._size:
            return None
        headers = formats.scan(np.frombuffer(self._active.read_bytes(self._active.size, self._size), np.uint8)).headers
        return headers.next_offset if len(headers) == 1 else None

    def error(self) -> CorruptionError:
        """The error that a reader of the bytes raises."""
        try:
            for _ in self._active.batches(self._active.size, self._active.file_size, expected=self._expected):
                pass
        except CorruptionError as error:
            return error
        reason = "a batch that cannot be read; restore the file"
        return CorruptRecordError(reason, path=self._active.shown_path, position=self._active.size)
