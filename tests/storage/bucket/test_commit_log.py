"""The commit loop beside faults, other writers and its deadline."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import Barrier, Event, Thread

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog, Proposal
from pyspark_commitlog.storage.bucket.commits.checkpoints import NEWEST, checkpoint_key, encode_checkpoint
from pyspark_commitlog.storage.bucket.commits.commit import (
    Change,
    GroupOffset,
    OffsetsChange,
    SwapChange,
    TopicChange,
    commit_key,
)
from pyspark_commitlog.storage.bucket.commits.fields import TEXT_MAX
from pyspark_commitlog.storage.bucket.commits.state import State
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.stores.patience import REFUSALS_MAX
from pyspark_commitlog.storage.bucket.upkeep import raise_log_start
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    ObjectStoreError,
    OutcomeUnknownError,
    ProducerFencedError,
    StorageError,
    StoreAccessError,
)
from tests.support.clock import ManualClock
from tests.support.stores.commits import TOPIC_ID, commit_log, create_topic, data, hex_id, segment
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore


def add(write: int) -> Proposal:
    return lambda state: data(write, 1, base=state.partitions[TOPIC_ID, 0].end)


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    commit_log(store).commit(lambda _: create_topic())
    store.requests.clear()
    return store


def keys(store: MemoryStore) -> list[str]:
    return [one.key.split("/")[1] for one in commit_log(store).state.slices(TOPIC_ID, 0)]


def test_a_commit_is_a_read_of_the_last_one_and_a_put(store: MemoryStore) -> None:
    log = commit_log(store)
    store.requests.clear()
    commit = log.commit(add(1))
    assert commit is not None
    assert (commit.number, commit.uid) == (2, log.state.uid)
    assert store.requests == {"get": 1, "put_new": 1}


def test_a_proposal_of_nothing_writes_nothing(store: MemoryStore) -> None:
    assert commit_log(store).commit(lambda _: None) is None
    assert "put_new" not in store.requests


def test_a_proposal_that_refuses_writes_nothing(store: MemoryStore) -> None:
    def refuse(_: State) -> Change:
        raise ProducerFencedError("fenced")

    with pytest.raises(ProducerFencedError):
        commit_log(store).commit(refuse)
    assert "put_new" not in store.requests


def test_writers_take_turns_and_every_proposal_sees_what_came_before(store: MemoryStore) -> None:
    logs = [commit_log(store, seed) for seed in range(3)]
    for write in range(30):
        logs[Random(write).randrange(3)].commit(add(write))
    assert keys(store) == [hex_id(write) for write in range(30)]


def test_a_commit_that_no_reader_would_accept_is_not_written(store: MemoryStore) -> None:
    log = commit_log(store)
    with pytest.raises(StorageError, match="was not written"):
        log.commit(lambda _: data(1, 1, base=5))
    assert "put_new" not in store.requests
    log.commit(add(1))


@pytest.mark.parametrize(
    "change",
    [
        OffsetsChange({"g": {"t-0": GroupOffset(-1, "")}}),
        SwapChange(TOPIC_ID, 0, segment(0, 1)._replace(records=-1)),
        TopicChange("create", "u", "u" * 22, 1, {"a": "b" * (TEXT_MAX + 1)}),
    ],
    ids=["an offset below 0", "a segment with fewer records than none", "a long setting"],
)
def test_a_commit_that_no_reader_could_decode_is_not_written(store: MemoryStore, change: Change) -> None:
    log = commit_log(store)
    log.commit(add(1))
    before = set(store.objects)
    with pytest.raises(StorageError, match=r"was not written: .* is expected"):
        log.commit(lambda _: change)
    assert set(store.objects) == before
    log.commit(add(2))
    assert keys(store) == [hex_id(1), hex_id(2)]


def test_other_writers_cannot_hold_up_a_commit_for_ever(store: MemoryStore) -> None:
    log, other = commit_log(store, deadline_ms=0), commit_log(store, seed=1)

    def propose(state: State) -> Change:
        other.commit(add(state.number))
        return add(0)(state)

    with pytest.raises(StorageError, match="nothing was written"):
        log.commit(propose)
    assert keys(store) == [hex_id(1)]


# --- a store without answers


class Silent(FaultyStore):
    """Does what it is asked to (``does``) or not, and never says so."""

    does = True
    error: type[ObjectStoreError] = ObjectStoreError

    def put_new(self, key: str, data: bytes) -> None:
        if self.does and key not in self.inner.objects:
            self.inner.put_new(key, data)
        raise self.error(f"{key}: no answer")


def test_a_commit_without_an_answer_is_found_by_reading(store: MemoryStore) -> None:
    silent = Silent(store, Random(1), 0.0)
    assert commit_log(silent).commit(add(1)) is not None
    assert keys(store) == [hex_id(1)]


@pytest.mark.parametrize("error", [ObjectStoreError, StoreAccessError])
def test_at_the_deadline_the_outcome_is_unknown(store: MemoryStore, error: type[ObjectStoreError]) -> None:
    silent = Silent(store, Random(1), 0.0)
    silent.does, silent.error = False, error
    with pytest.raises(OutcomeUnknownError, match=r"may be there, or come later.*no answer"):
        commit_log(silent).commit(add(1))
    assert keys(store) == []


class Refusing(Silent):
    """Refuses access to every put but those in ``allowed``, by their numbers."""

    does, error, allowed, puts = False, StoreAccessError, range(0), 0

    def put_new(self, key: str, data: bytes) -> None:
        self.puts += 1
        if self.puts in self.allowed:
            self.inner.put_new(key, data)
        else:
            super().put_new(key, data)


def test_a_store_that_goes_on_refusing_access_ends_a_commit_soon(store: MemoryStore) -> None:
    refusing = Refusing(store, Random(1), 0.0)
    with pytest.raises(OutcomeUnknownError, match="the store refuses access; the commit may be there, or come later"):
        commit_log(refusing, deadline_ms=120_000).commit(add(1))
    assert refusing.puts == REFUSALS_MAX
    assert keys(store) == []


def test_a_refusal_that_passes_is_waited_for(store: MemoryStore) -> None:
    refusing = Refusing(store, Random(1), 0.0)
    refusing.allowed = range(REFUSALS_MAX, REFUSALS_MAX + 1)
    commit_log(refusing, deadline_ms=120_000).commit(add(1))
    assert keys(store) == [hex_id(1)]


def test_the_same_bytes_are_put_under_the_same_number(store: MemoryStore) -> None:
    puts: list[tuple[str, bytes]] = []

    class Recording(Silent):
        does = False

        def put_new(self, key: str, data: bytes) -> None:
            puts.append((key, data))
            super().put_new(key, data)

    with pytest.raises(OutcomeUnknownError):
        commit_log(Recording(store, Random(1), 0.0), deadline_ms=5_000).commit(add(1))
    assert len(puts) > 3
    assert len(set(puts)) == 1


def test_a_late_commit_that_was_given_up_is_found_by_the_next_one(store: MemoryStore) -> None:
    silent = Silent(store, Random(1), 0.0)
    silent.does = False
    sent: list[bytes] = []
    silent.put_new = lambda key, data: (sent.append(data), Silent.put_new(silent, key, data))[1]  # type: ignore[method-assign]
    log = commit_log(silent)
    with pytest.raises(OutcomeUnknownError):
        log.commit(add(1))
    store.put_new(commit_key(2), sent[0])  # it arrives
    log.store = store
    log.commit(add(2))
    assert keys(store) == [hex_id(1), hex_id(2)]


def test_a_log_that_was_replaced_or_set_back_is_no_longer_current(store: MemoryStore) -> None:
    log = commit_log(store)
    assert log.is_current()
    older = dict(store.objects)
    log.commit(add(1))
    newer = dict(store.objects)
    assert log.is_current()
    store.objects = older
    assert not log.is_current()
    commit_log(store, seed=1).commit(add(2))
    assert not log.is_current()
    store.objects = newer
    assert log.is_current()


def test_a_log_that_was_replaced_takes_no_commits_of_the_other_one(store: MemoryStore) -> None:
    log = commit_log(store)
    older = dict(store.objects)
    log.commit(add(1))
    before = log.state.uid
    store.objects = older
    other = commit_log(store, seed=1)
    other.commit(add(2))
    other.commit(add(3))  # under the number that the first log would read next
    assert not log.catch_up_if_current()
    assert log.state.uid == before


def test_the_last_known_commit_and_the_next_one_are_asked_for_at_once(store: MemoryStore) -> None:
    both = Barrier(2, timeout=60)

    class Together(MemoryStore):
        def get(self, key: str, *, limit: int) -> bytes:
            if key in (commit_key(2), commit_key(3)):
                both.wait()
            return super().get(key, limit=limit)

    commit_log(store).commit(add(1))
    together = Together()
    together.objects = dict(store.objects)
    log = commit_log(store)
    log.store = together
    assert log.catch_up_if_current()


def test_a_log_without_commits_is_current_as_long_as_the_store_names_it() -> None:
    store = MemoryStore()
    made, again = (
        open_root("", create=True, store=store, check=lambda _: [], clock=ManualClock(), random=Random(seed))
        for seed in (1, 2)
    )
    assert again.state.log_id == made.state.log_id
    assert made.is_current()
    store.objects.clear()
    assert not made.is_current()
    open_root("", create=True, store=store, check=lambda _: [], clock=ManualClock(), random=Random(3))
    store.requests.clear()
    assert not made.is_current()
    assert store.requests == {"get": 1}


def test_a_damaged_commit_of_another_ends_the_loop(store: MemoryStore) -> None:
    log = commit_log(store)
    store.put_new(commit_key(2), b"damaged")
    with pytest.raises(CorruptionError, match=commit_key(2)):
        log.commit(add(1))


@pytest.mark.parametrize("short_reads", [False, True])
def test_any_faults_at_every_request_lose_and_double_nothing(store: MemoryStore, short_reads: bool) -> None:
    wanted: list[str] = []
    for seed in range(40):
        faulty = FaultyStore(store, Random(seed), 0.2, short_reads=short_reads)
        try:
            commit_log(faulty, seed).commit(add(seed))
        except (StoreAccessError, CorruptionError):
            if hex_id(seed) not in keys(store):
                continue  # refused, or cut short three times, before it began
        wanted.append(hex_id(seed))
        faulty.land_late(1.0)
    assert keys(store) == wanted
    assert len(wanted) > 10


# --- checkpoints, and what they do not need


def test_a_process_that_only_reads_forgets_objects_that_nothing_names(store: MemoryStore) -> None:
    reader, log = commit_log(store, 1), commit_log(store)
    for write in range(2, 102):
        log.commit(add(write))
        log.commit(lambda state: raise_log_start(state, TOPIC_ID, 0, state.partitions[TOPIC_ID, 0].end - 3))
        reader.catch_up()
    assert len(reader.state.objects) == len(reader.state.writes) < 60
    assert [one.key.split("/")[1] for one in reader.state.slices(TOPIC_ID, 0)] == keys(store)


def test_every_hundredth_commit_is_followed_by_a_checkpoint(store: MemoryStore) -> None:
    log = commit_log(store)
    for write in range(2, 201):
        log.commit(add(write))
    assert sorted(key for key in store.objects if key.startswith("checkpoints/")) == [
        checkpoint_key(100),
        checkpoint_key(200),
        NEWEST,
    ]


def test_a_checkpoint_is_encoded_beside_later_commits_and_has_nothing_of_them(store: MemoryStore) -> None:
    waiting: list[Callable[[], None]] = []
    log = CommitLog(store, commit_log(store).state.log_id, background=waiting.append)
    for write in range(2, 101):
        log.commit(add(write))
    wanted = encode_checkpoint(log.state)
    assert checkpoint_key(100) not in store.objects
    for write in range(101, 200):
        log.commit(add(write))
        log.commit(lambda state: OffsetsChange({"g": {"t-0": GroupOffset(state.number, "")}}))
        log.commit(lambda state: raise_log_start(state, TOPIC_ID, 0, state.partitions[TOPIC_ID, 0].end - 3))
    waiting[0]()
    assert store.objects[checkpoint_key(100)] == wanted


def test_a_slow_store_has_one_checkpoint_in_memory_and_gets_a_later_one(store: MemoryStore) -> None:
    waiting: list[Callable[[], None]] = []
    log = CommitLog(store, commit_log(store).state.log_id, background=waiting.append)
    for write in range(2, 302):
        log.commit(add(write))
    (only,) = waiting
    only()
    for write in range(302, 402):
        log.commit(add(write))
    waiting[1]()
    assert {checkpoint_key(number) in store.objects for number in (100, 400)} == {True}
    assert commit_log(store, 1).state.number == 401


def test_a_checkpoint_that_fails_fails_no_commit(store: MemoryStore) -> None:
    class NoCheckpoints(FaultyStore):
        def put_new(self, key: str, data: bytes) -> None:
            if key.startswith("checkpoints"):
                raise ObjectStoreError("full")
            self.inner.put_new(key, data)

        def put(self, key: str, data: bytes) -> None:
            raise ObjectStoreError("full")

    log = commit_log(NoCheckpoints(store, Random(1), 0.0))
    for write in range(2, 102):
        log.commit(add(write))
    assert len(keys(store)) == 100


def test_a_commit_succeeds_although_no_thread_can_be_started_for_its_checkpoint(store: MemoryStore) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    log = CommitLog(store, commit_log(store).state.log_id, background=refuse)
    for write in range(2, 102):
        log.commit(add(write))
    assert len(keys(store)) == 100


def test_checkpoints_are_written_in_a_thread_unless_a_test_says_otherwise(store: MemoryStore) -> None:
    log = CommitLog(store, commit_log(store).state.log_id)
    for write in range(2, 101):
        log.commit(add(write))
    assert len(commit_log(store).state.slices(TOPIC_ID, 0)) == 99


def test_the_state_is_read_while_a_commit_waits_for_the_store(store: MemoryStore) -> None:
    log, putting, may_put, put = commit_log(store), Event(), Event(), store.put_new

    def slow(key: str, data: bytes) -> None:
        putting.set()
        assert may_put.wait(60)
        put(key, data)

    store.put_new = slow  # type: ignore[method-assign]
    thread = Thread(target=log.commit, args=[add(1)])
    thread.start()
    assert putting.wait(60)
    with log.reading() as state:
        assert state.partitions[TOPIC_ID, 0].end == 0
    may_put.set()
    thread.join()
    assert log.state.partitions[TOPIC_ID, 0].end == 1
