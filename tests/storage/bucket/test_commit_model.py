"""A random model of the whole protocol: nothing is lost and nothing doubled; with any one rule left out, something is.

Two drivers of one app, consolidation, retention, a collector without patience, answers that are lost, puts that arrive
late and kills: at every request, another actor may act first. The code under test is the product's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage.bucket import commit_log as commit_log_module, loading
from pyspark_commitlog.storage.bucket.collecting import CollectLimits, collect
from pyspark_commitlog.storage.bucket.commit_log import CommitLog, Proposal
from pyspark_commitlog.storage.bucket.commits.codec import decode_commit, encode_commit
from pyspark_commitlog.storage.bucket.commits.commit import (
    Change,
    Commit,
    Segment,
    StagedObject,
    commit_key,
)
from pyspark_commitlog.storage.bucket.commits.state import Slice, State
from pyspark_commitlog.storage.bucket.proposals import Claim, StagedWrite, commit_write, open_app
from pyspark_commitlog.storage.bucket.stores.patience import PatientStore
from pyspark_commitlog.storage.bucket.upkeep import Part, parts_of, raise_log_start, replace_parts
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    LogStoreError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
)
from tests.support.stores.commits import TOPIC_ID, commit_log, create_topic, hex_id
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore

BATCHES = 3
STEPS_MAX = 12
ROW_BYTES = 100


class Killed(BaseException):
    """The process of an actor ended."""


class InPlace:
    """Runs what threads would, in the thread of the test."""

    def __init__(self, _: int) -> None: ...

    def __enter__(self) -> InPlace:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(task, items)


@pytest.fixture(autouse=True)
def _one_thread_that_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "ThreadPoolExecutor", InPlace)
    monkeypatch.setattr(loading, "decode_commit", lru_cache(10_000)(decode_commit))
    monkeypatch.setattr(commit_log_module, "this_process", lambda: "a test")


class ModelStore(FaultyStore):
    """At each commit and each deletion, before it is sent and after: another actor may act, or the process may end."""

    between: Callable[[], None] = staticmethod(lambda: None)

    def put_new(self, key: str, data: bytes) -> None:
        self.between()
        super().put_new(key, data)
        self.between()

    def get(self, key: str, *, limit: int) -> bytes:
        if self.random.random() < 0.1:
            self.between()
        return super().get(key, limit=limit)

    def delete(self, keys: Sequence[str]) -> None:
        self.between()
        super().delete(keys)


class Model:
    """One run. ``log_kind`` and the flags are the rules that a wrong variant leaves out."""

    def __init__(
        self,
        seed: int,
        log_kind: type[CommitLog] = CommitLog,
        propose: Callable[[State, StagedWrite], Change | None] = commit_write,
        *,
        voids: bool = True,
        swap: Callable[..., Change | None] = replace_parts,
    ) -> None:
        self.random = Random(seed)
        self.memory = MemoryStore()
        self.store = ModelStore(self.memory, self.random, 0.25)
        self.store.between = self.between
        self.log_kind, self.propose, self.voids, self.swap = log_kind, propose, voids, swap
        self.done = -1  # the last batch in the query's checkpoint
        self.batch_of: dict[str, int] = {}  # by write
        self.steps = self.depth = 0

    def run(self) -> list[int]:
        """Returns the batches in the log, by their offsets. Raises CorruptionError if an object of one is missing."""
        self.open(faults=False).commit(lambda _: create_topic(partitions=1))
        while self.done < BATCHES - 1 and self.steps < STEPS_MAX:
            self.act(self.random.choice((self.drive, self.drive, *self.others)))
        self.store.rate, self.steps = 0.0, STEPS_MAX
        self.drive()
        self.store.land_late(1.0)
        return self.batches()

    def batches(self) -> list[int]:
        """Returns the batches that the log has or had: retention takes the first ones."""
        state = self.open(faults=False).state
        found = [batch for part in parts_of(state, TOPIC_ID, 0) for batch in self.batches_in(part)]
        return [*range(state.partitions[TOPIC_ID, 0].end - len(found)), *found]

    def batches_in(self, part: Part) -> list[int]:
        """Reads the objects of a part as a reader does. Raises ObjectMissingError."""
        if isinstance(part, Slice):
            self.memory.get(part.key, limit=1 << 20)
            return [self.batch_of[part.key.split("/")[1]]]
        data = self.memory.get(f"{part.key(TOPIC_ID, 0)}.log", limit=1 << 20)
        assert hashlib.sha256(data).hexdigest() == part.sha256
        return [int(batch) for batch in data.split()]

    def between(self) -> None:
        """What may happen at any instant."""
        if self.steps >= STEPS_MAX:
            return
        chance = self.random.random()
        if chance < 0.04:
            raise Killed
        if chance < 0.3 and self.depth < 3:
            self.act(self.random.choice((self.drive, *self.others)))
        if 0.25 < chance < 0.45:
            self.store.land_late()

    def act(self, actor: Callable[[], None]) -> None:
        """Lets an actor act until it is done, is killed, or gives up."""
        self.steps, self.depth = self.steps + 1, self.depth + 1
        try:
            actor()
        except Killed:
            pass
        except CorruptionError:
            raise
        except LogStoreError:
            pass  # it ends; another begins
        finally:
            self.depth -= 1

    def open(self, *, faults: bool = True) -> CommitLog:
        return commit_log(self.store if faults else self.memory, self.random.getrandbits(32), self.log_kind, 2_000)

    def drive(self) -> None:
        """A driver: opens the app and commits what the query's checkpoint lacks."""
        log = self.open()
        opened = log.commit(lambda state: open_app(state, "app", "query", None))
        assert opened is not None
        claim = Claim("app", opened.change.epoch, "query", None)  # type: ignore[union-attr]
        while self.done < BATCHES - 1:
            batch = self.done + 1
            self.write(log, claim, batch)
            self.between()
            self.done = max(self.done, batch)

    def write(self, log: CommitLog, claim: Claim, batch: int) -> None:
        write = hex_id(self.random.getrandbits(128))
        self.batch_of[write] = batch
        staged_object = StagedObject(0, 0, 0, ROW_BYTES)
        self.store.put_new(staged_object.key(write), b"x" * ROW_BYTES)
        self.collect_at_once()
        rows = np.array([(0, 0, ROW_BYTES, 1, 1, 5)], np.int64)
        staged = StagedWrite(write, [staged_object], {(TOPIC_ID, 0): rows}, claim, batch)
        log.commit(lambda state: self.propose(state, staged))

    def collect_at_once(self) -> None:
        """Perhaps lets a collector act between an object and its commit: the instant that hurts most."""
        if self.random.random() < 0.3 and self.depth < 3 and self.steps < STEPS_MAX:
            self.act(self.collect)

    @property
    def others(self) -> tuple[Callable[[], None], ...]:
        return self.collect, self.collect, self.consolidate, self.consolidate, self.retain

    def collect(self) -> None:
        """A collector that thinks everything old enough to be deleted, and that begins again when the store fails."""
        for _ in range(6):
            try:
                self.collect_once()
                return
            except CorruptionError:
                raise
            except LogStoreError:
                continue

    def collect_once(self) -> None:
        log = self.open()
        if self.voids:
            collect(log, CollectLimits(0, 0))
        else:
            listed = [facts.key for folder in ("staged", "segments") for facts in self.store.list(folder)]
            kept = log.state.uses
            self.store.delete([key for key in listed if not any(each in key for each in kept)])

    def consolidate(self) -> None:
        """Puts a segment in the place of some slices and segments."""
        log = self.open()
        parts = parts_of(log.state, TOPIC_ID, 0)
        if not parts:
            return
        start = self.random.randrange(len(parts))
        replaced = parts[start : self.random.randrange(start, len(parts)) + 1]
        try:
            data = " ".join(str(batch) for part in replaced for batch in self.batches_in(part)).encode()
        except ObjectMissingError:
            return  # another replaced them since, and a collector without patience deleted them
        records, sha256 = len(data.split()), hashlib.sha256(data).hexdigest()
        uuid = f"{self.random.getrandbits(128):032x}"
        segment = Segment(replaced[0].base, replaced[-1].end, uuid, len(data), records, 5, sha256)
        log.patient_store.put_unique(f"{segment.key(TOPIC_ID, 0)}.log", data)
        self.collect_at_once()
        log.commit(lambda state: self.swap(state, TOPIC_ID, 0, segment, replaced))

    def retain(self) -> None:
        """Takes the first batch, once the query's checkpoint has it."""
        if self.done >= 0:
            self.open().commit(lambda state: raise_log_start(state, TOPIC_ID, 0, 1))


