"""Batches with the producer of somebody else, in every version of Produce, in a directory and on an object store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import LogManager, Producer, TransactionStates, empty_state, is_of_driver
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields, serving
from tests.support.logs.building import batch, now_ms
from tests.support.transactions import WireProducer, committed

VERSIONS = range(APIS[ApiKey.PRODUCE].lowest, APIS[ApiKey.PRODUCE].highest + 1)
WITH_ID = 3  # the first version whose requests have a transactional id
NOBODY = 777
SINK = 2**40  # the first id of Spark's sinks
NAMES = count()
# What the log stores as it is, and what it rewrites: each is checked by its own code.
SETTINGS = [{}, {"compression_type": "gzip"}, {"message_timestamp_type": "LogAppendTime"}]


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    with serving(log_at, group_initial_rebalance_delay_ms=0) as started:
        yield started


def produced(client: WireClient, topic: str, version: int, transactional_id: str | None = None, **head: int) -> int:
    """The code of one batch."""
    data = batch(b"foreign", timestamps=now_ms(), **{"producer_epoch": 0, "base_sequence": 0, **head}).tobytes()
    fields = {**produce_fields(topic, data), "transactional_id": transactional_id}
    return client.ask(ApiKey.PRODUCE, version, **fields).responses[0].partition_responses[0].error_code


def made(client: WireClient, **configs: str) -> str:
    topic = f"topic-{next(NAMES)}"
    create_topic(client, topic, **configs)
    return topic


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_of_another_s_transaction_needs_the_transactional_id(
    gateway: Gateway, client: WireClient, version: int, settings: dict[str, str]
) -> None:
    topic = made(client, **settings)
    owner = WireProducer(client, topic)
    assert not owner.init().error
    assert owner.add(topic) == owner.produce(topic, b"own 1") == 0
    stolen = {"producer_id": owner.producer.id, "base_sequence": 1, "transactional": True}
    assert produced(client, topic, version, **stolen) is ErrorCode.transactional_id_authorization_failed
    assert produced(client, topic, version, **{**stolen, "producer_id": NOBODY}) == 53
    assert owner.produce(topic, b"own 2") == owner.end() == 0
    found = client.ask(ApiKey.FETCH, 11, **fetch_fields(topic, 0, isolation_level=1)).responses[0].partitions[0]
    assert found.last_stable_offset == found.high_watermark
    assert committed(gateway, topic) == [b"own 1", b"own 2"]


@pytest.mark.parametrize("version", VERSIONS[WITH_ID:])
def test_a_transaction_that_no_coordinator_knows_is_not_begun(
    gateway: Gateway, client: WireClient, version: int
) -> None:
    topic = made(client)
    code = produced(client, topic, version, "unknown", producer_id=NOBODY, transactional=True)
    assert code in (ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_txn_state)
    owner = WireProducer(client, topic)
    assert not owner.init().error
    code = produced(client, topic, version, owner.id, producer_id=NOBODY, transactional=True)
    assert code is ErrorCode.invalid_producer_id_mapping
    assert committed(gateway, topic) == []


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_idempotent_batch_has_no_id_of_a_sink_or_of_a_transactional_producer(
    gateway: Gateway, client: WireClient, version: int, settings: dict[str, str]
) -> None:
    topic = made(client, **settings)
    other = WireProducer(client, topic)
    assert not other.init().error
    for producer_id in (SINK, SINK + 12345, other.producer.id):
        code = produced(client, topic, version, producer_id=producer_id, producer_epoch=30000)
        assert code is ErrorCode.invalid_producer_id_mapping
    own = client.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, producer_id=-1, producer_epoch=-1).producer_id
    assert not is_of_driver(own)
    assert own != other.producer.id
    for producer_id in (own, NOBODY):  # a broker that had the log may have given the second one
        assert produced(client, topic, version, producer_id=producer_id) is ErrorCode.none
    assert committed(gateway, topic) == [b"foreign", b"foreign"]


def test_a_client_cannot_go_on_as_the_producer_of_a_sink(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """The transactional id is its own to begin with; then it gets another producer. Nothing is logged as our error."""
    directory = str(tmp_path_factory.mktemp("sink"))
    sink = Producer(SINK, 4)
    with LogManager.open(directory, create=True) as manager:
        manager.create_topic("t", partitions=1)
        TransactionStates(manager).replace("job", None, empty_state(sink, 60_000, 0))
    with serving(directory) as gateway, WireClient(gateway) as client:
        client_as_sink = WireProducer(client, "job")
        client_as_sink.producer = sink
        assert client_as_sink.add("t") == ErrorCode.invalid_producer_id_mapping
        assert client_as_sink.produce("t", b"v") == ErrorCode.invalid_producer_id_mapping
        assert client_as_sink.end() == ErrorCode.invalid_producer_id_mapping
        assert client_as_sink.init(sink).error == ErrorCode.producer_fenced
        assert not client_as_sink.init().error
        assert not is_of_driver(client_as_sink.producer.id)
        marker = {"producer_id": SINK, "producer_epoch": 30000, "coordinator_epoch": 0, "transaction_result": True}
        topics = [{"name": "t", "partition_indexes": (0,)}]
        answer = client.ask(ApiKey.WRITE_TXN_MARKERS, 1, markers=[{**marker, "topics": topics}])
        code = answer.markers[0].topics[0].partitions[0].error_code
        assert code is ErrorCode.invalid_producer_id_mapping
    assert not [record for record in caplog.records if record.exc_info]
