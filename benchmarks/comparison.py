"""The types that parts of the benchmarks take and yield: a comparison is one row of the table.

A part is a module with ``measure(setting: Setting) -> Iterable[Comparison]``; ``python -m benchmarks PART ...`` runs it
in its own process and saves its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import Timing


class Setting(NamedTuple):
    """The directory, rounds and scale of a part."""

    directory: Path
    """Empty at the start; its files are removed after the part."""

    rounds: int = 5
    """Rounds to count, after one that warms up."""

    scale: float = 1.0
    """Factor for all sizes; below 1 the figures mean nothing, but every program runs."""

    def sized(self, count: int) -> int:
        """``count`` rows, records or bytes at this scale; at least one."""
        return max(1, int(count * self.scale))


class Ratio(StrEnum):
    """How two figures are compared, and whether the result must be above or below what is required."""

    FASTER = "≥"
    """Theirs / ours: how many times faster ours is."""

    SLOWER = "≤"
    """Ours / theirs: how many times longer, or larger, than a floor ours is."""

    EXTRA_MS = "+ ≤"
    """Ours - theirs, in milliseconds."""


@dataclass(frozen=True)
class Comparison:
    """One row: an operation of ours, compared with a peer's or with a floor."""

    operation: str
    against: str
    ours: Timing
    theirs: Timing
    asked: float | None = None
    aim: float | None = None
    """A goal stricter than what is required."""

    ratio: Ratio = Ratio.FASTER
    unit: str = "s"
    """The unit of ``ours`` and ``theirs``: ``s``, ``bytes``, ``requests`` or ``dollars``."""

    work: Mapping[str, float] = field(default_factory=dict)
    """The work that ours cannot avoid, on one core: bytes, calls or rows, by the names of :mod:`benchmarks.limits`."""

    @property
    def reached(self) -> float:
        ours, theirs = self.ours.median, self.theirs.median
        match self.ratio:
            case Ratio.FASTER:
                return theirs / ours
            case Ratio.SLOWER:
                return ours / theirs
            case Ratio.EXTRA_MS:
                return (ours - theirs) * 1e3

    @property
    def is_reached(self) -> bool:
        if self.asked is None:
            return True
        return self.reached >= self.asked if self.ratio is Ratio.FASTER else self.reached <= self.asked


class Point(NamedTuple):
    size: float
    timing: Timing


@dataclass(frozen=True)
class Series:
    """How a cost grows: one line of a plot."""

    plot: str
    """The name of the plot, and of its file."""

    line: str
    points: tuple[Point, ...]
    size_unit: str
    power: int = 1
    """The cost would ideally grow as the size to this power."""

    unit: str = "s"

    @property
    def slope(self) -> float | None:
        """The power of the size with which the cost grows, by the two largest sizes; None for one size."""
        if len(self.points) < 2:
            return None
        (size, timing), (larger, of_larger) = self.points[-2:]
        return math.log(of_larger.median / timing.median) / math.log(larger / size)


def series_of(plot: str, size_unit: str, found: Mapping[float, Mapping[str, Timing]], unit: str = "s") -> list[Series]:
    """The lines of a plot, from the figures of each size by line."""
    lines = dict.fromkeys(line for figures in found.values() for line in figures)
    return [
        Series(
            plot,
            line,
            tuple(Point(size, each[line]) for size, each in found.items() if line in each),
            size_unit,
            unit=unit,
        )
        for line in lines
    ]