def is_wrong(model: Model) -> bool:
    try:
        return model.run() != list(range(BATCHES))
    except (CorruptionError, ObjectMissingError, LogStoreError):
        return True


@pytest.mark.parametrize("first", range(0, 1500, 500))
def test_every_batch_is_in_the_log_once_and_in_order(first: int) -> None:
    for seed in range(first, first + 500):
        assert Model(seed).run() == list(range(BATCHES)), seed


# --- what goes wrong without each rule


class Unchecked(CommitLog):
    """Does not hold its commits against the state before it puts them."""

    def _signed(self, change: Change) -> Commit:
        state = self._state
        uid = hex_id(self._random.getrandbits(128))
        return Commit(state.number + 1, uid, state.uid, self._clock.now_ms(), "a test", change)


class NextNumber(CommitLog):
    """Takes an absent commit for one that failed, and the next number for a free one."""

    def _check_current(self, store: PatientStore) -> None: ...

    def _put(self, commit: Commit, data: bytes) -> Commit | ObjectStoreError:
        found = super()._put(commit, data)
        if not isinstance(found, Commit):
            self._state.number += 1
            next_one = self._signed(commit.change)
            found = super()._put(next_one, encode_commit(next_one))
            if isinstance(found, Commit) and found.uid == next_one.uid:
                object.__setattr__(commit, "uid", found.uid)
        return found


