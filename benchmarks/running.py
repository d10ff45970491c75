"""Run one part of the benchmarks and return its result, in the process of that part."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from benchmarks.comparison import Comparison, Series, Setting
from benchmarks.limits import measure_limits
from benchmarks.machine import describe_machine, describe_versions
from benchmarks.results import PartResult, save_results


def save_part(file: Path, part: str, directory: Path | None, rounds: int, scale: float) -> None:
    """Run a part and save its result, without others, in ``file``."""
    save_results({part: measure_part(part, directory, rounds, scale)}, file)


def measure_part(part: str, directory: Path | None, rounds: int, scale: float) -> PartResult:
    """Run a part in its own directory."""
    measured_at, began = datetime.now(UTC), time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"benchmark-{part}-", dir=directory) as own:
        limits = measure_limits(Path(own))
        found = [*import_module(f"benchmarks.{part}").measure(Setting(Path(own), rounds, scale))]
    return PartResult(
        measured_at=f"{measured_at:%Y-%m-%d %H:%M}",
        rounds=rounds,
        scale=scale,
        took_s=time.monotonic() - began,
        machine=describe_machine(),
        versions=describe_versions(),
        limits=limits,
        comparisons=[each for each in found if isinstance(each, Comparison)],
        series=[each for each in found if isinstance(each, Series)],
    )
