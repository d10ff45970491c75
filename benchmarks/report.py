"""The results as people read them: a table on the terminal, and ``benchmarks/README.md`` with its plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.comparison import Comparison, Ratio
from benchmarks.limits import FLOOR, SYNC, limit_s
from benchmarks.plots import draw
from benchmarks.results import PartResult
from benchmarks.timing import Timing

README = Path(__file__).with_name("README.md")
COLUMNS = ("operation", "against", "reached", "asked", "aim", "", "ours", "theirs", "limit")
RATIO_TEXTS = {Ratio.FASTER: "{:.2f}", Ratio.SLOWER: "{:.2f}", Ratio.EXTRA_MS: "{:.0f} ms"}
SCALES = {"s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")), "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))}

_HEAD = """\
# Benchmarks

This project beside what one would take instead, on the same rows, in the same run: in turn (A B A B …), warm, the
median of the rounds that count and in brackets the fastest and the slowest. Ratios count; seconds belong to the machine
below. Unless said otherwise: 2,000,000 rows of 16-byte keys and 100-byte values, 4 partitions, Spark `local[2]`. What
is tuned, and writes in streams, is set beside ours tuned (docs/tuning.md), all else beside ours as it comes.

```
make bench                                   everything, and this page; half an hour to one and a half
make bench BENCH_ARGS="reading compaction"   these parts only; the other rows stay as they were
```

`≥`: theirs / ours. `≤`: ours / theirs. `+ ≤`: ours - theirs. *Limit* is what ours cannot do without, at the speeds
that this machine had in the same run (see the end): checksums, copies, codec, syncs, a floor measured beside it.
"""


def amount_text(amount: float, unit: str) -> str:
    """Three digits: 1.49 s, 13.6 ms, 232 MB."""
    scales = SCALES[unit]
    factor, name = next((scale for scale in scales if abs(amount) >= scale[0]), scales[-1])
    value = amount / factor
    return f"{value:.{max(0, 2 - (abs(value) >= 10) - (abs(value) >= 100))}f} {name}"


def terminal_table(title: str, result: PartResult) -> Table:
    table = Table(*COLUMNS, title=title)
    for row in _rows(result):
        table.add_row(*row)
    return table


def write_readme(results: Mapping[str, PartResult], path: Path = README) -> None:
    """The page and, beside it, a plot of each thing that grows."""
    sections = [_HEAD, _markdown(COLUMNS, (row for result in results.values() for row in _rows(result)))]
    sections += _growth(results.values(), path.parent)
    sections += ["## Measured on\n", _runs(results), *_machines(results.values())]
    path.write_text("\n".join(sections), encoding="utf-8")


def _rows(result: PartResult) -> Iterator[tuple[str, ...]]:
    for comparison in result.comparisons:
        yield _row(comparison, limit_s(comparison.work, result.limits))


def _row(comparison: Comparison, limit: float | None) -> tuple[str, ...]:
    sign, told = comparison.ratio.value, RATIO_TEXTS[comparison.ratio].format
    asked, aim = comparison.asked, comparison.aim
    return (
        comparison.operation,
        comparison.against,
        told(comparison.reached),
        "" if asked is None else f"{sign} {told(asked)}",
        "" if aim is None else told(aim),
        "" if asked is None else "✗✓"[comparison.is_reached],
        _spread(comparison.ours, comparison.unit),
        _spread(comparison.theirs, comparison.unit),
        "" if limit is None else amount_text(limit, comparison.unit),
    )


def _spread(timing: Timing, unit: str) -> str:
    median, fastest, slowest = (amount_text(each, unit) for each in timing)
    return f"{median} ({fastest} to {slowest})"


def _growth(results: Iterable[PartResult], directory: Path) -> list[str]:
    lines = [line for result in results for line in result.series]
    plots = draw(lines, directory)
    if not plots:
        return []
    return ["## How cost grows\n", *(f"![{name}]({file.name})\n" for name, file in plots.items())]


def _runs(results: Mapping[str, PartResult]) -> str:
    rows = (
        (
            name,
            result.measured_at,
            result.versions["spark-commitlog"],
            f"{result.rounds}" + ("" if result.scale == 1 else f", sizes x {result.scale}"),
            f"{result.took_s:.0f} s",
        )
        for name, result in results.items()
    )
    return _markdown(("part", "at (UTC)", "commit", "rounds", "took"), rows)


def _machines(results: Iterable[PartResult]) -> list[str]:
    """The newest run's machine, versions and speeds."""
    newest = max(results, key=lambda result: result.measured_at)
    versions = {name: version for name, version in newest.versions.items() if name != "spark-commitlog"}
    speeds = ((name, _speed(name, each)) for name, each in newest.limits.items() if name != FLOOR)
    return [
        _markdown(("machine", ""), newest.machine.items()),
        _markdown(("version", ""), versions.items()),
        "Speeds of one core; codecs on batches of 256 KiB of the values' words, bytes counted before compression:\n",
        _markdown(("work", "speed"), speeds),
    ]


def _speed(name: str, seconds: float) -> str:
    return amount_text(seconds, "s") if name == SYNC else f"{1e-9 / seconds:.2f} GB/s"


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