def ignoring_void(state: State, staged: StagedWrite) -> Change | None:
    void, state.void = state.void, set()
    try:
        return commit_write(state, staged)
    finally:
        state.void = void


def ignoring_void_segments(state: State, *arguments: Any) -> Change | None:
    void, state.void = state.void, set()
    try:
        return replace_parts(state, *arguments)
    finally:
        state.void = void


def ignoring_versions(state: State, staged: StagedWrite) -> Change | None:
    apps = state.apps
    state.apps = {name: app._replace(version=None) for name, app in apps.items()}
    try:
        return commit_write(state, staged)
    finally:
        state.apps = apps


WRONG: dict[str, Callable[[int], Model]] = {
    "an absent commit's number is skipped": lambda seed: Model(seed, NextNumber),
    "objects are deleted without a void commit": lambda seed: Model(seed, voids=False),
    "a writer does not look whether its write is void": lambda seed: Model(seed, Unchecked, ignoring_void),
    "a consolidation does not look whether its segment is void": lambda seed: Model(
        seed, Unchecked, swap=ignoring_void_segments
    ),
    "a writer does not look for its version": lambda seed: Model(seed, Unchecked, ignoring_versions),
}


@pytest.mark.parametrize("name", WRONG)
def test_without_one_rule_something_is_lost_or_doubled(name: str) -> None:
    wrong = (seed for seed in range(1000) if is_wrong(WRONG[name](seed)))
    assert len(list(islice(wrong, 8))) == 8


# --- writes without an app: only the uid tells whether a commit is the writer's own


class OthersOwn(CommitLog):
    """Takes every refusal for a commit of another writer."""

    def _put(self, commit: Commit, data: bytes) -> Commit | ObjectStoreError:
        try:
            self.store.put_new(commit_key(commit.number), data)
            return commit
        except ObjectExistsError:
            object.__setattr__(commit, "uid", hex_id(0))
        except ObjectStoreError:
            pass
        return super()._put(commit, data)


def doubled(seed: int, kind: type[CommitLog]) -> bool:
    random, memory = Random(seed), MemoryStore()
    commit_log(memory).commit(lambda _: create_topic(partitions=1))
    store = FaultyStore(memory, random, 0.4)
    for number in range(5):
        staged_object, rows = StagedObject(0, 0, 0, ROW_BYTES), np.array([(0, 0, ROW_BYTES, 1, 1, 5)], np.int64)
        staged = StagedWrite(hex_id(number), [staged_object], {(TOPIC_ID, 0): rows})
        propose: Proposal = lambda state, staged=staged: commit_write(state, staged)  # type: ignore[misc]  # noqa: E731
        try:
            commit_log(store, seed, kind).commit(propose)
        except ObjectStoreError:
            continue
    store.land_late(1.0)
    keys = [one.key for one in commit_log(memory).state.slices(TOPIC_ID, 0)]
    return len(keys) != len(set(keys))


def test_a_write_without_an_app_is_not_doubled_by_its_own_refusal() -> None:
    assert not any(doubled(seed, CommitLog) for seed in range(100))
    assert any(doubled(seed, OthersOwn) for seed in range(100))


def test_the_model_tries_what_it_should() -> None:
    """Kills, fencing, skipped versions and void writes all happen, else the model shows nothing."""
    kinds: set[str] = set()
    for seed in range(60):
        model = Model(seed)
        model.run()
        state = model.open(faults=False).state
        kinds |= {"void"} if state.void else set()
        kinds |= {"several drivers"} if state.apps["app"].epoch > 2 else set()
        kinds |= {"staged again"} if len(model.batch_of) > BATCHES else set()
        kinds |= {"a segment"} if state.partitions[TOPIC_ID, 0].segments else set()
        kinds |= {"retention"} if state.partitions[TOPIC_ID, 0].log_start else set()
    assert kinds == {"void", "several drivers", "staged again", "a segment", "retention"}
