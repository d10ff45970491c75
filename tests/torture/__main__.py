"""Kill the ingest job again and again while it writes the flights of 2013, and look that nothing is lost or doubled.

The input is 336,776 rows in files of a thousand, a micro-batch each. Killed are the driver with its JVM, single Python
workers, and all of them. What was asked for and what happened is printed; the exit code is 1 where a row is missing or
there twice.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

from pyspark_commitlog.pipeline import flights
from tests.torture.ingest import Work, write_input
from tests.torture.kills import torture


def main() -> None:
    options = _arguments()
    ends_s = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="torture-") as directory:
        work = Work(Path(directory))
        months = flights.split_by_month(work.path / "months")
        lines = (line for month in months for line in islice(month.read_text().splitlines(), 1, None))
        write_input(work.path / "input", islice(lines, options.rows), options.rows_a_file)
        print(f"seed {options.seed}, {options.kills} kills, at most {options.minutes} minutes", flush=True)
        tally = torture(work, options.kills, options.seed, tell=lambda text: print(text, flush=True), ends_s=ends_s)
    print(f"{tally.total} kills {tally.kills}, {tally.runs} runs, {tally.failed} of them failed after a kill, "
          f"{tally.rounds} rounds, {tally.rows:,} rows: each once, none missing")  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="how often (200)")
    parser.add_argument("--minutes", type=float, default=120, help="stop killing then (120)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random choices (the time)")
    parser.add_argument("--rows", type=int, default=None, help="rows of input (all)")
    parser.add_argument("--rows-a-file", type=int, default=1000, help="rows a micro-batch (1,000)")
    parser.add_argument("--directory", type=Path, help="where to work (the system's temporary directory)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
