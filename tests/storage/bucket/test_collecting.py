"""The collector: what the log needs stays, what it does not need goes once it is old, by the store's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from pyspark_commitlog.storage.bucket.collecting import CHECKPOINTS_KEPT, CLOCK, CollectLimits, abort_overdue, collect
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.checkpoints import EVERY
from pyspark_commitlog.storage.bucket.commits.commit import (
    Change,
    DataChange,
    RetainChange,
    SwapChange,
    TopicChange,
    VoidChange,
)
from pyspark_commitlog.storage.bucket.proposals import StagedWrite, commit_write
from pyspark_commitlog.storage.bucket.stores.port import ObjectFacts
from pyspark_commitlog.storage.bucket.upkeep import parts_of, raise_log_start, replace_parts
from pyspark_commitlog.storage.errors import ObjectStoreError, TransactionAbortedError
from tests.support.stores.commits import TOPIC_ID, commit_log, create_topic, data, hex_id, segment
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.transactional import PRODUCER, TIMEOUT_MS, Client

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def put_staged(store: MemoryStore, write: int, task: int = 0) -> str:
    key = f"staged/{hex_id(write)}/{task}-7-0.data"
    store.put_new(key, b"x" * 10)
    return key


def put_segment(store: MemoryStore, base: int, end: int, number: int = 1) -> list[str]:
    keys = [f"{segment(base, end, number).key(TOPIC_ID, 0)}{kind}" for kind in (".log", ".index", ".timeindex")]
    for key in keys:
        store.put_new(key, b"x" * 10)
    return keys


def committed(store: MemoryStore, *changes: Change) -> CommitLog:
    """Commits changes, after the objects of writes were put."""
    log = commit_log(store)
    for change in changes:
        if isinstance(change, DataChange):
            put_staged(store, int(change.write, 16), change.objects[0].task)
        log.commit(lambda _, change=change: change)  # type: ignore[misc]
    return log


def garbage(store: MemoryStore) -> set[str]:
    return {key for key in store.objects if key.startswith(("staged/", "segments/"))}


def test_what_nobody_committed_goes_once_it_is_old_and_is_void_before() -> None:
    store = MemoryStore()
    log = committed(store, create_topic(), data(1, 3))
    named = garbage(store)
    old = [put_staged(store, 8), put_staged(store, 8, 1), *put_segment(store, 0, 3)]
    store.now_ms += DAY_MS - 1
    young = put_staged(store, 9)
    assert collect(log)[:3] == (0, 0, 0)
    store.now_ms += 1
    done = collect(log)
    assert (done.uncommitted, done.dropped, done.objects, done.bytes, done.waiting) == (2, 0, len(old), 50, 10)
    assert garbage(store) == {*named, young}
    assert log.state.void == {hex_id(8), segment(0, 3).uuid}
    with pytest.raises(TransactionAbortedError, match="write again"):
        commit_write(log.state, StagedWrite(hex_id(8), [], {}))
    assert replace_parts(log.state, TOPIC_ID, 0, segment(0, 3), parts_of(log.state, TOPIC_ID, 0)) is None


@pytest.mark.parametrize(
    "drop",
    [RetainChange(TOPIC_ID, 0, 3), SwapChange(TOPIC_ID, 0, segment(0, 3)), TopicChange("delete", "t", TOPIC_ID)],
    ids=["retention", "a swap", "a deleted topic"],
)
def test_what_the_log_dropped_stays_for_readers_until_the_grace_is_over(drop: Change) -> None:
    store = MemoryStore()
    log = committed(store, create_topic(), data(1, 3))
    staged = garbage(store)
    put_segment(store, 0, 3)
    store.now_ms += 10 * DAY_MS  # the object is old, what counts is when it was dropped
    log.commit(lambda _: drop)
    limits = CollectLimits(staged_retention_ms=100 * DAY_MS, delete_grace_ms=HOUR_MS)
    for waited_ms, is_there in ((HOUR_MS - 1, True), (1, False)):
        store.now_ms += waited_ms
        collect(log, limits)
        assert (staged <= garbage(store)) is is_there
    assert (log.state.void, log.state.dropped) == (set(), {})


def test_a_write_stays_as_long_as_one_of_its_slices_is_in_the_log() -> None:
    store = MemoryStore()
    log = committed(store, create_topic(), data(1, 3, 4), RetainChange(TOPIC_ID, 0, 3))
    put_staged(store, 1, 5)  # of an attempt that nobody used
    collect(log, CollectLimits(0, 0))
    assert len(garbage(store)) == 2
    log.commit(lambda state: raise_log_start(state, TOPIC_ID, 0, 7))
    collect(log, CollectLimits(0, 0))
    assert garbage(store) == set()


def test_an_object_that_arrives_after_its_write_was_given_up_is_deleted_by_the_next_run() -> None:
    store = MemoryStore()
    log = committed(store, create_topic(), VoidChange([hex_id(1)]))
    put_staged(store, 1)
    number = log.state.number
    assert collect(log).objects == 1
    assert (garbage(store), log.state.number) == (set(), number)


def test_a_dry_run_and_objects_of_others_change_nothing() -> None:
    store = MemoryStore()
    log = committed(store, create_topic())
    put_staged(store, 1)
    for key in ("staged/notes.txt", f"staged/{hex_id(1)}/a/b.data", "segments/x/0/readme.md"):
        store.put(key, b"")
    before = set(store.objects)
    assert collect(log, CollectLimits(0, 0), dry_run=True).objects == 1
    assert set(store.objects) - {CLOCK} == before
    collect(log, CollectLimits(0, 0))
    assert before - set(store.objects) == {f"staged/{hex_id(1)}/0-7-0.data"}


def long_log(store: MemoryStore) -> CommitLog:
    """A log with three checkpoints more than are kept."""
    log = commit_log(store)
    log.commit(lambda _: create_topic())
    for number in range(1, (CHECKPOINTS_KEPT + 3) * EVERY):
        log.commit(lambda _, number=number: VoidChange([hex_id(number)]))  # type: ignore[misc]
    return log


def test_checkpoints_stay_if_newer_ones_were_never_written() -> None:
    store = MemoryStore()
    log = long_log(store)
    for key in sorted(key for key in store.objects if key.startswith("checkpoints/0"))[3:]:
        del store.objects[key]
    assert collect(log).checkpoints == 0
    assert commit_log(store).state.number == log.state.number


def test_old_checkpoints_go_and_a_reader_with_an_old_hint_finds_the_log() -> None:
    store = MemoryStore()
    log = long_log(store)
    assert collect(log).checkpoints == 3
    store.put("checkpoints/newest", b'{"n": 100}')
    assert commit_log(store).state.number == log.state.number
    assert sum(key.startswith("checkpoints/0") for key in store.objects) == CHECKPOINTS_KEPT


class Killed(BaseException):
    pass


class KillingStore(FaultyStore):
    """Ends the process before or after a request."""

    def __init__(self, inner: MemoryStore, left: int) -> None:
        super().__init__(inner, Random(0), 0.0)
        self.left = left

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def put_new(self, key: str, data: bytes) -> None:
        self._step()
        super().put_new(key, data)
        self._step()

    def put(self, key: str, data: bytes) -> None:
        self._step()
        super().put(key, data)

    def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
        self._step()
        return super().list(folder, after)

    def delete(self, keys: Sequence[str]) -> None:
        self._step()
        for key in keys:  # others may see some deleted and some not
            super().delete([key])
            self._step()


def filled() -> tuple[MemoryStore, set[str]]:
    """A store with garbage of all kinds; and what must stay."""
    store = MemoryStore()
    log = committed(store, create_topic(), data(1, 3), data(2, 4, base=3), data(3, 4, base=7))
    put_segment(store, 3, 7)
    log.commit(lambda _: SwapChange(TOPIC_ID, 0, segment(3, 7)))
    log.commit(lambda _: RetainChange(TOPIC_ID, 0, 3))
    kept = garbage(store) - {f"staged/{hex_id(number)}/0-7-0.data" for number in (1, 2)}
    put_staged(store, 8)
    put_staged(store, 8, 1)
    put_segment(store, 0, 3, 9)
    return store, kept


def test_a_collector_that_is_killed_at_any_step_loses_nothing_and_the_next_one_ends_its_work() -> None:
    steps = 0
    while True:
        store, kept = filled()
        try:
            collect(commit_log(KillingStore(store, steps)), CollectLimits(0, 0))
        except Killed:
            assert kept <= garbage(store)
            collect(commit_log(store), CollectLimits(0, 0))
            assert garbage(store) == kept
            steps += 1
            continue
        assert steps > 10
        return


@pytest.mark.parametrize("seed", range(30))
def test_a_collector_on_a_bad_day_deletes_nothing_that_is_needed(seed: int) -> None:
    store, kept = filled()
    faulty = FaultyStore(store, Random(seed), 0.3)
    for attempt in range(30):
        try:
            collect(commit_log(faulty, seed + attempt), CollectLimits(0, 0))
        except ObjectStoreError:
            continue
        assert kept <= garbage(store)
    faulty.land_late(1.0)
    collect(commit_log(store), CollectLimits(0, 0))
    assert garbage(store) == kept


def racing(store: MemoryStore, other: Callable[[], None]) -> MemoryStore:
    """Returns a store whose next conditional put comes after what ``other`` does."""

    class Late(FaultyStore):
        def put_new(self, key: str, data: bytes) -> None:
            self.put_new = self.inner.put_new  # type: ignore[method-assign]
            other()
            self.inner.put_new(key, data)

    return Late(store, Random(0), 0.0)  # type: ignore[return-value]


def test_a_write_that_is_committed_while_the_collector_condemns_it_stays() -> None:
    store = MemoryStore()
    committed(store, create_topic())
    staged = put_staged(store, 1)
    store.now_ms += DAY_MS
    other = commit_log(store, 1)
    collect(commit_log(racing(store, lambda: other.commit(lambda _: data(1, 3)) and None)))  # type: ignore[func-returns-value]
    assert staged in store.objects
    assert not other.catch_up().void


def test_a_replaced_segment_is_not_put_where_another_has_come_since() -> None:
    store = MemoryStore()
    log = committed(store, create_topic(), data(1, 3), data(2, 4, base=3))
    parts = parts_of(log.state, TOPIC_ID, 0)
    assert [part.base for part in parts] == [0, 3]
    assert replace_parts(log.state, TOPIC_ID, 0, segment(0, 7), parts) is not None
    log.commit(lambda _: SwapChange(TOPIC_ID, 0, segment(0, 3)))
    assert replace_parts(log.state, TOPIC_ID, 0, segment(0, 7), parts) is None
    assert replace_parts(log.state, "u" * 22, 0, segment(0, 7), parts) is None


def test_transactions_that_are_late_by_the_stores_clock_are_aborted() -> None:
    store = MemoryStore()
    log = committed(store, create_topic())
    client, other = Client(log), Client(log, "y", PRODUCER + 1)
    client.append(b"a")
    store.now_ms += TIMEOUT_MS - 1
    assert abort_overdue(log) == []
    client.append(b"b")  # makes it no younger
    other.append(b"c")
    store.now_ms += 1
    for is_dry in (True, False):
        assert [each.name for each in abort_overdue(log, dry_run=is_dry)] == ["x"]
        assert log.state.open.keys() == ({"__transaction.x", "__transaction.y"} if is_dry else {"__transaction.y"})
    other.end(commit=True)
    before = dict(store.requests)
    assert abort_overdue(log) == []
    assert store.requests["put"] == before.get("put", 0)
