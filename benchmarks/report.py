"""Presents the results: a table on the terminal, and ``benchmarks/README.md`` with its plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.comparison import Comparison, Ratio, Series
from benchmarks.doors import DOORS
from benchmarks.limits import FLOOR, SYNC, limit_s
from benchmarks.plots import draw
from benchmarks.results import PartResult
from benchmarks.timing import Timing

README = Path(__file__).with_name("README.md")
COLUMNS = ("operation", "compared with", "result", "required", "goal", "", "ours", "theirs", "limit")
GROWTH_COLUMNS = ("cost", "figures", "by", "slope")
RATIO_TEXTS = {Ratio.FASTER: "{:.2f}", Ratio.SLOWER: "{:.2f}", Ratio.EXTRA_MS: "{:.0f} ms"}
SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
    "requests": ((1.0, "requests"),),
    "dollars": ((1.0, "$"),),
}

_HEAD = """\
# Benchmarks

These benchmarks compare this project with its alternatives, on the same rows and in the same run. After
a round to warm up, the programs run in turn (A B A B …). Each cell has the median of the counted rounds,
with the fastest and the slowest round in brackets. Compare the ratios rather than the times, which
depend on the machine described below. Unless stated otherwise: 2,000,000 rows with 16-byte keys and
100-byte values, 4 partitions, Spark `local[2]`. Where the alternative is tuned, and for streaming
writes, our side is tuned too (docs/tuning.md); otherwise our side has its defaults.
Object stores run on the machine of the benchmarks and share its cores; versitygw keeps files, and is built
by Go once.
Over TLS and with logins, both servers have the same key and listeners of the same kinds, and the tools run
in one JVM that stays warm. In the rows without, each run of a tool starts a JVM: do not compare the two.

```
make bench                                   run everything and write this page; some 90 minutes
make bench BENCH_ARGS="reading compaction"   run these parts only; other rows keep their results
make bench BENCH_ARGS="scale"                run the parts whose names begin with scale_
```

*Result* is theirs / ours if *required* has `≥`, ours / theirs if it has `≤`, and ours - theirs if it has
`+ ≤`; *goal* is a stricter target. A *floor* is what Spark itself takes to pass the same rows to or from
Python, without a log. *Limit* is the least time that our side could take on this machine: the checksums,
copies, compression, ciphers and syncs that the operation needs, at the speeds measured in the same run
(listed at the end), or a floor. *Others* are the cores that other programs used while a part ran: with
more than a quarter of a core, a part is run again. Parts without it were measured before this was known.
"""

_GROWTH_HEAD = """\
## How cost grows

*Slope* is the power of the size with which the cost grows between the two largest sizes: 0 for a cost that does not
grow, 1 for one that grows as the size does.
"""


def amount_text(amount: float, unit: str) -> str:
    """The amount with three digits: 1.49 s, 13.6 ms, 232 MB."""
    scales = SCALES[unit]
    factor, name = next((scale for scale in scales if abs(amount) >= scale[0]), scales[-1])
    value = amount / factor
    return f"{value:.{max(0, 2 - (abs(value) >= 10) - (abs(value) >= 100))}f} {name}"


def tables(title: str, result: PartResult) -> list[Table]:
    """The rows and the series of a part, for the terminal."""
    compared = [_terminal_table(title, result)] if result.comparisons else []
    return [*compared, *([_terminal_growth(title, result)] if result.series else [])]


def _terminal_table(title: str, result: PartResult) -> Table:
    table = Table(*COLUMNS, title=title)
    for row in _rows(result):
        table.add_row(*row)
    return table


def _terminal_growth(title: str, result: PartResult) -> Table:
    """The figures of each size, for the terminal."""
    table = Table(*GROWTH_COLUMNS, title=title)
    for row in _growth_rows(result.series):
        table.add_row(*row)
    return table


def write_readme(results: Mapping[str, PartResult], path: Path = README) -> None:
    """Write the page and, beside it, a plot of each series of growing size."""
    sections = [_HEAD, *_doors(results)]
    sections += _growth(results.values(), path.parent)
    sections += ["## Runs and machine\n", _runs(results), *_machines(results.values())]
    path.write_text("\n".join(sections), encoding="utf-8")


def _doors(results: Mapping[str, PartResult]) -> Iterator[str]:
    """A table of each door that has rows."""
    for door, parts in DOORS.items():
        rows = [row for part in parts if part in results for row in _rows(results[part])]
        if rows:
            yield f"## {door}\n\n{_markdown(COLUMNS, rows)}"


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
    pictures = (f"![{name}]({file.name})\n" for name, file in plots.items())
    return [f"{_GROWTH_HEAD}\n{_markdown(GROWTH_COLUMNS, _growth_rows(lines))}", *pictures]


def _growth_rows(lines: Iterable[Series]) -> Iterator[tuple[str, ...]]:
    for line in lines:
        figures = (f"{amount_text(timing.median, line.unit)} at {size:,.0f}" for size, timing in line.points)
        slope = "" if line.slope is None else f"{line.slope:.2f}"
        yield f"{line.plot}: {line.line}", ", ".join(figures), line.size_unit, slope


def _runs(results: Mapping[str, PartResult]) -> str:
    rows = (
        (
            name,
            result.measured_at,
            result.versions["spark-commitlog"],
            f"{result.rounds}" + ("" if result.scale == 1 else f", sizes x {result.scale}"),
            f"{result.took_s:.0f} s",
            "" if result.others_cores is None else f"{result.others_cores:.2f}",
        )
        for name, result in results.items()
    )
    return _markdown(("part", "measured at (UTC)", "commit", "rounds", "duration", "others"), rows)


def _machines(results: Iterable[PartResult]) -> list[str]:
    """Tables of the machine, versions and speeds of the newest run that measured them."""
    newest = max(results, key=lambda result: (bool(result.limits), result.measured_at))
    versions = {name: version for name, version in newest.versions.items() if name != "spark-commitlog"}
    speeds = ((name, _speed(name, each)) for name, each in newest.limits.items() if name != FLOOR)
    return [
        _markdown(("machine", ""), newest.machine.items()),
        _markdown(("version", ""), versions.items()),
        "Speeds of one core. Codecs ran on batches of 256 KiB of the words in the values; bytes are uncompressed:\n",
        _markdown(("operation", "speed"), speeds),
    ]


def _speed(name: str, seconds: float) -> str:
    return amount_text(seconds, "s") if name == SYNC else f"{1e-9 / seconds:.2f} GB/s"


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
