"""Real clients as members of groups: they share partitions, commit, come and go, and outlive the gateway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import serving
from tests.support.kafka import kafka_jvm
from tests.support.ports import free_port

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    with serving(log_at, group_initial_rebalance_delay_ms=0) as started:
        yield started


def member(gateway: Gateway, topic: str, group: str = "", **settings: object) -> Consumer:
    fields = {"bootstrap.servers": str(gateway.address), "group.id": group or topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**fields, "heartbeat.interval.ms": 200, "session.timeout.ms": 6_000, **settings})
    consumer.subscribe([topic])
    return consumer


def produced(gateway: Gateway, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": str(gateway.address), "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, value=b"%d" % number, partition=number % 2)
    assert producer.flush(TIMEOUT_S) == 0


def until(holds: Callable[[], object]) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end_s, "this does not come to hold"


def consumed(consumer: Consumer, count: int) -> set[bytes]:
    found = [each for each in consumer.consume(count, TIMEOUT_S) if not each.error()]
    return {each.value() or b"" for each in found}


def test_members_share_partitions_and_a_member_that_leaves_gives_up_its_own(gateway: Gateway, topic: str) -> None:
    produced(gateway, topic, 10)
    first, second = member(gateway, topic), member(gateway, topic)

    def shares() -> list[int]:
        for each in (first, second):
            each.poll(0.1)
        return [len(each.assignment()) for each in (first, second)]

    until(lambda: shares() == [1, 1])
    second.close()
    until(lambda: first.poll(0.1) is None and len(first.assignment()) == 2)
    first.close()


def test_a_group_goes_on_at_its_commit_with_another_member(gateway: Gateway, topic: str) -> None:
    produced(gateway, topic, 10)
    first = member(gateway, topic)
    assert consumed(first, 10) == {b"%d" % number for number in range(10)}
    first.commit(asynchronous=False)
    first.close()
    producer = Producer({"bootstrap.servers": str(gateway.address)})
    producer.produce(topic, value=b"after", partition=1)
    producer.flush(TIMEOUT_S)
    second = member(gateway, topic)
    assert consumed(second, 1) == {b"after"}
    assert [each.offset for each in second.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])] == [5, 5]
    second.close()


def test_an_administrator_sees_resets_and_deletes_a_group(gateway: Gateway, topic: str) -> None:
    produced(gateway, topic, 4)
    admin = AdminClient({"bootstrap.servers": str(gateway.address)})
    consumer = member(gateway, topic, **{"client.id": "me"})
    assert len(consumed(consumer, 4)) == 4
    consumer.commit(asynchronous=False)
    assert topic in {each.group_id for each in admin.list_consumer_groups().result().valid}
    found = admin.describe_consumer_groups([topic])[topic].result()
    assert (found.state.name, [each.client_id for each in found.members]) == ("STABLE", ["me"])
    assert len(found.members[0].assignment.topic_partitions) == 2
    consumer.close()
    moved = [ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 1)])]
    admin.alter_consumer_group_offsets(moved)[topic].result()
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic].result()
    assert sorted((each.partition, each.offset) for each in offsets.topic_partitions) == [(0, 1), (1, 2)]
    admin.delete_consumer_groups([topic])[topic].result()
    assert topic not in {each.group_id for each in admin.list_consumer_groups().result().valid}


def test_members_go_on_when_the_gateway_is_restarted(tmp_path: Path) -> None:
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}", "group_initial_rebalance_delay_ms": 0}
    with serving(tmp_path, **settings) as gateway:
        admin = AdminClient({"bootstrap.servers": str(gateway.address)})
        next(iter(admin.create_topics([NewTopic("t", num_partitions=2)]).values())).result()
        produced(gateway, "t", 4)
        consumer = member(gateway, "t")
        assert len(consumed(consumer, 4)) == 4
        consumer.commit(asynchronous=False)
        before = consumer.memberid()
    with serving(tmp_path, **settings) as gateway:
        produced(gateway, "t", 2)
        assert consumed(consumer, 2) == {b"0", b"1"}
        consumer.commit(asynchronous=False)
        assert consumer.memberid() == before
        consumer.close()


def test_kafka_python_shares_partitions_with_librdkafka(gateway: Gateway, topic: str) -> None:
    produced(gateway, topic, 4)
    first = member(gateway, topic, **{"partition.assignment.strategy": "range"})
    second = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=str(gateway.address),
        group_id=topic,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
        session_timeout_ms=6_000,
        partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
    )

    def shares() -> list[int]:
        first.poll(0.1)
        second.poll(100)
        return [len(first.assignment()), len(second.assignment())]

    until(lambda: shares() == [1, 1])
    second.commit()
    second.close()
    first.close()


def test_aiokafka_reads_and_commits_as_a_group(gateway: Gateway, topic: str) -> None:
    async def run() -> tuple[set[bytes | None], int | None]:
        settings = {"bootstrap_servers": str(gateway.address), "group_id": topic, "auto_offset_reset": "earliest"}
        async with aiokafka.AIOKafkaConsumer(topic, enable_auto_commit=False, **settings) as consumer:
            values = {(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(4)}
            await consumer.commit()
            return values, await consumer.committed(aiokafka.TopicPartition(topic, 0))

    produced(gateway, topic, 4)
    assert asyncio.run(run()) == ({b"0", b"1", b"2", b"3"}, 2)


def console(program: str, gateway: Gateway, *arguments: str) -> str:
    return kafka_jvm.run_main(
        f"org.apache.kafka.tools.{program}", ["--bootstrap-server", str(gateway.address), *arguments]
    )


def test_javas_console_consumer_reads_as_a_group_and_goes_on_at_its_commit(gateway: Gateway, topic: str) -> None:
    produced(gateway, topic, 4)
    arguments = ("--topic", topic, "--group", topic, "--from-beginning", "--timeout-ms", "20000", "--max-messages")
    assert sorted(console("consumer.ConsoleConsumer", gateway, *arguments, "4").split()) == ["0", "1", "2", "3"]
    produced(gateway, topic, 1)
    assert console("consumer.ConsoleConsumer", gateway, *arguments, "1").split() == ["0"]
    shown = console("consumer.group.ConsumerGroupCommand", gateway, "--describe", "--group", topic)
    assert sorted(line.split()[1:6] for line in shown.splitlines() if topic in line) == [
        [topic, "0", "3", "3", "0"],
        [topic, "1", "2", "2", "0"],
    ]
