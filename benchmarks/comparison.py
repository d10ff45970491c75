"""What a part of the benchmarks takes and yields: one comparison, one row of the table.

A part is a module with ``measure(setting: Setting) -> Iterable[Comparison]``; ``python -m benchmarks PART ...`` runs it
in a process of its own and keeps its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import Timing


class Setting(NamedTuple):
    """Where and how large a part is measured."""

    directory: Path
    """Empty; what is left in it is removed after the part."""

    rounds: int = 5
    """That count, after one that warms up."""

    scale: float = 1.0
    """Of all sizes; below 1 the figures mean nothing, but all is tried."""

    def sized(self, count: int) -> int:
        """``count`` rows, records or bytes at this scale; at least one."""
        return max(1, int(count * self.scale))


class Ratio(StrEnum):
    """How the two are set against each other, and on which side of what is asked the figure has to lie."""

    FASTER = "≥"
    """Theirs / ours: how many times as fast ours is."""

    SLOWER = "≤"
    """Ours / theirs: how many times as long, or as large, as a floor ours is."""

    EXTRA_MS = "+ ≤"
    """Ours - theirs, in milliseconds."""


@dataclass(frozen=True)
class Comparison:
    """One row: an operation of ours beside a peer's, or beside a floor."""

    operation: str
    against: str
    ours: Timing
    theirs: Timing
    asked: float | None = None
    aim: float | None = None
    """What would be good, where it is more than what is asked."""

    ratio: Ratio = Ratio.FASTER
    unit: str = "s"
    """Of ``ours`` and ``theirs``: ``s`` or ``bytes``."""

    work: Mapping[str, float] = field(default_factory=dict)
    """What ours cannot do without: bytes, calls or rows by the names of :mod:`benchmarks.limits`, on one core."""

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
    """What grows: the plot's name, and that of its file."""

    line: str
    points: tuple[Point, ...]
    size_unit: str
    power: int = 1
    """Of the size, that the cost would grow with if it were straight."""

    unit: str = "s"
