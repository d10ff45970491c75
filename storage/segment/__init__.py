"""One segment: its ``.log``, its indexes, and the protocols by which segments replace one another.

:class:`SegmentReader` reads a segment, :class:`LogSegment` writes it, :class:`LogSegments` is all of a log's; ``swap``
says what a crash leaves while segments are replaced, and ``split`` divides one whose offsets do not fit.
"""
