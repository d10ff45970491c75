"""Where a log ends for those who change nothing: after its last sound batch, if a crash can have left the rest.

Above the recovery point nothing was acknowledged as synced: a crash may leave part of a batch there, or one of the
right length with wrong bytes. Without a known recovery point, as in a partition that was copied, nothing indicates a
crash: only an incomplete batch at the very end is skipped, and reported. Anything followed by a sound batch is damage
within the log: the log does not end there, and a reader that gets there raises an error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..errors import CorruptionError, CorruptRecordError
from ..format import v2
from ..format.constants import HEADER_UP_TO_MAGIC, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT
from ..format.files import file_names
from ..segment import SEARCHED_BATCH_BYTES_MAX, LogSegment, one_sound_batch, size_at_start


class LogEnd(NamedTuple):
    """Where a log ends."""

    offset: int  # after the last sound batch
    torn: CorruptionError | None = None  # an incomplete batch at the end, to be reported
    damage: CorruptionError | None = None  # an unreadable batch at the end: the log continues there


def find_end(active: LogSegment, recovery_point: int | None, *, ends_there: bool = False) -> LogEnd:
    """Find the end of the log whose last segment is ``active``; sets that segment's size.

    ``recovery_point``: everything below it was synced; None: unknown. If it is above the end, records are missing
    there, unless the only fault is the checksum of the last batch, which ends exactly there. ``ends_there``: the log
    was closed cleanly, and ends at the recovery point.
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
    """Whether the bytes after ``active.size``, where the log ends at ``end``, are no damage: none at all, an ongoing
    write, or what a crash left of one.
    """
    if active.size >= active.file_size:
        return True
    rest = _Rest(active, end)
    is_unfinished = rest.is_torn() or (recovery_point is not None and rest.may_be_left_by_a_crash())
    return is_unfinished and active.search(active.file_size).next_sound(active.size + 1) is None


def _pass_damage(active: LogSegment) -> tuple[int, CorruptionError | None]:
    """The offset after the last sound batch; and damage followed only by sound batches of lower offsets.

    Those who read up to the end never get there.
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
    """The error for batches whose offsets exceed the end of the log when it was closed; its size then excludes them."""
    position = active.position_reaching(recovery_point) or 0  # or nothing reaches it: the segment begins above it
    active.end_at(position)
    reason = (
        f"the log would end at offset {end}, but ended at {recovery_point} when a broker closed it cleanly: the "
        "offsets of this batch are wrong. Restore the file, or, if files were put there since, remove "
        f"{file_names.CLEAN_SHUTDOWN_FILE}"
    )
    return CorruptRecordError(reason, path=active.path(file_names.LOG), position=position)


class _Rest:
    """The bytes after the last sound batch of a log; no sound batch follows anywhere in them."""

    def __init__(self, active: LogSegment, expected: int) -> None:
        self._active = active
        self._expected = expected
        self._search = active.search(active.file_size)
        start = active.read_bytes(active.size, min(v2.LAYOUT.itemsize, active.file_size - active.size))
        self._start = np.frombuffer(start, dtype=np.uint8)
        self._size = active.file_size - active.size

    def is_torn(self) -> bool:
        """Whether they are zeros, or the beginning of a batch, perhaps followed by zeros."""
        before_zeros = self._search.end_of_data(self._active.size) - self._active.size
        if not before_zeros or len(self._start) < LOG_OVERHEAD:
            return True
        wanted = size_at_start(self._start)
        is_header = bool((self._start[MAGIC_AT:HEADER_UP_TO_MAGIC] <= v2.MAGIC).all()) and wanted > HEADER_UP_TO_MAGIC
        is_incomplete = wanted > self._size or before_zeros < wanted < self._size
        return is_header and is_incomplete and not self._is_whole()

    def _is_whole(self) -> bool:
        """Whether only the length is wrong: with the right length, the checksum is correct."""
        if self._size > SEARCHED_BATCH_BYTES_MAX:
            return False
        data = np.frombuffer(self._active.read_bytes(self._active.size, self._size), dtype=np.uint8).copy()
        data[LENGTH_AT:LOG_OVERHEAD] = np.frombuffer((self._size - LOG_OVERHEAD).to_bytes(4, "big"), dtype=np.uint8)
        return one_sound_batch(data) is not None

    def may_be_left_by_a_crash(self) -> bool:
        """Whether they begin with neither a sound batch (of other offsets) nor a complete one of a newer format."""
        position = self._active.size
        return not self._search.is_sound_at(position) and not self._active.is_whole_in_newer_format(position)

    def claimed_end(self) -> int | None:
        """If they are exactly one batch of the right length, the offset after it; None otherwise."""
        if size_at_start(self._start) != self._size:
            return None
        headers = formats.scan(np.frombuffer(self._active.read_bytes(self._active.size, self._size), np.uint8)).headers
        return headers.next_offset if len(headers) == 1 else None

    def error(self) -> CorruptionError:
        """What is wrong with them."""
        try:
            for _ in self._active.batches(self._active.size, self._active.file_size, expected=self._expected):
                pass
        except CorruptionError as error:
            return error
        reason = "a batch that cannot be read"
        return CorruptRecordError(reason, path=self._active.path(file_names.LOG), position=self._active.size)
