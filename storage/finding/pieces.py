"""Divides a log into pieces that are searched one by one, from its start or from its end."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import numpy as np

from ..errors import CorruptIndexError
from ..reading.reader import LogReader
from ..segment.writer import LogSegment

PIECE_BYTES = 8 * 1024 * 1024  # of a segment read from its end; the matches of a piece are in memory


def by_segment(reader: LogReader, start: int, end: int) -> dict[int, range]:
    """Returns the offsets from ``start`` up to ``end`` that each segment covers, ascending; opens no file.

    The key of each range is the base offset of its segment. Each range begins where the one before ends, so that
    offsets in no segment belong to one too.
    """
    return {
        segment.base_offset: offsets
        for segment, next_offset in reader.segments.with_next_offsets(reader.log_end_offset)
        if (offsets := range(max(start, segment.base_offset), min(end, next_offset)))
    }


def within_segment(segment: LogSegment, offsets: range) -> list[range]:
    """Returns the pieces of a segment's ``offsets``, ascending; all but the last have at least PIECE_BYTES.

    They begin after batches that the offset index has. Without a sound index there is one piece.
    """
    cuts = list[int]()
    with suppress(CorruptIndexError):
        index, position = segment.offset_index, segment.position_before(offsets.start)
        while True:
            row = int(np.searchsorted(index.positions, position + PIECE_BYTES))
            if row >= len(index.positions):
                break
            position = int(index.positions[row])
            cuts.append(int(index.offsets[row]) + 1)
    inside = [cut for cut in cuts if offsets.start < cut < offsets.stop]
    bounds = [offsets.start, *sorted({*inside}), offsets.stop]
    return [range(first, behind) for first, behind in pairwise(bounds)]
