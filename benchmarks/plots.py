"""Plots of how cost grows: both axes are logarithmic; a dotted line shows ideal growth through the largest size."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.comparison import Series

mpl.rcParams["svg.fonttype"] = "none"  # text stays text, which keeps the files small
mpl.rcParams["svg.hashsalt"] = "spark-commitlog"  # the same figures produce the same file


def draw(series: Iterable[Series], directory: Path) -> dict[str, Path]:
    """Draw a file in ``directory`` for each plot and size unit of the series. Returns the files by title."""
    plot = attrgetter("plot", "size_unit")
    return {
        f"{title}, by {size_unit}": _draw(title, [*lines], directory / _file_name(title, size_unit))
        for (title, size_unit), lines in groupby(sorted(series, key=plot), plot)
    }


def _file_name(title: str, size_unit: str) -> str:
    return f"growth-{re.sub('[^a-z0-9]+', '-', f'{title} by {size_unit}'.lower())}.svg"


def _draw(name: str, lines: list[Series], file: Path) -> Path:
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for line in lines:
        _draw_line(axes, line)
    axes.set(xscale="log", yscale="log", xlabel=lines[0].size_unit, ylabel=lines[0].unit, title=name)
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(file, metadata={"Date": None})
    return file


def _draw_line(axes: Axes, line: Series) -> None:
    sizes = [point.size for point in line.points]
    timings = [point.timing for point in line.points]
    medians = [timing.median for timing in timings]
    spread = [[timing.median - timing.fastest for timing in timings], [each.slowest - each.median for each in timings]]
    drawn = axes.errorbar(sizes, medians, yerr=spread, marker="o", markersize=3, capsize=2, label=line.line)
    straight = [medians[-1] * (size / sizes[-1]) ** line.power for size in sizes]
    axes.plot(sizes, straight, linestyle=":", linewidth=1, color=drawn[0].get_color())
