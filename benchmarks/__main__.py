"""Run all comparisons, or the given parts: ``python -m benchmarks [PART ...]``; ``make bench`` runs all of them.

The parts run one after the other, each in its own process. The rows of a part go to the terminal, to ``results.json``,
and, with the rows of the other parts, to ``README.md``. The exit code is 1 if a part could not be measured.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks.report import terminal_table, write_readme
from benchmarks.results import PartResult, load_results, save_results
from benchmarks.running import save_part

PARTS = (
    "appending",
    "writing",
    "reading",
    "tables",
    "microbatch",
    "bucket_writing",
    "bucket_reading",
    "bucket_opening",
    "bucket_tables",
    "tier_reading",
    "gateway_writing",
    "gateway_reading",
    "gateway_coordinating",
    "gateway_idle",
    "gateway_quotas",
    "clients",
    "codec",
    "compaction",
    "erasing",
    "backups",
    "recovery",
    "dump",
    "verify",
    "finding",
    "browse",
    "opening",
    "times",
    "memory",
    "growth",
)

WIDTH = 180  # of the table, at least: there may be no terminal to ask


def main() -> int:
    options = _arguments()
    console = Console(width=max(WIDTH, Console().width))
    failed = []
    for part in options.parts or PARTS:
        console.rule(part)
        result = _in_a_process(part, options)
        if result is None:
            failed.append(part)
            continue
        console.print(terminal_table(part, result))
        if not options.dry:
            _keep(part, result)
    if failed:
        console.print(f"not measured: {', '.join(failed)}")
    return 1 if failed else 0


def _in_a_process(part: str, options: argparse.Namespace) -> PartResult | None:
    """The result of a part, or None if it failed; its process has printed why."""
    with tempfile.TemporaryDirectory(prefix="benchmark-result-") as directory:
        file = Path(directory) / "result.json"
        arguments = (file, part, options.directory, options.rounds, options.scale)
        process = multiprocessing.get_context("spawn").Process(target=save_part, args=arguments)
        process.start()
        process.join()
        return load_results(file).get(part)


def _keep(part: str, result: PartResult) -> None:
    """Save a result. Called after each part, so that a later part may fail."""
    results = {**load_results(), part: result}
    ordered = {name: results[name] for name in PARTS if name in results}
    save_results(ordered)
    write_readme(ordered)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[[], *PARTS], help=f"{', '.join(PARTS)} (all)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to count (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for all sizes; small for a trial (1.0)")
    parser.add_argument("--directory", type=Path, help="directory for temporary logs (the system's)")
    parser.add_argument("--dry", action="store_true", help="only print; leave results.json and README.md unchanged")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
