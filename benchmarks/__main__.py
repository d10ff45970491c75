"""Run all comparisons, or the given parts: ``python -m benchmarks [PART ...]``; ``make bench`` runs all of them.

The first word of several parts stands for all of them: ``scale`` for ``scale_topics`` and the others.

The parts run one after the other, each in its own process. The rows of a part go to the terminal, to ``results.json``,
and, with the rows of the other parts, to ``README.md``. A part is kept only if other programs left the machine to it;
else it runs again, up to three times. The exit code is 1 if a part failed or could not be kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.doors import PARTS
from benchmarks.machine import OthersWork
from benchmarks.report import tables, write_readme
from benchmarks.results import PartResult, load_results, save_results
from benchmarks.running import save_part

FAMILIES = sorted({part.split("_")[0] for part in PARTS} - {*PARTS})
WIDTH = 180  # of the table, at least: there may be no terminal to ask
TRIES = 3


def main() -> int:
    options = _arguments()
    console = Console(width=max(WIDTH, Console().width))
    missing = [part for part in _parts(options.parts) if not _is_measured(part, options, console)]
    if missing:
        console.print(f"not measured: {', '.join(missing)}")
    return 1 if missing else 0


def _is_measured(part: str, options: argparse.Namespace, console: Console) -> bool:
    """Measure a part, and keep its result. Returns whether that worked."""
    for _ in range(TRIES):
        console.rule(part)
        result = _in_a_process(part, options)
        if result is None:
            return False
        console.print(*tables(part, result))
        if options.dry:
            return True
        if result.is_quiet or options.busy:
            _keep(part, result)
            return True
        console.print(f"not kept: other programs used {result.others_cores:.2f} cores (--busy keeps it)")
    return False


def _in_a_process(part: str, options: argparse.Namespace) -> PartResult | None:
    """The result of a part, or None if it failed; its process has printed why."""
    others = OthersWork()
    with tempfile.TemporaryDirectory(prefix="benchmark-result-") as directory:
        file = Path(directory) / "result.json"
        arguments = (file, part, options.directory, options.rounds, options.scale)
        process = multiprocessing.get_context("spawn").Process(target=save_part, args=arguments)
        process.start()
        process.join()
        result = load_results(file).get(part)
        return result and replace(result, others_cores=others.cores())


def _keep(part: str, result: PartResult) -> None:
    """Save a result. Called after each part, so that a later part may fail."""
    results = {**load_results(), part: result}
    ordered = {name: results[name] for name in PARTS if name in results}
    save_results(ordered)
    write_readme(ordered)


def _parts(names: list[str]) -> list[str]:
    """The parts of the given names: a part, or the first word of several, such as ``scale``."""
    return [part for part in PARTS if not names or part in names or part.split("_")[0] in {*names} - {*PARTS}]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", choices=[[], *PARTS, *FAMILIES], help=f"{', '.join(PARTS)} (all)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds to count (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for all sizes; small for a trial (1.0)")
    parser.add_argument("--directory", type=Path, help="directory for temporary logs (the system's)")
    parser.add_argument("--busy", action="store_true", help="keep results although other programs were busy")
    parser.add_argument("--dry", action="store_true", help="only print; leave results.json and README.md unchanged")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
