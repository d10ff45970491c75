"""The segments of a partition as shapes, to scale: a byte is as wide everywhere, so sizes can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..storage import PartitionDescription, SegmentDescription, SegmentFate, instant

WIDTH = 1000.0  # of the drawing, in its own units
PLOT_PARTS = 24  # a plot's time is divided into this many parts
BAR_WIDTH_MIN = 1.0  # narrower segments are drawn together with those after them


class Bar(NamedTuple):
    """One segment, or several that are too narrow to be seen."""

    x: float
    width: float
    state: str
    title: str


class Mark(NamedTuple):
    """A line at an offset."""

    x: float
    name: str
    offset: int


class Drawing(NamedTuple):
    """The shapes of a drawing, in units of :data:`WIDTH`."""

    bars: list[Bar]
    marks: list[Mark]


def drawing_of(found: PartitionDescription, positions: Mapping[str, int]) -> Drawing:
    """Returns the segments and, at offsets, the log start, the last stable offset and ``positions`` of groups."""
    facts = found.retention.plan.facts
    scale = WIDTH / max(facts.size, 1)
    at = {"log start": facts.log_start_offset}
    if facts.last_stable_offset != facts.log_end_offset:
        at["last stable offset"] = facts.last_stable_offset
    marks = [Mark(_x_of(found, offset) * scale, name, offset) for name, offset in {**at, **positions}.items()]
    return Drawing(list(_bars(found, scale)), marks)


def rates(logs: Iterable[Sequence[SegmentDescription]], parts: int = PLOT_PARTS) -> list[float]:
    """Returns how many offsets the logs got, in total, in each of ``parts`` equal periods up to their newest record.

    The time and the offset at the end of each segment are known; between two, offsets are spread evenly. Empty
    if fewer than two segments have times.
    """
    spans = [
        (before.largest_timestamp, after.largest_timestamp, after.next_offset - before.next_offset)
        for segments in logs
        for before, after in pairwise(each for each in segments if each.largest_timestamp >= 0)
        if after.largest_timestamp > before.largest_timestamp
    ]
    if not spans:
        return []
    first, last = min(each[0] for each in spans), max(each[1] for each in spans)
    width = (last - first) / parts
    found = [0.0] * parts
    for begin, end, count in spans:
        for part in range(int((begin - first) / width), min(int((end - first) / width), parts - 1) + 1):
            inside = min(end, first + (part + 1) * width) - max(begin, first + part * width)
            found[part] += count * max(inside, 0) / (end - begin)
    return found


def line(values: Sequence[float], width: float, height: float) -> str:
    """Returns the points of a line through ``values``, evenly spaced, for SVG."""
    top, step = max(values) or 1, width / (len(values) - 1)
    return " ".join(f"{index * step:.1f},{height - value / top * height:.1f}" for index, value in enumerate(values))


def _bars(found: PartitionDescription, scale: float) -> Iterator[Bar]:
    begin, gathered = 0, list[SegmentFate]()
    fates = found.retention.plan.fates
    for number, fate in enumerate(fates):
        gathered.append(fate)
        size = sum(each.segment.size for each in gathered)
        following = found.state_of(fates[number + 1]) if number + 1 < len(fates) else None
        if size and (size * scale >= BAR_WIDTH_MIN or following != found.state_of(fate)):
            yield Bar(begin * scale, size * scale, found.state_of(fate), _title(gathered, found.state_of(fate)))
            begin, gathered = begin + size, []


def _title(fates: list[SegmentFate], state: str) -> str:
    first, last = fates[0].segment, fates[-1].segment
    many = "" if len(fates) == 1 else f"{len(fates):,} segments, "
    size = sum(each.segment.size for each in fates)
    newest = max(each.segment.largest_timestamp_ms for each in fates)
    at = "" if newest < 0 else f", newest record {instant(newest)}"
    return f"{many}offsets {first.base_offset:,} to {last.next_offset - 1:,}, {size:,} bytes, {state}{at}"


def _x_of(found: PartitionDescription, offset: int) -> float:
    """Returns the byte at which an offset is, with the offsets of a segment spread evenly."""
    begin = 0
    for fate in found.retention.plan.fates:
        segment = fate.segment
        if offset < segment.next_offset:
            inside = max(offset - segment.base_offset, 0) / (segment.next_offset - segment.base_offset)
            return begin + segment.size * inside
        begin += segment.size
    return float(begin)
