"""confluent-kafka: members of a group are rolled to the new protocol and back, one by one, while records flow.

librdkafka's ``cooperative-sticky`` puts user data into assignments; such a group may not be upgraded, as with Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, create_topic, serving

pytestmark = pytest.mark.only_all

TIMEOUT_S = 60.0
PARTITIONS = 6
PER_ROUND = 6
CLASSIC = {"group.protocol": "classic", "session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
NEW = {"group.protocol": "consumer"}


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    with serving(log_at, group_consumer_heartbeat_interval_ms=200, group_initial_rebalance_delay_ms=0) as started:
        yield started


class Group:
    """A group whose members commit what they have read before they read on; it knows who has which partition."""

    def __init__(self, gateway: Gateway, name: str, **settings: object) -> None:
        self.gateway, self.name, self.settings = gateway, name, settings
        self.members: list[Consumer] = []
        self.owners: dict[int, Consumer] = {}
        self.read: list[int] = []
        self.uncommitted: set[int] = set()  # whose commit was refused, so that they may be read again
        self.taken_twice: list[int] = []
        self._producer = Producer({"bootstrap.servers": str(gateway.address), "linger.ms": 0})
        self.sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        """Closes the members also after a failure: a thread of the gateway that collects one would wait for itself."""
        for each in self.members:
            each.close()

    def enter(self, protocol: dict[str, object]) -> None:
        """A member joins."""
        classic = self.settings if protocol is CLASSIC else {}
        consumer = Consumer(
            {
                "bootstrap.servers": str(self.gateway.address),
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **protocol,
                **classic,
            }
        )
        consumer.subscribe([self.name], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        self.members.append(consumer)

    def leave(self) -> None:
        """The oldest member leaves."""
        self.members.pop(0).close()

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.taken_twice += [each.partition for each in partitions if each.partition in self.owners]
        self.owners.update({each.partition: consumer for each in partitions})

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            if self.owners.get(each.partition) is consumer:
                del self.owners[each.partition]

    def flow(self) -> None:
        """Some records are written, and members read and commit."""
        for number in range(self.sent, self.sent + PER_ROUND):
            self._producer.produce(self.name, value=b"%d" % number, partition=number % PARTITIONS)
        self.sent += PER_ROUND
        assert self._producer.flush(TIMEOUT_S) == 0
        for each in self.members:
            messages = each.consume(100, 0.05)
            errors = [message.error() for message in messages if message.error()]  # such as that members join again
            assert not [str(error) for error in errors if error is not None and error.fatal()]
            found = [int(message.value() or b"") for message in messages if message.error() is None]
            self.read += found
            try:
                if found:
                    each.commit(asynchronous=False)
            except KafkaException:
                self.uncommitted |= {*found}

    def settle(self) -> None:
        """Records flow until each member has its share, and then for a while."""
        end_s = time.monotonic() + TIMEOUT_S
        while sorted(map(len, self.shares)) != [PARTITIONS // len(self.members)] * len(self.members):
            assert time.monotonic() < end_s, "the partitions are not shared"
            self.flow()
        for _ in range(5):
            self.flow()

    @property
    def shares(self) -> list[list[int]]:
        return [[part for part, owner in self.owners.items() if owner is each] for each in self.members]

    def drain(self) -> None:
        end_s = time.monotonic() + TIMEOUT_S
        while len({*self.read}) < self.sent:
            assert time.monotonic() < end_s, "records are not read"
            self.flow()


def type_of(gateway: Gateway, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": str(gateway.address)})
    listed = admin.list_consumer_groups().result().valid
    (found,) = [each.type.name for each in listed if each.group_id == group]
    return str(found)


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_members_are_rolled_to_the_new_protocol_and_back(gateway: Gateway, topic: str, assignor: str) -> None:
    name = f"{topic}-{assignor}"
    with WireClient(gateway) as client:
        create_topic(client, name, PARTITIONS)
    with Group(gateway, name, **{"partition.assignment.strategy": assignor}) as group:
        for _ in range(3):
            group.enter(CLASSIC)
        group.settle()
        types = [type_of(gateway, name)]
        for protocol in (NEW, NEW, NEW, CLASSIC, CLASSIC, CLASSIC):
            group.leave()
            group.enter(protocol)
            group.settle()
            types.append(type_of(gateway, name))
        group.drain()
    assert types == ["CLASSIC", *["CONSUMER"] * 5, "CLASSIC"]
    assert {*group.read} == {*range(group.sent)}  # nothing is lost
    again = {each for each in group.read if group.read.count(each) > 1}
    assert again <= group.uncommitted
    assert not group.taken_twice
