"""Checks the end of a segment that is not the last one: batches must fill its file.

Nothing was appended to it once the next segment began, so other bytes after its batches are damage: batches may be
missing there. Any read that reaches the next segment reports it, because the previous read ended at the last batch, and
an index or an offset may lead past such bytes.
"""

from __future__ import annotations

from contextlib import suppress

from ..errors import CorruptionError
from ..segment.collection import LogSegments
from ..segment.walk import PROBE_BYTES
from ..segment.writer import LogSegment


def check_end_before(segments: LogSegments, segment: LogSegment) -> None:
    """Raises CorruptionError for damage after the batches of the segment before ``segment``, if there is one."""
    before = segments.floor(segment.base_offset - 1)
    if before is None or before.read_to == before.size:
        return
    if before.known_tail is None:
        _tail_damage(before, segment.base_offset)
        before.close()  # a log has more files than a process may have open
    damage = _tail_damage(before, segment.base_offset)
    if damage is not None:
        raise damage


def sound_stop(segments: LogSegments, segment: LogSegment, start: int, stop: int) -> int:
    """Returns where a read of a segment from position ``start`` ends: at ``stop``, or before damage after its batches.

    A server that sends bytes as they are would send that damage, and the client's error would name no file.
    """
    following = segments.higher(segment.base_offset) if stop == segment.size else None
    damage = None if following is None else _tail_damage(segment, following.base_offset)
    return stop if damage is None or damage.position is None or damage.position <= start else damage.position


def _tail_damage(segment: LogSegment, limit: int) -> CorruptionError | None:
    """Returns the damage after the last batch of a segment, whose successor begins at ``limit``; None: none.

    A damaged batch whose offsets fit between its predecessor and ``limit`` does not count: a reader of its offsets
    reports it. Reads from the last index entry on, once, and nothing if a reader has read up to the end of the file.
    """
    if segment.read_to == segment.size:
        return None
    if segment.known_tail is None:
        segment.known_tail = (_find(segment, limit),)
    return segment.known_tail[0]


def _find(segment: LogSegment, limit: int) -> CorruptionError | None:
    next_offset = segment.base_offset
    try:
        for window in segment.from_index(segment.offset_index.last_offset, window_bytes=PROBE_BYTES):
            next_offset = window.headers.next_offset
    except CorruptionError as error:
        is_behind = error.position is not None and not _is_batch_at(segment, error.position, next_offset, limit)
        return error if is_behind else None
    return None


def _is_batch_at(segment: LogSegment, position: int, lowest: int, limit: int) -> bool:
    """Whether a batch with a last offset from ``lowest`` up to ``limit`` begins there; checks only its header."""
    with suppress(CorruptionError):
        for window in segment.walk(position, segment.size, PROBE_BYTES):
            return lowest <= int(window.headers.table["last_offset"][0]) < limit
    return False
