"""SimpleConsumer against real brokers and our gateway with the same messages: the same calls give the same sets."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from pyspark_commitlog.classic.consumer import EARLIEST_TIME, LATEST_TIME, FetchRequest, SimpleConsumer
from pyspark_commitlog.classic.wire import calls
from pyspark_commitlog.classic.wire.broker import Broker
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.storage import Codec, LogStoreError, TopicPartition
from pyspark_commitlog.storage.format.legacy import v0
from tests.support.gateway import WireClient, create_topic, produce_fields, serving
from tests.support.kafka import broker as today
from tests.support.kafka.old_kafka import OldBroker
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.logs.building import batch, records
from tests.support.waiting import soon

TOPIC = "messages"
PLACES = [(partition, offset, size) for partition in (0, 1) for offset in range(13) for size in (40, 200, 1 << 20)]
GROUP = "by hand"


class Pair(NamedTuple):
    """The addresses of a real broker and of our gateway."""

    kafka: Address
    ours: Address


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with (
        serving(
            tmp_path_factory.mktemp("ours"), offsets_topic_num_partitions=1, inter_broker_protocol_version="2.8"
        ) as gateway,
        WireClient(gateway) as client,
    ):
        create_topic(client, TOPIC, 2, message_format_version="0.8.2")
        yield Address(*gateway.address)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, ours: Address) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("old")
    with (
        ZooKeeper(home / "zookeeper") as zookeeper,
        OldBroker(home / "kafka", zookeeper.connect, release="0.8.2.2", settings={"num.partitions": 2}) as kafka,
    ):
        pair = Pair(Address("127.0.0.1", kafka.port), ours)
        for address in pair:
            fill(address)
        yield pair


def fill(address: Address) -> None:
    """Sends the same sets of Kafka 0.8 to both partitions."""
    with Connection(address) as connection:
        broker = Broker(connection)
        soon(lambda: leads(broker))
        for partition in (0, 1):
            for codec, values in (
                (Codec.NONE, [b"a", b"", None]),
                (Codec.GZIP, [b"b" * 300, b"c"]),
                (Codec.SNAPPY, [b"d", b"e", b"f"]),
                (Codec.NONE, [b"x" * (1000 + partition)]),
            ):
                keys = [b"k%d" % number for number in range(len(values))]
                data = v0.encode(records(values, keys=keys), codec).tobytes()
                place = TopicPartition(TOPIC, partition)
                (found,) = calls.produce(broker, {place: data}, acks=1).values()
                calls.check(found.error, str(place))


def leads(broker: Broker) -> bool:
    """Asks for the topic, which creates it, until both partitions have a leader."""
    found = calls.cluster(broker, [TOPIC]).partitions
    return [each.error for each in found.values()] == [0, 0]


def shown(found: object) -> object:
    """What iterating a set gives."""
    try:
        return [(each.offset, each.next_offset, each.magic, each.key, each.value) for each in found]  # type: ignore[attr-defined]
    except LogStoreError as error:
        return type(error), found.error_code  # type: ignore[attr-defined]


@pytest.mark.only_all
@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_fetches_from_0_8_give_the_same_sets(old: Pair, limit: int) -> None:
    with (
        SimpleConsumer(*old.kafka, max_message_bytes=limit) as kafka,
        SimpleConsumer(*old.ours, max_message_bytes=limit) as mine,
    ):
        asked = [FetchRequest(TOPIC, *each) for each in PLACES]
        for each in asked:
            theirs, found = kafka.fetch(each), mine.fetch(each)
            assert shown(theirs) == shown(found), each
            assert (theirs.size_in_bytes, theirs.valid_bytes) == (found.size_in_bytes, found.valid_bytes)
        for both in zip(kafka.multifetch(asked), mine.multifetch(asked), strict=True):
            assert shown(both[0]) == shown(both[1])
        one, other = io.BytesIO(), io.BytesIO()
        kafka.fetch(FetchRequest(TOPIC, 0, 0, 1 << 20)).write_to(one)
        mine.fetch(FetchRequest(TOPIC, 0, 0, 1 << 20)).write_to(other)
        assert len(one.getvalue()) == len(other.getvalue()) > 1000


@pytest.mark.only_all
def test_offsets_of_0_8_are_the_same(old: Pair) -> None:
    place = TopicPartition(TOPIC, 0)
    with SimpleConsumer(*old.kafka) as kafka, SimpleConsumer(*old.ours) as mine:
        for time_ms in (LATEST_TIME, EARLIEST_TIME, 0, 2**62):
            for most in (0, 1, 10):
                theirs = kafka.get_offsets_before(*place, time_ms, most)
                assert mine.get_offsets_before(*place, time_ms, most) == theirs, (time_ms, most)
        soon(lambda: has_coordinator(kafka))
        for each in (kafka, mine):
            each.commit_offsets(GROUP, {place: 3}, "zookeeper")
            each.commit_offsets(GROUP, {place: 5}, "kafka")
        other = TopicPartition(TOPIC, 1)
        for storage, wanted in (("zookeeper", 3), ("kafka", 5)):
            for each in (kafka, mine):
                assert each.fetch_offsets(GROUP, [place, other], storage) == {place: wanted, other: None}


def has_coordinator(consumer: SimpleConsumer) -> bool:
    """The first question creates the topic of offsets, whose partitions have no leaders yet."""
    try:
        return bool(consumer.find_coordinator(GROUP)) and consumer.fetch_offsets(GROUP, [], "kafka") == {}
    except LogStoreError:
        return False


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory, ours: Address) -> Iterator[Pair]:
    with today.Broker(tmp_path_factory.mktemp("today") / "kafka") as kafka:
        kafka.start()
        yield Pair(Address("127.0.0.1", kafka.port), ours)


@pytest.mark.only_all
@pytest.mark.parametrize("wire", ["0.8", "today"])
def test_fetches_from_kafka_of_today_give_the_same_sets(current: Pair, wire: str) -> None:
    topic = f"in-{wire}"
    data = batch(b"a", b"b", b"c" * 2000).tobytes()
    for address in current:
        with WireClient(SimpleNamespace(address=address)) as client:
            create_topic(client, topic)
            soon(lambda client=client: accepts(client, topic, data))  # type: ignore[misc]
    with SimpleConsumer(*current.kafka, wire=wire) as theirs, SimpleConsumer(*current.ours, wire=wire) as mine:
        for offset in range(5):
            for size in (100, 1 << 20):
                asked = FetchRequest(topic, 0, offset, size)
                assert shown(theirs.fetch(asked)) == shown(mine.fetch(asked)), asked
        for time_ms in (LATEST_TIME, EARLIEST_TIME):
            assert theirs.get_offsets_before(topic, 0, time_ms, 1) == mine.get_offsets_before(topic, 0, time_ms, 1)


def accepts(client: WireClient, topic: str, data: bytes) -> bool:
    """Sends a batch, which is refused until the broker has heard of the topic."""
    return not client.ask(0, 8, **produce_fields(topic, data)).responses[0].partition_responses[0].error_code
