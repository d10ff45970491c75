"""Open transactions on an object store: since when they are open, and which of them hang."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.transactions.abandoned import open_transactions
from pyspark_commitlog.storage.transactions.hanging import find_hanging
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS
from tests.support.stores.filling import make_topic
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.transactional import PRODUCER, TIMEOUT_MS, Client

ROOT = "memory://bucket"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def log(clock: ManualClock) -> CommitLog:
    log = open_root(ROOT, create=True, store=MemoryStore(), check=lambda _: [], clock=clock)
    make_topic(log, "t", 2)
    return log


def test_a_transaction_is_as_old_as_its_first_commit_of_records_or_offsets(log: CommitLog, clock: ManualClock) -> None:
    staging, writing = Client(log), Client(log, "y", PRODUCER + 1)
    staging.stage(5)
    clock.advance(3_000)
    writing.append(b"a")
    clock.advance(2_000)
    writing.append(b"b")
    with LogManager.open(ROOT, filesystem=BucketFileSystem(log), clock=clock) as manager:
        found = {each.transactional_id: each.age_ms for each in open_transactions(manager)}
        assert found == {"x": 5_000, "y": 2_000}
        behind_ms = NOW_MS - 1  # the clock of another machine
        assert {each.age_ms for each in open_transactions(manager, now_ms=behind_ms)} == {0}
        staging.end(commit=True)
        clock.advance(7_000)
        staging.stage(6)
        found = {each.transactional_id: each.age_ms for each in open_transactions(manager)}
        assert found == {"x": 0, "y": 9_000}


def test_a_transaction_hangs_once_its_own_timeout_has_passed_too(log: CommitLog, clock: ManualClock) -> None:
    Client(log).append(b"a")
    with LogManager.open(ROOT, filesystem=BucketFileSystem(log), clock=clock) as manager:
        clock.advance(TIMEOUT_MS - 1)
        assert find_hanging(manager, max_timeout_ms=1_000) == []
        clock.advance(1)
        assert [each.transactional_id for each in find_hanging(manager, max_timeout_ms=1_000)] == ["x"]
        assert find_hanging(manager, max_timeout_ms=TIMEOUT_MS + 1) == []
