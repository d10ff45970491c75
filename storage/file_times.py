"""Offsets before a time, by the times of the files of a log: what version 0 of ListOffsets answers, and Kafka 0.7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .errors import InvalidOffsetError

LATEST = -1
EARLIEST = -2


class SegmentTime(NamedTuple):
    """A position, and the time from which on a search finds it."""

    start: int
    modified_ms: int


def offsets_before(times: Sequence[tuple[int, int]], time_ms: int, count: int) -> list[int]:
    """Returns up to ``count`` of the positions, the latest first, from the last one whose time is at most ``time_ms``.

    ``times``: start and file time of each file in order, and last the end of the log with the present time, unless the
    last file is empty. ``time_ms``: :data:`LATEST` begins with the last, :data:`EARLIEST` with the first. Nothing found
    is an empty list. Raises InvalidOffsetError for a negative ``count``. Version 0 of ListOffsets has kept this rule,
    with offsets in place of positions (UnifiedLog.legacyFetchOffsetsBefore).
    """
    if count < 0:
        raise InvalidOffsetError(f"{count} offsets were asked for; ask for 0 or more")
    if time_ms == LATEST:
        found = len(times)
    elif time_ms == EARLIEST:
        found = 1
    else:
        found = next((row + 1 for row in reversed(range(len(times))) if times[row][1] <= time_ms), 0)
    return [start for start, _ in reversed(times[:found])][:count]
