"""Opening the log at a URL: what makes one, and what must not be taken for an empty one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import commit_key
from pyspark_commitlog.storage.bucket.loading import IDENTITY
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.stores.patience import Patience
from pyspark_commitlog.storage.bucket.stores.port import ObjectStore
from pyspark_commitlog.storage.errors import CorruptionError, NotALogDirError, StorageError
from pyspark_commitlog.storage.verdicts import Finding, Verdict
from tests.support.clock import ManualClock
from tests.support.stores.commits import create_topic
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore

GOOD = [Finding("one of many wins", Verdict.PASSED, ""), Finding("lists", Verdict.WARNING, "slow")]
BAD = [*GOOD, Finding("creates only if absent", Verdict.FAILED, "20 of 20 objects were created again")]


def opened(
    store: ObjectStore, *, create: bool = False, findings: Sequence[Finding] | None = None, seed: int = 0
) -> CommitLog:
    def check(url: str) -> Sequence[Finding]:
        assert findings is not None, "the store was checked"
        return findings

    clock, random, patience = ManualClock(), Random(seed), Patience(20_000)
    return open_root("", create=create, store=store, check=check, clock=clock, random=random, patience=patience)


def test_a_log_is_made_once_after_a_check() -> None:
    store = MemoryStore()
    made = opened(store, create=True, findings=GOOD)
    made.commit(lambda _: create_topic())
    again = opened(store, create=True, seed=1)
    assert (again.state.log_id, set(again.state.topic_ids)) == (made.state.log_id, {"t"})
    assert opened(store).state.number == 1


def test_the_test_of_a_store_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    store = MemoryStore()
    for _ in range(2):
        opened(store, create=True, findings=GOOD)
    assert caplog.messages == ["testing the store before the first log there, once; this takes up to a minute"]


def test_no_log_is_made_unasked() -> None:
    store = MemoryStore()
    with pytest.raises(NotALogDirError, match="memory://bucket"):
        opened(store)
    assert store.objects == {}


def test_a_store_that_failed_the_check_gets_no_log() -> None:
    store = MemoryStore()
    with pytest.raises(StorageError, match="20 of 20 objects were created again") as raised:
        opened(store, create=True, findings=BAD)
    assert "slow" not in str(raised.value)
    assert store.objects == {}


def test_two_processes_make_one_log() -> None:
    store = MemoryStore()

    class Slower(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            if key == IDENTITY and IDENTITY not in self.objects:
                opened(store, create=True, findings=GOOD, seed=2)
            super().put_new(key, data)

    slower = Slower()
    slower.objects = store.objects
    slower.modified = store.modified
    assert opened(slower, create=True, findings=GOOD, seed=1).state.log_id == opened(store).state.log_id


@pytest.mark.parametrize("seed", range(10))
def test_a_log_is_made_whatever_the_store_answers(seed: int) -> None:
    store = MemoryStore()
    faulty = FaultyStore(store, Random(seed), 0.5)
    faulty._may_fail = lambda key: None  # type: ignore[method-assign]
    assert opened(faulty, create=True, findings=GOOD).state.log_id == opened(store).state.log_id


def test_a_log_that_lost_its_name_does_not_become_another() -> None:
    store = MemoryStore()
    opened(store, create=True, findings=GOOD).commit(lambda _: create_topic())
    del store.objects[IDENTITY]
    with pytest.raises(CorruptionError, match="commits are there"):
        opened(store, create=True, findings=GOOD)


def test_commits_of_another_log_are_noticed() -> None:
    store, other = MemoryStore(), MemoryStore()
    for each, seed in ((store, 1), (other, 2)):
        opened(each, create=True, findings=GOOD, seed=seed).commit(lambda _: create_topic())
    store.put(commit_key(1), other.objects[commit_key(1)])
    with pytest.raises(CorruptionError, match="not of one log"):
        opened(store)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"x", b'{"format": 2, "logId": "%032x", "createdMs": 5}' % 1, b'{"format": 1, "logId": "../x"}'],
)
def test_a_name_that_no_writer_wrote_is_refused(content: bytes) -> None:
    store = MemoryStore()
    store.put(IDENTITY, content)
    with pytest.raises(CorruptionError, match=IDENTITY):
        opened(store, create=True, findings=GOOD)
