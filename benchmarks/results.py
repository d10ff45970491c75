"""Results, stored in ``benchmarks/results.json``; measuring a part again replaces its previous result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison, Point, Ratio, Series
from benchmarks.timing import Timing

RESULTS = Path(__file__).with_name("results.json")
QUIET_CORES = 0.25  # used by other programs at most, so that two rounds are alike


@dataclass(frozen=True)
class PartResult:
    """The latest result of a part."""

    measured_at: str
    """UTC, to the minute."""

    rounds: int
    scale: float
    took_s: float
    machine: dict[str, str]
    versions: dict[str, str]
    limits: dict[str, float]
    comparisons: list[Comparison]
    series: list[Series]
    others_cores: float | None = None
    """Cores that other programs used, on average; None if it was not measured."""

    @property
    def is_quiet(self) -> bool:
        return self.others_cores is not None and self.others_cores <= QUIET_CORES


def load_results(path: Path = RESULTS) -> dict[str, PartResult]:
    if not path.exists():
        return {}
    return {name: _part(told) for name, told in json.loads(path.read_text(encoding="utf-8")).items()}


def save_results(results: Mapping[str, PartResult], path: Path = RESULTS) -> None:
    told = {name: asdict(result) for name, result in results.items()}
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _part(told: dict[str, Any]) -> PartResult:
    comparisons = [_comparison(each) for each in told.pop("comparisons")]
    return PartResult(comparisons=comparisons, series=[_series(each) for each in told.pop("series")], **told)


def _comparison(told: dict[str, Any]) -> Comparison:
    timings = {name: Timing(*told.pop(name)) for name in ("ours", "theirs")}
    return Comparison(ratio=Ratio(told.pop("ratio")), **timings, **told)


def _series(told: dict[str, Any]) -> Series:
    points = tuple(Point(size, Timing(*timing)) for size, timing in told.pop("points"))
    return Series(points=points, **told)
