"""LogSegments: the segments of a log by base offset (Kafka's LogSegments)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter

from .writer import LogSegment

_BASE_OFFSET = attrgetter("base_offset")


class LogSegments:
    """Segments in the order of their base offsets. Only the last one, the active segment, is appended to."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments = sorted(segments, key=_BASE_OFFSET)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(tuple(self._segments))

    @property
    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self._segments]

    @property
    def first(self) -> LogSegment:
        return self._segments[0]

    @property
    def active(self) -> LogSegment:
        return self._segments[-1]

    @property
    def size(self) -> int:
        """Bytes of the ``.log`` files of all segments."""
        return sum(segment.size for segment in self._segments)

    def with_next_offsets(self, log_end_offset: int) -> list[tuple[LogSegment, int]]:
        """Each segment with the base offset of the next one; for the last segment, with the log end."""
        return list(zip(self._segments, [*self.base_offsets[1:], log_end_offset], strict=False))  # may be empty

    def floor(self, offset: int) -> LogSegment | None:
        """The segment with the greatest base offset not above ``offset``."""
        index = bisect_right(self._segments, offset, key=_BASE_OFFSET)
        return self._segments[index - 1] if index else None

    def higher(self, offset: int) -> LogSegment | None:
        """The segment with the smallest base offset above ``offset``."""
        index = bisect_right(self._segments, offset, key=_BASE_OFFSET)
        return self._segments[index] if index < len(self._segments) else None

    def reaching(self, offset: int) -> list[LogSegment]:
        """The segments from the one that covers ``offset`` on; all segments if ``offset`` is below the first one."""
        index = bisect_right(self._segments, offset, key=_BASE_OFFSET)
        return self._segments[max(index - 1, 0) :]

    def below(self, offset: int) -> list[LogSegment]:
        """The segments that begin below ``offset``."""
        return self._segments[: bisect_left(self._segments, offset, key=_BASE_OFFSET)]

    def add(self, segment: LogSegment) -> None:
        """Add a segment; its base offset must be new."""
        index = bisect_left(self._segments, segment.base_offset, key=_BASE_OFFSET)
        self._segments.insert(index, segment)

    def remove(self, segment: LogSegment) -> None:
        """Forget a segment; its files stay."""
        self._segments.remove(segment)

    def close(self) -> None:
        """Close the open files of all segments; the next use of a segment opens them again."""
        for segment in self._segments:
            segment.close()
