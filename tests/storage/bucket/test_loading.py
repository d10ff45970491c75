"""Opening a log: where it begins to read, what it costs, and what it does not believe."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from pyspark_commitlog.storage.bucket.commits.checkpoints import (
    MAGIC,
    NEWEST,
    PAYLOAD_BYTES_MAX,
    checkpoint_key,
    encode_checkpoint,
)
from pyspark_commitlog.storage.bucket.commits.commit import DataChange, commit_key
from pyspark_commitlog.storage.bucket.commits.frames import decode_frame, encode_frame
from pyspark_commitlog.storage.bucket.commits.state import State
from pyspark_commitlog.storage.bucket.loading import find_head
from pyspark_commitlog.storage.bucket.stores.port import ObjectFacts
from pyspark_commitlog.storage.errors import CorruptionError
from tests.support.stores.commits import TOPIC_ID, commit_log, create_topic, data, state_of
from tests.support.stores.faulty_store import StaleStore
from tests.support.stores.memory_store import MemoryStore


def written(commits: int) -> MemoryStore:
    """A log of so many commits; each but the first adds a record."""
    store = MemoryStore()
    log = commit_log(store)
    for number in range(commits):
        log.commit(lambda _, number=number: data(number, 1, base=number - 1) if number else create_topic())  # type: ignore[misc]
    return store


def end_of(store: MemoryStore) -> int:
    return commit_log(store).state.partitions[TOPIC_ID, 0].end


@pytest.fixture(scope="module")
def long_log() -> dict[str, bytes]:
    return written(321).objects


@pytest.fixture
def store(long_log: dict[str, bytes]) -> MemoryStore:
    copied = MemoryStore()
    for key, value in long_log.items():
        copied.put(key, value)
    return copied


def test_a_log_is_read_from_its_newest_checkpoint(store: MemoryStore) -> None:
    assert store.get(NEWEST, limit=100) == b'{"n": 300}'
    store.requests.clear()
    assert end_of(store) == 320
    assert store.requests["get"] == 3 + 21 + 10  # hint, checkpoint and its commit; commits; some not there yet
    assert (store.requests["head"], store.requests["list"]) == (2, 1)


def test_a_state_that_is_in_a_checkpoint_takes_one_look_for_more(store: MemoryStore) -> None:
    store.delete([commit_key(number) for number in range(301, 322)])
    store.requests.clear()
    assert end_of(store) == 299
    assert store.requests["get"] == 3 + 1


@pytest.mark.parametrize(
    "missing",
    [range(310, 315), range(318, 321), range(301, 303), range(301, 319), range(302, 321), range(317, 319)],
)
def test_a_hole_of_several_commits_is_noticed(store: MemoryStore, missing: range) -> None:
    store.delete([commit_key(number) for number in missing])
    with pytest.raises(CorruptionError, match="missing") as raised:
        commit_log(store)
    assert raised.value.path == f"memory://bucket/{commit_key(missing.start)}"


def test_a_hole_before_many_commits_is_noticed_though_the_next_hundred_has_no_commit(store: MemoryStore) -> None:
    log = commit_log(store)
    for number in range(321, 390):
        log.commit(lambda _, number=number: data(number, 1, base=number - 1))  # type: ignore[misc]
    store.delete([commit_key(number) for number in range(301, 360)])
    with pytest.raises(CorruptionError, match="missing") as raised:
        commit_log(store)
    assert raised.value.path == f"memory://bucket/{commit_key(301)}"


def test_a_name_in_a_list_without_a_commit_is_no_hole(store: MemoryStore) -> None:
    class Listing(MemoryStore):
        def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
            yield ObjectFacts(commit_key(330), 100, 0)

    lagging = Listing()
    lagging.objects = store.objects
    assert end_of(lagging) == 320


def test_commits_that_come_while_the_log_is_opened_are_no_hole(store: MemoryStore) -> None:
    class Busy(MemoryStore):
        def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
            log = commit_log(store, 1)
            for number in range(321, 324):
                log.commit(lambda _, number=number: data(number, 1, base=number - 1))  # type: ignore[misc]
            yield from super().list(folder, after)

    busy = Busy()
    busy.objects, busy.modified = store.objects, store.modified
    log = commit_log(busy)
    assert log.state.number == 321
    assert log.catch_up().number == 324


def test_a_look_at_nothing_new_is_one_request(store: MemoryStore) -> None:
    log = commit_log(store)
    store.requests.clear()
    log.catch_up()
    assert store.requests == {"get": 1}


@pytest.mark.parametrize(
    "hint",
    [
        None,
        b"",
        b"{}",
        b"[]",
        b'{"n": "x"}',
        b'{"n": -5}',
        b'{"n": 100}',
        b'{"n": 250}',
        b'{"n": 99999999999}',
        b"x" * 2000,
    ],
)
def test_a_hint_that_is_missing_old_or_wrong_costs_requests_only(store: MemoryStore, hint: bytes | None) -> None:
    store.delete([NEWEST])
    if hint is not None:
        store.put(NEWEST, hint)
    store.requests.clear()
    assert end_of(store) == 320
    assert store.requests["get"] < 40  # it found the checkpoint of 300


def test_a_checkpoint_that_is_not_to_be_believed_is_passed_over(store: MemoryStore) -> None:
    good = encode_checkpoint(commit_log(store).state)
    of_another_log = encode_checkpoint(state_of(create_topic()))
    older = store.objects[checkpoint_key(200)]
    for bad in (b"", good[:100], good, of_another_log, older):
        store.put(checkpoint_key(300), bad)
        assert end_of(store) == 320
    for number in (100, 200, 300):
        store.put(checkpoint_key(number), b"damaged")
    assert end_of(store) == 320


def test_a_checkpoint_without_producers_is_passed_over_or_their_batches_would_be_taken_twice() -> None:
    store = MemoryStore()
    log = commit_log(store)
    log.commit(lambda _: create_topic())
    log.commit(lambda _: by_producer(data(1, 1)))
    for number in range(2, 200):
        log.commit(lambda _, number=number: data(number, 1, base=number - 1))  # type: ignore[misc]
    assert log.state.producers
    for number in (100, 200):
        store.put(checkpoint_key(number), without_producers(store.objects[checkpoint_key(number)]))
    assert commit_log(store).state.producers == log.state.producers


def by_producer(change: DataChange) -> DataChange:
    producers = np.array([(7, 0, 0, 0, 1, 5)], np.int64)
    return replace(change, parts=[replace(each, producers=producers) for each in change.parts])


def without_producers(checkpoint: bytes) -> bytes:
    """A checkpoint as a version wrote it that did not know producers."""
    content = decode_frame(MAGIC, checkpoint, PAYLOAD_BYTES_MAX)
    (length,) = struct.unpack_from(">I", content)
    head = json.loads(content[4 : 4 + length])
    del head["producers"]
    shorter = json.dumps(head).encode()
    return encode_frame(MAGIC, struct.pack(">I", len(shorter)) + shorter + content[4 + length :])


@pytest.mark.parametrize("number", [301, 310, 320])
def test_nothing_is_read_past_a_missing_commit(store: MemoryStore, number: int) -> None:
    store.delete([commit_key(number)])
    with pytest.raises(CorruptionError, match="missing") as raised:
        commit_log(store)
    assert raised.value.path == f"memory://bucket/{commit_key(number)}"


def test_a_log_whose_commits_expired_is_not_taken_for_an_empty_one() -> None:
    store = written(20)
    store.delete([commit_key(number) for number in range(1, 10)])
    with pytest.raises(CorruptionError, match="missing"):
        commit_log(store)


def test_commits_below_the_checkpoint_are_not_needed(store: MemoryStore) -> None:
    store.delete([commit_key(number) for number in range(1, 300)])
    assert end_of(store) == 320


def test_a_commit_of_another_log_is_noticed(store: MemoryStore) -> None:
    other = written(10)
    store.put(commit_key(310), other.objects[commit_key(10)])
    with pytest.raises(CorruptionError, match="commit 10"):
        commit_log(store)


def test_a_damaged_commit_is_named(store: MemoryStore) -> None:
    store.put(commit_key(310), store.objects[commit_key(310)][:-1])
    with pytest.raises(CorruptionError, match=commit_key(310)):
        commit_log(store)


def test_a_store_that_lags_never_makes_a_wrong_state(store: MemoryStore) -> None:
    """It may show an earlier state, or a hole, but never skips a commit."""
    states: list[State] = []
    for seed in range(20):
        with suppress(CorruptionError):
            states.append(commit_log(StaleStore(store, Random(seed), 0.05)).state)
    assert states
    for state in states:
        assert state.partitions[TOPIC_ID, 0].end == state.number - 1


@pytest.mark.parametrize("head", [0, 1, 2, 3, 7, 8, 9, 100, 1000, 10_000])
def test_the_head_is_found_by_doubling_and_halving(head: int) -> None:
    for known in {0, head // 2, max(head - 1, 0), head}:
        asked: list[int] = []

        def exists(number: int, asked: list[int] = asked) -> bool:
            asked.append(number)
            return number <= head

        assert find_head(exists, known) == head
        assert len(asked) <= 2 * max(head - known, 1).bit_length() + 1
        assert head != known or len(asked) == 1
