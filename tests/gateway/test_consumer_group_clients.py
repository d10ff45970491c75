"""confluent-kafka with ``group.protocol=consumer``: members of groups of Kafka 4 share partitions, come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, create_topic, serving

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    with serving(log_at, group_consumer_heartbeat_interval_ms=200) as started:
        yield started


def member(gateway: Gateway, group: str, topics: str, **settings: object) -> Consumer:
    fields = {"bootstrap.servers": str(gateway.address), "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**fields, "group.protocol": "consumer", "topic.metadata.refresh.interval.ms": 500, **settings})
    consumer.subscribe([topics])
    return consumer


def produced(gateway: Gateway, topic: str, first: int, count: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": str(gateway.address), "linger.ms": 0})
    values = [b"%d" % number for number in range(first, first + count)]
    for number, value in enumerate(values):
        producer.produce(topic, value=value, partition=number % 2)
    assert producer.flush(TIMEOUT_S) == 0
    return values


def until(holds: Callable[[], object]) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end_s, "this does not come to hold"


def shares(*members: Consumer) -> list[int]:
    for each in members:
        assert each.poll(0.02) is None
    return [len(each.assignment()) for each in members]


def consumed(count: int, *members: Consumer) -> Sequence[bytes]:
    found: list[bytes] = []
    until(
        lambda: (
            found.extend(m.value() or b"" for each in members for m in each.consume(count, 0.05)) or len(found) >= count
        )
    )
    return sorted(found, key=int)


def test_members_share_partitions_and_none_reads_a_record_twice(gateway: Gateway, topic: str) -> None:
    with closing(member(gateway, topic, topic)) as first:
        values = produced(gateway, topic, 0, 10)
        assert consumed(10, first) == values
        first.commit(asynchronous=False)
        with closing(member(gateway, topic, topic)) as second:
            until(lambda: shares(first, second) == [1, 1])
            values = produced(gateway, topic, 10, 10)
            assert consumed(10, first, second) == values
            second.commit(asynchronous=False)
        until(lambda: shares(first) == [2])
        values = produced(gateway, topic, 20, 4)
        assert consumed(4, first) == values


def test_a_regular_expression_finds_a_later_topic(gateway: Gateway, topic: str) -> None:
    with closing(member(gateway, topic, f"^{topic}.*")) as consumer, WireClient(gateway) as client:
        until(lambda: shares(consumer) == [2])
        create_topic(client, f"{topic}-later", 3)
        until(lambda: shares(consumer) == [5])


def test_a_static_member_that_comes_back_keeps_its_partition(gateway: Gateway, topic: str) -> None:
    fixed = {"group.instance.id": "i"}
    with closing(member(gateway, topic, topic)) as other:
        with closing(member(gateway, topic, topic, **fixed)) as static:
            until(lambda: shares(static, other) == [1, 1])
            had = static.assignment()
        for _ in range(20):
            assert shares(other) == [1]
        with closing(member(gateway, topic, topic, **fixed)) as again:
            until(lambda: shares(again, other) == [1, 1])
            assert again.assignment() == had


def test_members_outlive_the_gateway_and_read_nothing_twice(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"group_consumer_heartbeat_interval_ms": 200}
    with serving(tmp_path / "log", **settings) as before, WireClient(before) as client:
        create_topic(client, "t", 2)
        port, values = before.address[1], produced(before, "t", 0, 10)
        consumer = member(before, "g", "t")
        assert consumed(10, consumer) == values
        consumer.commit(asynchronous=False)
    settings["listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    with serving(tmp_path / "log", **settings) as after, closing(consumer):
        values = produced(after, "t", 10, 10)
        assert consumed(10, consumer) == values
        consumer.commit(asynchronous=False)


def test_tools_list_and_describe_such_a_group(gateway: Gateway, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": str(gateway.address)})
    with closing(member(gateway, topic, topic)) as consumer:
        until(lambda: shares(consumer) == [2])
        listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result().valid
        assert (topic, ConsumerGroupType.CONSUMER) in [(each.group_id, each.type) for each in listed]
        group = admin.describe_consumer_groups([topic])[topic].result()
        assert (group.state, group.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
        (one,) = group.members
        assert len(one.assignment.topic_partitions) == len(one.target_assignment.topic_partitions) == 2
    until(lambda: not admin.describe_consumer_groups([topic])[topic].result().members)
    admin.delete_consumer_groups([topic])[topic].result()
