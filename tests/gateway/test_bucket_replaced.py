"""A gateway whose log on an object store is set back, deleted or made again: it acknowledges nothing from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyspark_commitlog.gateway.server import Gateway
from tests.gateway.test_bucket import URL, commit, produced
from tests.gateway.transactions.test_bucket_states import begun, write
from tests.support.gateway import WireClient, serving
from tests.support.logs.building import batch
from tests.support.stores.filling import make_topic
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.served import ServedStores

KAFKA_STORAGE_ERROR = 56
NOT_COORDINATOR = 16  # what a broker makes of an error of its storage
COORDINATOR_NOT_AVAILABLE = 15


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> ServedStores:
    return ServedStores(monkeypatch)


@pytest.fixture
def gateway(stores: ServedStores) -> Iterator[Gateway]:
    make_topic(stores.create(URL), "t", 2)
    with serving(URL, commitlog_bucket_poll_interval_ms=10, commitlog_bucket_linger_ms=1) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway) as connected:
        for value in (b"a", b"b", b"c"):
            assert produced(connected, batch(value).data)[0] == 0
        yield connected


def lose_commits(stores: ServedStores) -> None:
    store = stores.stores[URL]
    for key in commits(store)[-2:]:
        del store.objects[key]


def delete(stores: ServedStores) -> None:
    stores.stores[URL].objects.clear()


def make_again(stores: ServedStores) -> None:
    delete(stores)
    make_topic(stores.create(URL), "t", 2)


def commits(store: MemoryStore) -> list[str]:
    return sorted(key for key in store.objects if key.startswith("commits/"))


def produce(client: WireClient) -> int:
    return produced(client, batch(b"lost").data)[0]


def commit_offset(client: WireClient) -> int:
    return commit(client, "g", 1)


def create_topic(client: WireClient) -> int:
    topics = [{"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}]
    return int(client.ask(19, 2, topics=topics, timeout=5000, validate_only=False).topics[0].error_code)


def delete_records(client: WireClient) -> int:
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}]
    return int(client.ask(21, 2, topics=topics, timeout=1000).topics[0].partitions[0].error_code)


def begin_transactions(client: WireClient) -> int:
    return int(client.ask(22, 1, transactional_id="x", transaction_timeout=1000).error_code)


@pytest.mark.parametrize("change", [lose_commits, delete, make_again])
@pytest.mark.parametrize("ask", [produce, commit_offset, create_topic, delete_records, begin_transactions])
def test_no_request_is_acknowledged_and_no_commit_is_written(
    client: WireClient, stores: ServedStores, ask: Callable[[WireClient], int], change: Callable[[ServedStores], None]
) -> None:
    change(stores)
    before = commits(stores.stores[URL])
    code = {commit_offset: NOT_COORDINATOR, begin_transactions: COORDINATOR_NOT_AVAILABLE}.get(ask, KAFKA_STORAGE_ERROR)
    assert ask(client) == code
    assert commits(stores.stores[URL]) == before


@pytest.mark.parametrize("change", [lose_commits, delete, make_again])
def test_no_transaction_is_committed(
    client: WireClient, stores: ServedStores, change: Callable[[ServedStores], None]
) -> None:
    producer = begun(client)
    write(producer, b"a")
    change(stores)
    before = commits(stores.stores[URL])
    assert producer.end(commit=True) == COORDINATOR_NOT_AVAILABLE
    assert commits(stores.stores[URL]) == before


def test_the_log_says_what_happened_and_what_to_do(
    client: WireClient, stores: ServedStores, caplog: pytest.LogCaptureFixture
) -> None:
    lose_commits(stores)
    assert produce(client) == KAFKA_STORAGE_ERROR
    told = [record.getMessage() for record in caplog.records if "set back to an older copy" in record.getMessage()]
    assert told
    assert "start this process again" in told[0]


def test_a_gateway_that_starts_again_goes_on_with_the_log_that_is_there(
    client: WireClient, gateway: Gateway, stores: ServedStores
) -> None:
    lose_commits(stores)
    assert produce(client) == KAFKA_STORAGE_ERROR
    gateway.stop()
    with serving(URL) as again, WireClient(again) as other:
        assert produced(other, batch(b"d").data) == (0, 1)
