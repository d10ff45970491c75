"""Clients in Python administer, produce, consume as a group and run transactions, each with no word of warning."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import is_store_url
from tests.support.gateway import serving

TIMEOUT_S = 30.0
COMMITTED = {b"0", b"1", b"2", b"committed"}


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    with serving(log_at, group_initial_rebalance_delay_ms=0) as started:
        yield started


# What kafka-python logs on a slow machine, whatever the broker: its event loop had no processor for a while, or a
# client was closed while it asked for metadata.
OF_A_SLOW_MACHINE = re.compile(r"^Task .* ran for |^Metadata refresh: failed Cancelled$")


@pytest.fixture(autouse=True)
def _silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    logged = [each for each in caplog.get_records("call") if each.levelno >= logging.WARNING]
    messages = [(each.name, each.getMessage()) for each in logged]
    assert not [each for each in messages if not OF_A_SLOW_MACHINE.search(each[1])]


def end_of(gateway: Gateway) -> int:
    """The offset after the last record: on an object store there is none of what was aborted, and no marker."""
    return len(COMMITTED) if is_store_url(gateway.context.log_dir) else 6


def test_kafka_python(gateway: Gateway) -> None:
    servers = {"bootstrap_servers": gateway.bootstrap_servers}
    admin = kafka.admin.KafkaAdminClient(**servers)
    admin.create_topics([kafka.admin.NewTopic("kafka-python", 1, 1, topic_configs={"retention.ms": "-1"})])
    with kafka.KafkaProducer(**servers, compression_type="gzip") as plain:
        for number in range(3):
            plain.send("kafka-python", b"%d" % number).get(TIMEOUT_S)
    with kafka.KafkaProducer(**servers, transactional_id="kafka-python") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("kafka-python", b"aborted").get(TIMEOUT_S)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("kafka-python", b"committed")
        producer.commit_transaction()
    settings = {"group_id": "kafka-python", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    consumer = kafka.KafkaConsumer(**servers, **settings, consumer_timeout_ms=20_000)
    # This client warns of a topic without partitions if the group, which does not wait here, is faster than metadata.
    assert consumer.partitions_for_topic("kafka-python") == {0}
    consumer.subscribe(["kafka-python"])
    assert {next(consumer).value for _ in range(4)} == COMMITTED
    consumer.commit()
    consumer.close()
    [committed] = admin.list_group_offsets(["kafka-python"])["kafka-python"].values()
    assert committed.offset >= end_of(gateway)
    admin.delete_groups(["kafka-python"])
    admin.delete_topics(["kafka-python"])
    assert "kafka-python" not in admin.list_topics()
    admin.close()


def test_aiokafka(gateway: Gateway) -> None:
    asyncio.run(_run_aiokafka({"bootstrap_servers": gateway.bootstrap_servers}, end_of(gateway)))


async def _run_aiokafka(servers: dict[str, str], end: int) -> None:
    admin = aiokafka.admin.AIOKafkaAdminClient(**servers)
    await admin.start()
    await admin.create_topics([aiokafka.admin.NewTopic("aiokafka", 1, 1, topic_configs={"retention.ms": "-1"})])
    async with aiokafka.AIOKafkaProducer(**servers, compression_type="lz4") as plain:
        for number in range(3):
            await plain.send_and_wait("aiokafka", b"%d" % number)
    async with aiokafka.AIOKafkaProducer(**servers, transactional_id="aiokafka") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("aiokafka", b"aborted")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait("aiokafka", b"committed")
    settings = {"group_id": "aiokafka", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with aiokafka.AIOKafkaConsumer("aiokafka", **servers, **settings, enable_auto_commit=False) as consumer:
        values = {(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(4)}
        await consumer.commit()
    assert values == COMMITTED
    [committed] = (await admin.list_consumer_group_offsets("aiokafka")).values()
    assert committed.offset >= end
    await admin.delete_topics(["aiokafka"])
    assert "aiokafka" not in await admin.list_topics()
    await admin.close()


def test_confluent_kafka(gateway: Gateway) -> None:
    servers = {"bootstrap.servers": gateway.bootstrap_servers, "logger": logging.getLogger("librdkafka")}
    admin = confluent_kafka.admin.AdminClient(servers)
    asked = confluent_kafka.admin.NewTopic("confluent", 1, config={"retention.ms": "-1"})
    admin.create_topics([asked])["confluent"].result()
    plain = confluent_kafka.Producer({**servers, "compression.type": "zstd", "enable.idempotence": True})
    for number in range(3):
        plain.produce("confluent", b"%d" % number)
    assert plain.flush(TIMEOUT_S) == 0
    _run_transactions(confluent_kafka.Producer({**servers, "transactional.id": "confluent"}))
    group = {"group.id": "confluent", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**servers, **group})
    consumer.subscribe(["confluent"])
    assert {each.value() for each in consumer.consume(4, TIMEOUT_S)} == COMMITTED
    consumer.commit(asynchronous=False)
    consumer.close()
    admin.delete_consumer_groups(["confluent"])["confluent"].result()
    admin.delete_topics(["confluent"])["confluent"].result()
    assert "confluent" not in admin.list_topics().topics


def _run_transactions(producer: confluent_kafka.Producer) -> None:
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("confluent", b"aborted")
    assert producer.flush(TIMEOUT_S) == 0
    producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("confluent", b"committed")
    producer.commit_transaction(TIMEOUT_S)
