"""Eight processes commit to one log on an object store at once: every offset is given once, in each writer's order.

The store is versitygw, whose losers of a race do not wait, so that many meet. A collector without patience and a
consolidation run beside them; neither may lose a record.
"""

from __future__ import annotations

import subprocess
import sys
from threading import Event, Thread

import pytest

from pyspark_commitlog.storage.bucket.collecting import CollectLimits, collect
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.topics import create_topic, find_topic
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.errors import LogStoreError
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from pyspark_commitlog.storage.maintenance.bucket.scratch import Place
from tests.support.stores.filled import read_rows
from tests.support.stores.versity import VersityGateway
from tests.torture.bucket_writer import TOPIC
from tests.torture.suite import Case, Run, Suite

WRITERS = 8
PARTITIONS = 2
COMMITS_MAX = 1000  # of a writer, in one case
STAGED_MS = 60_000  # a writer puts a commit sooner than this after its object; what is replaced goes at once
SMALL = LogConfig(segment_bytes=2000, segment_ms=1)


def run(run: Run) -> None:
    with VersityGateway(run.directory / "store") as server, pytest.MonkeyPatch.context() as here:
        server.reach(here)
        for case in run.cases():
            commits = max(1, min(COMMITS_MAX, (run.count - run.done) // WRITERS))
            with run.watching(case):
                _write_at_once(run, case, f"{server.url}/{case.number}", commits)
            run.passed(WRITERS * commits)


def _write_at_once(run: Run, case: Case, url: str, commits: int) -> None:
    log = open_root(url, create=True, check=lambda _: [])
    log.commit(lambda state: create_topic(state, TOPIC, PARTITIONS))
    over = Event()
    upkeep = Thread(target=_maintain, args=(url, over, run))
    upkeep.start()
    command = [sys.executable, "-m", "tests.torture.bucket_writer", url]
    writers = [subprocess.Popen([*command, str(number), str(commits)]) for number in range(WRITERS)]
    failed = [number for number, writer in enumerate(writers) if writer.wait()]
    over.set()
    upkeep.join()
    assert not failed, f"writers {failed} failed"
    log.catch_up()
    for partition in range(PARTITIONS):
        _compare(log, partition, commits)
    run.note("commits of all kinds", log.state.number)


def _maintain(url: str, over: Event, run: Run) -> None:
    log = open_root(url)
    while not over.wait(0.5):
        try:
            for partition in range(PARTITIONS):
                place = Place(log, find_topic(log.catch_up(), TOPIC), partition)
                done = consolidate(place, SMALL, SystemClock(), SystemClock().now_ms())
                run.note("segments put", len(done.segments))
            run.note("objects collected", collect(log, CollectLimits(STAGED_MS, 0)).objects)
        except LogStoreError as error:
            run.faults.append(f"maintenance: {error}")


def _compare(log: CommitLog, partition: int, commits: int) -> None:
    rows = read_rows(log, TOPIC, partition)
    assert [offset for offset, _, _ in rows] == list(range(len(rows))), "offsets have a gap"
    found = [value.decode().split() for _, _, value in rows if value is not None]
    for number in range(WRITERS):
        batches = [int(batch) for writer, batch in found if int(writer) == number]
        assert batches == list(range(partition, commits, PARTITIONS)), f"writer {number} has other records: {batches}"


SUITE = Suite("commits", 8000, run)
