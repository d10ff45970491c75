"""The maintenance jobs on a log on an object store: Spark's processes open it by its URL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.root import open_root
from tests.jobs.test_maintenance_jobs import submit
from tests.support.stores.filled import read_rows, write_pairs
from tests.support.stores.filling import make_topic
from tests.support.stores.versity import VersityGateway

pytestmark = [pytest.mark.slow, pytest.mark.only_all]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VersityGateway]:
    with VersityGateway(tmp_path / "versity") as server:
        server.reach(monkeypatch)
        yield server


@pytest.fixture
def log(server: VersityGateway) -> CommitLog:
    log = open_root(server.url, create=True, check=lambda _: [])
    make_topic(log, "users", configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"})
    make_topic(log, "events", configs={"segment.bytes": "60", "retention.ms": "3600000"})
    for value, time_ms in ((b"old", 1000), (b"new", int(time.time() * 1000)), (b"last", int(time.time() * 1000))):
        for topic in ("users", "events"):
            write_pairs(log, (b"k", value), time_ms=time_ms, topic=topic)
    return log


def test_jobs_compact_retain_and_verify_by_the_url(server: VersityGateway, log: CommitLog) -> None:
    for job, topics in (("compact", 2), ("retain", 3), ("verify", 2), ("rebuild_index", 2)):
        done = submit(
            job, "--log-dir", server.url, "--json", *(("--config", "delete.grace.ms=0") if topics == 3 else ())
        )
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert [row["status"] for row in rows] == ["done"] * topics
        if job == "retain":
            assert rows[-1]["objects"] > 0
    log.catch_up()
    assert [value for _, _, value in read_rows(log, "users")] == [b"last"]
    assert [value for _, _, value in read_rows(log, "events")] == [b"new", b"last"]
