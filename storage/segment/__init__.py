"""One segment: its ``.log``, its indexes, and the protocols for replacing segments.

:class:`SegmentReader` reads a segment, :class:`LogSegment` also writes it and knows when it is full (``should_roll``),
and :class:`LogSegments` has all segments of a log. ``swap`` replaces segments by others, and ``split`` divides a
segment whose offsets are too far apart.
"""
