"""Kill drivers, workers and the server while a query writes to an object store: nothing is lost or doubled.

As ``spark``, with a log on SeaweedFS, which is killed too and starts again at the same port. Killed workers are also
those that plan and commit for ``writeStream.format``. Each start chooses between the format and foreachBatch, which
continue from each other's checkpoint.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.demo import flights
from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.stores import content
from tests.support.stores.seaweed import SeaweedFS
from tests.torture.kills.bucket_program import DONE, TOPIC
from tests.torture.kills.ingest import Job, kill, write_input
from tests.torture.suite import Run, Suite

PROGRAM = Path(__file__).with_name("bucket_program.py")
MASTERS = ("local[2,3]", "local[2]")
WAYS = ("foreachBatch", "format")
START_S = 300  # until the first micro-batch; machines may be busy
ROWS_A_FILE = 1000
FILES_A_KILL = 4
PAUSE_S_MAX = 1.5  # between a line of progress and the kill that follows
DOWN_S_MAX = 3.0  # of the server


@dataclass
class Torture:
    """Rounds of one run: each has a log and a checkpoint of its own."""

    path: Path
    server: SeaweedFS
    chance: random.Random
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("driver", "worker", "workers", "server"), 0))
    round: int = 0
    rows: int = 0

    @property
    def total(self) -> int:
        return sum(self.kills.values())

    @property
    def url(self) -> str:
        return f"{self.server.url}/{self.round}"

    def run(self, kills: int, ends_s: float, tell: Callable[[str], None]) -> None:
        """Kills so often, or until ``time.monotonic()`` is ``ends_s``; then lets the query end, and compares."""
        while True:
            open_root(self.url, create=True, check=lambda _: [])
            is_last = self.total >= kills or time.monotonic() > ends_s
            before = self.total
            job = self._start()
            if not is_last:
                self._harass(job, kills)
            if job.finished:
                self._compare()
                tell(f"round {self.round}: the topic has the rows of the input, each once; {self.kills}")
                if is_last or self.total >= kills:
                    return
                self.round += 1
            elif job.process.returncode > 0:
                assert self.total > before, f"a query failed by itself:\n{job.errors.read_text()[-8000:]}"

    def _start(self) -> Job:
        arguments = (self.url, "input", f"checkpoint-{self.round}", self.chance.choice(WAYS))
        return Job(self.path, self.chance.choice(MASTERS), str(PROGRAM), *arguments, done=DONE)

    def _harass(self, job: Job, kills: int) -> None:
        """Returns when the driver is killed, or the query has ended."""
        while self.total < kills and job.next_line(START_S):
            time.sleep(self.chance.uniform(0, PAUSE_S_MAX))
            if job.process.poll() is not None:
                return
            how = self.chance.choice(list(self.kills))
            if how == "driver":
                job.kill_driver()
                self.kills[how] += 1
                return
            if how == "server":
                self.server.kill()
                time.sleep(self.chance.uniform(0, DOWN_S_MAX))
                self.server.start()
                self.kills[how] += 1
            else:
                workers = job.workers()
                self.kills[how] += kill(workers[-1:] if how == "worker" else workers) > 0

    def _compare(self) -> None:
        found = content.values(open_root(self.url), TOPIC)
        written = Counter((value or b"").decode() for values in found.values() for value in values)
        expected = Counter(line for file in (self.path / "input").iterdir() for line in file.read_text().splitlines())
        assert written == expected, f"missing {expected - written}, too many {written - expected}"[:8000]
        self.rows += written.total()


def run(run: Run) -> None:
    months = flights.split_by_month(run.directory / "months")
    lines = (line for month in months for line in islice(month.read_text().splitlines(), 1, None))
    write_input(run.directory / "input", islice(lines, ROWS_A_FILE * FILES_A_KILL * run.count), ROWS_A_FILE)
    with SeaweedFS(run.directory / "store") as server, pytest.MonkeyPatch.context() as here:
        server.reach(here)
        torture = Torture(run.directory, server, random.Random(run.seed))
        with run.watching(run.case(run.first)):
            torture.run(run.count, run.started_s + 60 * run.minutes, run.tell)
            run.passed(torture.total)
            run.note("rounds", torture.round + 1)
            run.note("rows", torture.rows)


SUITE = Suite("kills", 200, run)
