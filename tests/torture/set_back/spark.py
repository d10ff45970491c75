"""The histories of ``set_back`` with Spark itself, on a real file system: a text file of the input is a batch or two.

Spark's process lives through a case, so a crash is an error around the sink, after which the newest entries of the
checkpoint may lack, or have no bytes.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from pyspark_commitlog.storage import FileSystem, LocalFileSystem
from tests.pipeline.inline_query import BeforeBatch
from tests.pipeline.spark_query import CrashError, RefusedError, SparkQuery, StoppedError, quiet_session
from tests.torture.set_back import suite
from tests.torture.set_back.suite import History, Query, World
from tests.torture.suite import Run, Suite


class SparkWorld(World):
    """One query of Spark's and what befalls it."""

    steps_max = 7

    def __init__(self, chance: Random, steps: History, spark: Any, root: Path) -> None:
        self.root = str(root)
        self._spark = spark
        (root / "in").mkdir(parents=True)
        super().__init__(chance, steps)

    def make_disk(self) -> FileSystem:
        return LocalFileSystem()

    def start(self, checkpoint: str | None = None) -> SparkQuery:
        return SparkQuery(self._spark, Path(self.root, "in"), self.log_dir, checkpoint or self.checkpoint)

    def restart(self) -> None:
        self.query = self.start()

    def crash(self) -> None:
        """Before or after the sink wrote; then the newest entry of what was done, or a plan, may be torn or missing."""
        self.files += self.chance.randint(1, 2)
        before, left = self.chance.choice((True, False)), self.chance.choice(("all", "all", "no plan", "empty plan"))
        self.steps.append(f"run to file {self.files}, crash {'before' if before else 'after'} a batch, {left} is left")

        def crash(_: int) -> None:
            raise CrashError

        assert isinstance(self.query, SparkQuery)
        with suppress(CrashError):
            if before:
                self.query.run(range(self.files), before_batch=crash)
            else:
                self.query.run(range(self.files), after_batch=crash)
        if left != "all":
            self._lose_plan(empty=left == "empty plan")
            self.reasons.append("a plan is lost, or has no bytes")
        self.restart()
        self.run_and_check()

    def run_fork(self, fork: Query) -> None:
        """Runs a fork, in a second thread if it is started within a run.

        Spark stops that run first (``SparkQuery``), and waits until it has ended; so the run cannot wait for the fork.
        """
        if not self.is_running:
            super().run_fork(fork)
            return
        assert isinstance(self.query, SparkQuery)
        pool = ThreadPoolExecutor(1, "fork")
        self.query.restarted = pool.submit(super().run_fork, fork)
        pool.shutdown(wait=False)

    def run_and_check(self, before_batch: BeforeBatch = lambda _: None) -> None:
        """Runs again after a run that Spark stopped: that run may lack rows, the next one may not."""
        try:
            super().run_and_check(before_batch)
        except StoppedError:
            self.steps.append("stopped by Spark, run again")
            super().run_and_check()

    def _lose_plan(self, *, empty: bool) -> None:
        """The newest one."""
        offsets = Path(self.checkpoint, "offsets")
        newest = max((int(path.name) for path in offsets.iterdir() if path.name.isdecimal()), default=None)
        if newest is None:
            return
        (offsets / f".{newest}.crc").unlink(missing_ok=True)
        if empty:
            (offsets / str(newest)).write_bytes(b"")
        else:
            (offsets / str(newest)).unlink()


def run(run: Run) -> None:
    spark = quiet_session(run.directory / "warehouse")
    suite.REFUSALS = (*suite.REFUSALS, RefusedError)
    try:
        for case in run.cases():
            steps, root = History(), run.directory / str(case.number)
            with run.watching(case, steps):
                run.note(SparkWorld(case.chance, steps, spark, root).live())
            run.passed()
            shutil.rmtree(root, ignore_errors=True)
    finally:
        spark.stop()


SUITE = Suite("histories", 100, run)
