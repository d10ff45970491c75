"""The requests of Kafka 0.8 and later against our gateway, in each version that clients of that time used."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from pyspark_commitlog.classic.errors import BrokerError, ClientError
from pyspark_commitlog.classic.wire import calls
from pyspark_commitlog.classic.wire.broker import Broker
from pyspark_commitlog.classic.wire.calls import FetchFrom
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import OffsetOutOfRangeError, TopicPartition, UnknownTopicOrPartitionError
from pyspark_commitlog.storage.format.legacy import v0, v1
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.logs.building import batch, records, replicated

NUMBERS = count()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("log"), offsets_topic_num_partitions=1) as gateway:
        yield gateway


@pytest.fixture
def broker(gateway: Gateway) -> Iterator[Broker]:
    with Connection(Address(*gateway.address)) as connection:
        yield Broker(connection)


@pytest.fixture
def topic(gateway: Gateway) -> str:
    name = f"t{next(NUMBERS)}"
    with WireClient(gateway) as client:
        create_topic(client, name, 2)
    return name


@pytest.mark.parametrize("version", [0, 1])
def test_a_cluster_is_found(gateway: Gateway, broker: Broker, topic: str, version: int) -> None:
    found = calls.cluster(broker, [topic, "not a topic"], version=version)
    (here,) = found.brokers
    assert found.brokers[here] == Address(*gateway.address)
    assert found.partitions == {TopicPartition(topic, each): calls.Leader(here, (here,), 0) for each in (0, 1)}
    assert found.errors == {"not a topic": ErrorCode.invalid_topic_exception}
    assert calls.cluster(broker, version=version).partitions.keys() >= found.partitions.keys()
    assert calls.coordinator(broker, "group") == Address(*gateway.address)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_is_produced_is_fetched_in_the_same_version(broker: Broker, topic: str, version: int) -> None:
    encode = v1.encode if version == 2 else v0.encode
    sets = {TopicPartition(topic, each): encode(records([b"one", b"two"])).tobytes() for each in (1, 0)}
    assert calls.produce(broker, sets, version=version) == dict.fromkeys(sets, calls.Produced(0, 0))
    assert calls.produce(broker, sets, acks=0, version=version) == {}
    assert calls.produce(broker, sets, version=version) == dict.fromkeys(sets, calls.Produced(0, 4))
    found = calls.fetch(broker, dict.fromkeys(sets, FetchFrom(0, 1 << 20)), version=version)
    assert list(found) == list(sets)
    for partition, each in found.items():
        assert (each.error, each.high_watermark) == (0, 6)
        assert each.records[: len(sets[partition])] == sets[partition]
        assert len(each.records) == 3 * len(sets[partition])


@pytest.mark.parametrize("version", range(4, 12))
def test_record_batches_are_produced_and_fetched(broker: Broker, topic: str, version: int) -> None:
    place, data = TopicPartition(topic, 0), replicated(b"one", b"two", base_offset=0).tobytes()
    version = broker.version(ApiKey.FETCH, version)
    calls.produce(broker, {place: data}, acks=-1, version=3)
    found = calls.fetch(broker, {place: FetchFrom(0, 1)}, version=version, is_committed_only=True)[place]
    assert (found.error, found.high_watermark, found.records) == (0, 2, data)


def test_offsets_are_found_by_time(broker: Broker, topic: str) -> None:
    place = TopicPartition(topic, 0)
    calls.produce(broker, {place: batch(b"one", b"two", timestamps=[1000, 2000]).tobytes()}, version=3)
    assert calls.offsets_before(broker, place, -1, 5) == [2, 0]
    assert calls.offsets_before(broker, place, -1, 1) == [2]
    assert calls.offsets_before(broker, place, -2, 5) == [0]
    assert calls.offsets_before(broker, place, 1000, 5) == []
    for version in (1, 5):
        asked = [calls.offset_at(broker, place, time_ms, version=version) for time_ms in (-2, -1, 0, 1001, 2001)]
        assert asked == [0, 2, 0, 1, -1]
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere-0"):
        calls.offsets_before(broker, TopicPartition("nowhere", 0), -1, 1)


def test_both_stores_of_committed_offsets_are_apart(broker: Broker, topic: str) -> None:
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert calls.committed(broker, "g", [one, other], version=0) == {one: None, other: None}
    assert calls.committed(broker, "g", [one, other]) == {one: None, other: None}
    assert calls.commit(broker, "g", {one: 5}, version=0) == {one: 0}
    assert calls.commit(broker, "g", {one: 7}, version=1) == {one: 0}
    assert calls.commit(broker, "g", {other: 9}, version=2) == {other: 0}
    assert calls.committed(broker, "g", [other, one], version=0) == {other: None, one: 5}
    assert calls.committed(broker, "g", [other, one]) == {other: 9, one: 7}


def test_a_code_is_the_error_that_it_stands_for(broker: Broker, topic: str) -> None:
    found = calls.fetch(broker, {TopicPartition(topic, 0): FetchFrom(100, 10)})[TopicPartition(topic, 0)]
    with pytest.raises(OffsetOutOfRangeError, match="what was asked"):
        calls.check(found.error, "what was asked")
    with pytest.raises(BrokerError, match=r"not_coordinator \(16\)") as raised:
        calls.check(ErrorCode.not_coordinator, "a commit")
    assert raised.value.code == 16


def test_versions_are_those_that_both_sides_have(broker: Broker) -> None:
    assert broker.version(ApiKey.FETCH, 11) == 11
    assert broker.version(ApiKey.METADATA, 100) == 12
    with pytest.raises(ClientError, match="METADATA from version 0 to 12, this client up to -1"):
        broker.version(ApiKey.METADATA, -1)
