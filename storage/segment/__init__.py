"""One segment: its ``.log``, its indexes, and the protocols by which segments replace one another.

:class:`SegmentReader` reads a segment, :class:`LogSegment` also writes it, and :class:`LogSegments` has all segments of
a log. ``swap`` replaces segments by others, and ``split`` divides a segment whose offsets are too far apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .collection import LogSegments as LogSegments
    from .joining import (
        NEVER_COMPACTED as NEVER_COMPACTED,
        Holes as Holes,
        always as always,
        find_damage as find_damage,
        first_offset as first_offset,
        hides_its_first as hides_its_first,
        leave_gaps as leave_gaps,
        size_at_start as size_at_start,
    )
    from .reader import (
        FoundBatch as FoundBatch,
        OffsetAndTimestamp as OffsetAndTimestamp,
        SegmentReader as SegmentReader,
    )
    from .resync import (
        SEARCHED_BATCH_BYTES_MAX as SEARCHED_BATCH_BYTES_MAX,
        Search as Search,
        length_at as length_at,
        one_sound_batch as one_sound_batch,
    )
    from .split import split_segment as split_segment
    from .swap import (
        SwapPlan as SwapPlan,
        carry_out as carry_out,
        is_waiting as is_waiting,
        swap_in as swap_in,
        swap_plan as swap_plan,
    )
    from .time_index import (
        NO_RECORD as NO_RECORD,
        RecordTimes as RecordTimes,
        TimestampOffset as TimestampOffset,
        running_largest as running_largest,
        times_of_records as times_of_records,
    )
    from .walk import (
        FILE_KINDS as FILE_KINDS,
        PROBE_BYTES as PROBE_BYTES,
        WINDOW_BYTES as WINDOW_BYTES,
        LogContext as LogContext,
        Rows as Rows,
        Window as Window,
    )
    from .writer import LogSegment as LogSegment, PlacedBatch as PlacedBatch, mark_deleted as mark_deleted
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "collection": ["LogSegments"],
            "joining": [
                "Holes",
                "NEVER_COMPACTED",
                "always",
                "find_damage",
                "first_offset",
                "hides_its_first",
                "leave_gaps",
                "size_at_start",
            ],
            "reader": ["OffsetAndTimestamp", "FoundBatch", "SegmentReader"],
            "resync": ["SEARCHED_BATCH_BYTES_MAX", "Search", "length_at", "one_sound_batch"],
            "split": ["split_segment"],
            "swap": ["SwapPlan", "carry_out", "is_waiting", "swap_in", "swap_plan"],
            "time_index": ["NO_RECORD", "RecordTimes", "TimestampOffset", "running_largest", "times_of_records"],
            "walk": ["FILE_KINDS", "LogContext", "PROBE_BYTES", "Rows", "WINDOW_BYTES", "Window"],
            "writer": ["LogSegment", "PlacedBatch", "mark_deleted"],
        },
    )
