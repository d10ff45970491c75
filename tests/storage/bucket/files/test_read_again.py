"""Answers of a store that are damaged on their way are read again; only what stays damaged is an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import CorruptionError, CorruptRecordError, ObjectLostError
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from tests.storage.bucket.files.test_filesystem import ROOT, fill, numbers, verify_all
from tests.support.clock import ManualClock
from tests.support.stores.damaging import Damage, DamagingStore, cut, flipped, misled, zeroed
from tests.support.stores.filled import place_of

DAMAGES = [flipped, misled, zeroed, cut]


@pytest.fixture
def store() -> DamagingStore:
    return DamagingStore()


@pytest.fixture
def log(store: DamagingStore) -> CommitLog:
    return open_root(ROOT, create=True, store=store, check=lambda _: [])


@pytest.fixture(params=["slices", "a segment"])
def manager(request: pytest.FixtureRequest, store: DamagingStore, log: CommitLog) -> Iterator[LogManager]:
    fill(log, [30, 1, 25])
    if request.param == "a segment":
        consolidate(place_of(log), LogConfig(segment_ms=1), ManualClock(), 10**15)
    with LogManager.open(ROOT, filesystem=BucketFileSystem(open_root(ROOT, store=store))) as manager:
        yield manager


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_on_its_way_is_read_again(store: DamagingStore, manager: LogManager, damage: Damage) -> None:
    for start in range(0, 56, 5):
        with manager.open_reader("t", 0) as reader:
            store.damage, store.times = damage, 1
            assert numbers(reader, start) == list(range(start, 56))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_answer_is_no_finding(store: DamagingStore, manager: LogManager, damage: Damage) -> None:
    store.damage, store.times = damage, 1
    assert verify_all(manager) == []
    assert store.times == 0


def test_what_stays_damaged_is_an_error_and_is_read_again_when_it_is_restored(
    store: DamagingStore, manager: LogManager
) -> None:
    with manager.open_reader("t", 0) as reader:
        store.damage, store.times = flipped, 1000
        with pytest.raises(CorruptRecordError) as caught:
            numbers(reader)
        assert caught.value.path == f"{ROOT}/t-0/{0:020}.log"
        store.times = 0
        assert numbers(reader) == list(range(56))


def test_an_object_that_the_newest_state_names_is_lost(store: DamagingStore, manager: LogManager) -> None:
    with manager.open_reader("t", 0) as reader:
        for key in [key for key in store.objects if key.startswith(("staged/", "segments/"))]:
            del store.objects[key]
        with pytest.raises(ObjectLostError, match="lacks an object that the log names: restore it"):
            numbers(reader)


def test_an_object_of_another_size_is_asked_for_again_before_it_is_called_damaged(
    store: DamagingStore, manager: LogManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.damage, store.times = cut, 1
    head, heads = store.head, list[str]()

    def once_empty(key: str) -> object:
        heads.append(key)
        found = head(key)
        return found if found is None or len(heads) > 1 else found._replace(size=0)

    monkeypatch.setattr(store, "head", once_empty)
    with manager.open_reader("t", 0) as reader:
        assert numbers(reader) == list(range(56))
    assert len(heads) == 2
    assert issubclass(ObjectLostError, CorruptionError)
