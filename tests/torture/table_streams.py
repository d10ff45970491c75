"""Restart a stream over a table and its log at random points, while the topic, its table and both ends change.

The steps are those of ``table_schedules`` for tables of mode append. Between them runs a stream with few offsets per
micro-batch, which is killed before or after it has stored what a micro-batch has. At the end each committed record is
there once, in the order of offsets in its partition, and a repeated micro-batch had the same rows.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.delta.table_topics import raw, run as run_query
from tests.torture.suite import Run, Suite
from tests.torture.table_schedules import Schedule, torture_session

RESTARTS = 10  # of the stream in a schedule
STEPS_BETWEEN = 3
COLUMNS = ["_partition", "_offset", "_key", "carrier", "delay"]
Row = tuple[object, ...]


class Restarts(Schedule):
    """A schedule with a stream over the table and the log."""

    def __init__(self, spark: SparkSession, folder: Path, chance: random.Random) -> None:
        super().__init__(spark, folder, chance, "append")
        self.batches: dict[int, list[Row]] = {}
        self.repeated = 0

    def run(self, restarts: int = RESTARTS) -> None:
        for _ in range(restarts):
            for _ in range(self.chance.randint(0, STEPS_BETWEEN)):
                step = self.chance.choice(self._steps())
                self.told.append(step.__name__)
                step()
            self.stream(lives=self.chance.randint(0, 3))
        self.stream(lives=None)
        self.check()

    def stream(self, lives: int | None) -> None:
        """Runs the stream to the end of the log, or until it has ``lives`` micro-batches more and is killed."""
        is_stored, most = self.chance.random() < 0.5, self.chance.choice(["2", "3", "7", "1000"])
        others: list[int] = []
        self.told.append(f"stream of {most}, lives {lives}, stores {is_stored}")

        def store(frame: DataFrame, batch_id: int) -> None:
            nonlocal lives
            dies = lives == 0
            rows = [raw(row) for row in frame.select(*COLUMNS).collect()] if not dies or is_stored else None
            if rows is not None and batch_id in self.batches:
                self.repeated += 1
                others.extend([batch_id] if self.batches[batch_id] != rows else [])
            if rows is not None:
                self.batches[batch_id] = rows
            if dies:
                raise OSError("killed")
            lives = None if lives is None else lives - 1

        frame = self.topic.over_both(maxOffsetsPerTrigger=most)
        with suppress(*([] if lives is None else [PySparkException])):
            run_query(frame, store, self.topic.folder / "checkpoint-stream")
        assert not others, f"micro-batches {others} had other rows when they were repeated, after {self.told}"

    def check(self) -> None:
        found = [row for batch in sorted(self.batches) for row in self.batches[batch]]
        expected = self._expected()(COLUMNS)
        missing, surplus = expected - Counter(found), Counter(found) - expected
        assert (missing, surplus) == (Counter(), Counter()), f"after {self.told}: lacks {missing}, too many {surplus}"
        for partition in {row[0] for row in found}:
            offsets = [row[1] for row in found if row[0] == partition]
            assert offsets == sorted(offsets), f"partition {partition} after {self.told}: {offsets}"  # type: ignore[type-var]


def run(run: Run) -> None:
    """Counts restarts."""
    with torture_session("table streams") as spark:
        for case in run.cases():
            with run.watching(case):
                restarts = Restarts(spark, run.directory / str(case.number), case.chance)
                restarts.run()
                run.note("repeated micro-batches", restarts.repeated)
            run.passed(RESTARTS)


SUITE = Suite("restarts", 50, run)
