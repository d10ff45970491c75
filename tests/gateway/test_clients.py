"""Real clients in Python produce and consume; Spark's side is written and read by the log itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import aiokafka
import kafka
import kafka.admin
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import Isolation, LogManager
from tests.support.gateway import serving
from tests.support.logs import building

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    with serving(log_at, group_initial_rebalance_delay_ms=0) as started:
        yield started


def rows(gateway: Gateway, topic: str, partition: int = 0) -> list[tuple[int, bytes | None]]:
    """What a reader of the directory sees."""
    with LogManager.open(gateway.context.log_dir) as manager, manager.open_reader(topic, partition) as reader:
        return building.rows(reader, Isolation.READ_UNCOMMITTED)


def produced(gateway: Gateway, topic: str, values: list[bytes], **settings: object) -> None:
    producer = Producer({"bootstrap.servers": str(gateway.address), "linger.ms": 0, **settings})
    errors: list[object] = []
    for value in values:
        producer.produce(topic, value=value, partition=0, on_delivery=lambda error, _: error and errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert not errors


def consumed(gateway: Gateway, topic: str, count: int, **settings: object) -> list[tuple[int, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": str(gateway.address), "group.id": "g", **settings})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.consume(count, TIMEOUT_S)
        assert not [each.error() for each in found if each.error()]
        return [(each.offset() or 0, each.value()) for each in found]
    finally:
        consumer.close()


CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_what_it_wrote_as_readers_of_the_files_do(gateway: Gateway, topic: str, codec: str) -> None:
    values = [b"%d" % number * 20 for number in range(500)]
    produced(gateway, topic, values, **{"compression.type": codec, "linger.ms": 50})
    assert consumed(gateway, topic, len(values)) == list(enumerate(values)) == rows(gateway, topic)


def test_an_idempotent_producer_writes_each_record_once(gateway: Gateway, topic: str) -> None:
    values = [b"%d" % number for number in range(2000)]
    produced(gateway, topic, values, **{"enable.idempotence": True})
    assert rows(gateway, topic) == list(enumerate(values))


@pytest.mark.parametrize("log_at", ["directory"], indirect=True)  # test_bucket_clients.py has another writer
def test_a_consumer_gets_what_another_process_appends(gateway: Gateway, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": str(gateway.address), "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.consume(1, 0.2) == []
    with LogManager.open(gateway.context.log_dir) as manager:
        for value in (b"one", b"two", b"three"):
            manager.open_log(topic, 0).append_records(building.records([value]))
            assert [each.value() for each in consumer.consume(1, TIMEOUT_S)] == [value]
            produced(gateway, topic, [value])
            assert [each.value() for each in consumer.consume(1, TIMEOUT_S)] == [value]
    consumer.close()


def test_librdkafka_administers_topics(gateway: Gateway) -> None:
    admin = AdminClient({"bootstrap.servers": str(gateway.address)})
    done(admin.create_topics([NewTopic("made", num_partitions=2, config={"retention.ms": "1000"})]))
    done(admin.create_partitions([NewPartitions("made", 3)]))
    found = next(iter(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "made")]).values())).result()
    assert found["retention.ms"].value == "1000"
    assert len(admin.list_topics("made").topics["made"].partitions) == 3
    produced(gateway, "made", [b"a", b"b", b"c"])
    done(admin.delete_records([TopicPartition("made", 0, 2)]))
    consumer = Consumer({"bootstrap.servers": str(gateway.address), "group.id": "g"})
    assert consumer.get_watermark_offsets(TopicPartition("made", 0)) == (2, 3)
    consumer.close()
    done(admin.delete_topics(["made"]))
    assert "made" not in admin.list_topics().topics
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        done(admin.delete_topics(["made"]))


def done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result()


def test_kafka_python_produces_and_consumes(gateway: Gateway, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=str(gateway.address))
    sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(100)]
    assert [each.get(TIMEOUT_S).offset for each in sent] == list(range(100))
    producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=str(gateway.address), consumer_timeout_ms=20_000)
    consumer.assign([place := kafka.TopicPartition(topic, 0)])
    consumer.seek_to_beginning(place)
    assert [next(consumer).value for _ in range(100)] == [b"%d" % number for number in range(100)]
    assert consumer.offsets_for_times({place: 0})[place].offset == 0
    consumer.close()


def test_aiokafka_produces_and_consumes(gateway: Gateway, topic: str) -> None:
    async def run() -> list[bytes | None]:
        address = str(gateway.address)
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as producer:
            for number in range(100):
                await producer.send_and_wait(topic, b"%d" % number, partition=0)
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=address) as consumer:
            consumer.assign([aiokafka.TopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            return [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(100)]

    assert asyncio.run(run()) == [b"%d" % number for number in range(100)]
