"""Fetches at a gateway over an object store whose answers are damaged, whose objects go, and whose log moves on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyspark_commitlog.gateway.partitions.bucket.partition import BucketPartition
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogWatcher
from pyspark_commitlog.storage.bucket.collecting import CollectLimits, collect
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.stores.patience import DELIVERY_TIMEOUT
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.errors import ObjectStoreError
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from tests.gateway.test_bucket import URL, fetched, put
from tests.support.clock import ManualClock
from tests.support.gateway import WireClient, fetch_fields, serving
from tests.support.stores.damaging import Damage, DamagingStore, cut, flipped, misled, zeroed
from tests.support.stores.filled import place_of
from tests.support.stores.filling import make_topic
from tests.support.stores.served import ServedStores

CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR = 2, 56
WANTED = [(number, b"%d" % number) for number in range(9)]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> DamagingStore:
    monkeypatch.setenv(DELIVERY_TIMEOUT, "300")
    store, stores = DamagingStore(), ServedStores(monkeypatch)
    store.url = URL
    stores.stores[URL] = store
    return store


@pytest.fixture
def log(store: DamagingStore, monkeypatch: pytest.MonkeyPatch) -> CommitLog:
    log = ServedStores.create(ServedStores.__new__(ServedStores), URL)
    make_topic(log, "t")
    for first in (0, 3, 6):
        put(log, *(b"%d" % number for number in range(first, first + 3)))
    return log


@pytest.fixture
def gateway(log: CommitLog) -> Iterator[Gateway]:
    with serving(URL, commitlog_bucket_poll_interval_ms=10) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway) as connected:
        yield connected


def code_of_fetch(client: WireClient) -> int:
    return int(client.ask(1, 11, **fetch_fields("t", 0)).responses[0].partitions[0].error_code)


@pytest.mark.parametrize("damage", [flipped, misled, zeroed, cut])
def test_an_answer_that_is_damaged_on_its_way_is_read_again(
    store: DamagingStore, client: WireClient, damage: Damage
) -> None:
    store.damage, store.times = damage, 1
    assert all_of(client) == WANTED
    assert store.times == 0


def all_of(client: WireClient) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    while len(found) < len(WANTED):
        found += [each for each in fetched(client, len(found)) if each[0] >= len(found)]
    return found


def test_records_that_stay_damaged_are_corrupt(store: DamagingStore, client: WireClient) -> None:
    store.damage, store.times = flipped, 1000
    assert code_of_fetch(client) == CORRUPT_MESSAGE
    store.times = 0
    assert all_of(client) == WANTED


def refused(_: bytes) -> bytes:
    raise ObjectStoreError("the store did not carry out the request (503)")


@pytest.mark.parametrize("damage", [cut, refused])
def test_a_store_that_fails_is_a_storage_error(store: DamagingStore, client: WireClient, damage: Damage) -> None:
    store.damage, store.times = damage, 1000
    assert code_of_fetch(client) == KAFKA_STORAGE_ERROR
    store.times = 0
    assert all_of(client) == WANTED


def test_an_object_that_the_store_lost_is_a_storage_error(store: DamagingStore, client: WireClient) -> None:
    lost = {key: data for key, data in store.objects.items() if key.startswith("staged/")}
    for key in lost:
        del store.objects[key]
    assert code_of_fetch(client) == KAFKA_STORAGE_ERROR
    store.objects |= lost
    assert all_of(client) == WANTED


def consolidate_first(log: CommitLog) -> None:
    log.catch_up()
    consolidate(place_of(log), LogConfig(segment_bytes=place_of(log).parts[0].size), ManualClock(), 0)


def append(log: CommitLog) -> None:
    put(log, b"9")


def consolidate_and_delete(log: CommitLog) -> None:
    """With a grace that is over at once."""
    consolidate_first(log)
    collect(log, CollectLimits(-1, -1))


@pytest.mark.parametrize("move", [append, consolidate_first, consolidate_and_delete])
@pytest.mark.parametrize("offset", [0, 4, 7])
def test_a_log_that_moves_on_within_a_fetch_is_read_as_of_one_moment(
    log: CommitLog,
    client: WireClient,
    move: Callable[[CommitLog], None],
    offset: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread of the gateway reads commits between two reads of one fetch."""
    caught_up, waiting = BucketPartition._caught_up, [move]

    def moving(self: BucketPartition) -> LogWatcher:
        watcher = caught_up(self)
        if waiting:
            waiting.pop()(log)
            self._log.catch_up()
        return watcher

    monkeypatch.setattr(BucketPartition, "_caught_up", moving)
    found = fetched(client, offset)
    assert (offset, b"%d" % offset) in found
    assert not waiting
