"""Kill the ingest job again and again while it writes the flights of 2013, and look that nothing is lost or doubled.

Killed are the driver with its JVM, single Python workers, and all of them; the job is started again, and what it wrote
compared with its input. The suite's input is 336,776 rows in files of a thousand, a micro-batch each. Kills come at
random times, so the same seed chooses the same kinds of kills, not the same instants.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice

from pyspark_commitlog.pipeline.demo import flights
from tests.torture.kills.ingest import Ingest, Job, Work, input_rows, kill, topic_rows, write_input
from tests.torture.suite import Run, Suite

# How a run's tasks are retried: by Spark, whose second attempts refuse to write, or by the sink alone.
MASTERS = ("local[2,3]", "local[2]")
START_S = 300  # until the first micro-batch; machines may be busy
ROWS_A_FILE = 1000
PAUSE_S_MAX = 1.5  # between a line of progress and the kill that follows: about two micro-batches


@dataclass
class Tally:
    """What happened."""

    kills: dict[str, int] = field(default_factory=lambda: {"driver": 0, "worker": 0, "workers": 0})
    runs: int = 0
    failed: int = 0  # queries that ended with an error after workers were killed
    rounds: int = 0  # times that all of the input came in
    rows: int = 0

    @property
    def total(self) -> int:
        return sum(self.kills.values())


def torture(
    work: Work, kills: int, seed: int, *, tell: Callable[[str], None] = print, ends_s: float = float("inf")
) -> Tally:
    """Kill ``kills`` times, or until ``time.monotonic()`` is ``ends_s``, then let the query end, and compare.

    Raises AssertionError where the topic does not hold the input, each row once, or a query failed untouched.
    """
    chance, tally = random.Random(seed), Tally()
    expected = input_rows(work.path / "input")
    work = work.prepare()
    while True:
        is_last = tally.total >= kills or time.monotonic() > ends_s
        run = Ingest(work, chance.choice(MASTERS))
        tally.runs += 1
        before = tally.total
        if not is_last:
            harass(run, chance, tally, kills)
        if run.finished:
            _compare(work, expected, tally, tell)
            if tally.total >= kills or is_last:
                return tally
            work = replace(work, round=work.round + 1).prepare()
        elif run.process.returncode > 0:
            assert tally.total > before, f"a query failed that nobody touched:\n{run.errors.read_text()[-8000:]}"
            tally.failed += 1
        tell(f"{tally.total} kills, {tally.runs} runs, {tally.rounds} rounds: {tally.kills}")


def harass(run: Job, chance: random.Random, tally: Tally, kills: int) -> None:
    """Kill workers a few times, and the driver at last; returns when it is killed, or the query has ended."""
    if chance.random() < 0.1:
        time.sleep(chance.uniform(0, 5))  # in its start, or in what it does about the kill before
        run.kill_driver()
        tally.kills["driver"] += 1
        return
    while tally.total < kills and run.next_line(START_S):
        time.sleep(chance.uniform(0, PAUSE_S_MAX))
        if run.process.poll() is not None:
            return
        how = chance.choice(("driver", "worker", "workers"))
        if how == "driver":
            run.kill_driver()
            tally.kills[how] += 1
            return
        workers = run.workers()
        if how == "worker":
            workers = workers[-1:]
        tally.kills[how] += kill(workers) > 0


def _compare(work: Work, expected: object, tally: Tally, tell: Callable[[str], None]) -> None:
    found = topic_rows(work.log)
    assert found == expected, _difference(found, expected)
    tally.rounds += 1
    tally.rows += found.total()
    tell(f"round {work.round}: the topic holds the {found.total():,} rows of the input, each once")


def _difference(found: object, expected: object) -> str:
    assert isinstance(found, dict)
    assert isinstance(expected, dict)
    missing = {row: count - found.get(row, 0) for row, count in expected.items() if count > found.get(row, 0)}
    surplus = {row: count - expected.get(row, 0) for row, count in found.items() if count > expected.get(row, 0)}
    some = [*list(missing.items())[:3], *list(surplus.items())[:3]]
    return f"{sum(missing.values())} rows missing, {sum(surplus.values())} too many; some: {some}"


def run(run: Run) -> None:
    work = Work(run.directory)
    months = flights.split_by_month(work.path / "months")
    lines = (line for month in months for line in islice(month.read_text().splitlines(), 1, None))
    write_input(work.path / "input", lines, ROWS_A_FILE)
    with run.watching(run.case(run.first)):
        tally = torture(work, run.count, run.seed, tell=run.tell, ends_s=run.started_s + 60 * run.minutes)
        run.passed(tally.total)
        run.note("rounds", tally.rounds)
        run.note("rows", tally.rows)


SUITE = Suite("kills", 200, run)
