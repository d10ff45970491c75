"""The same requests of transactional producers to the gateway and to Kafka 3.9.1: every code must be the same.

Kafka ends a transaction after it has answered, so whatever it asks to try again later is tried again on both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_commitlog.storage import Producer, parse_address
from tests.support.gateway import WireClient, serving
from tests.support.kafka.broker import Broker
from tests.support.transactions import WireProducer

TRY_AGAIN = {14, 15, 16, 19, 51}  # Kafka also while it loads a coordinator
TOPIC = "t"
Seen = list[Any]


class Side:
    """One of the two, and what it answered."""

    def __init__(self, where: Any) -> None:
        self.client = WireClient(where)
        self.seen: Seen = []

    def close(self) -> None:
        self.client.socket.close()

    def producer(self, transactional_id: str) -> WireProducer:
        return WireProducer(self.client, transactional_id)

    def note(self, ask: Callable[[], int]) -> int:
        """Asks until the answer is more than to try again; notes it."""
        deadline = time.monotonic() + 60
        while (code := int(ask())) in TRY_AGAIN and time.monotonic() < deadline:
            time.sleep(0.05)
        self.seen.append(code)
        return code

    def init(self, producer: WireProducer, expected: Producer | None = None, **more: Any) -> Producer:
        """Initialises a producer; notes the code and the epoch."""
        self.note(lambda: producer.init(expected, **more).error)
        self.seen.append(producer.producer.epoch)
        return producer.producer


def commits_and_aborts(side: Side, name: str) -> None:
    producer = side.producer(name)
    side.init(producer)
    for commit in (True, False, True):
        side.note(lambda: producer.end(commit=commit))  # noqa: B023  called at once
        side.note(lambda: producer.add(TOPIC, 0))
        side.note(lambda: producer.produce(TOPIC, b"v"))
        side.note(lambda: producer.end(commit=commit))  # noqa: B023
        side.note(lambda: producer.end(commit=commit))  # noqa: B023
        side.note(lambda: producer.end(commit=not commit))  # noqa: B023


def versions(side: Side, name: str) -> None:
    for version in range(6):
        producer = side.producer(f"{name}{version}")
        side.init(producer, version=version)
        side.note(lambda: producer.add(TOPIC, 0, 1, version=min(version, 3)))  # noqa: B023
        side.note(lambda: producer.add_group(name, version=min(version, 4)))  # noqa: B023
        side.note(lambda: producer.commit_offset(name, TOPIC, 1, version=min(version, 4)))  # noqa: B023
        side.note(lambda: producer.end(version=min(version, 4)))  # noqa: B023


def not_added(side: Side, name: str) -> None:
    producer = side.producer(name)
    side.init(producer)
    for version in (3, 8, 10, 11):
        side.note(lambda: producer.produce(TOPIC, b"v", version=version))  # noqa: B023
        side.seen.append(producer.last_start)
    for version in (0, 3, 4):
        side.note(lambda: producer.commit_offset(name, TOPIC, 1, version=version))  # noqa: B023
    side.note(lambda: producer.add(TOPIC, 0, 9))
    side.note(lambda: producer.add("nowhere", 0))


def others(side: Side, name: str) -> None:
    stranger = side.producer(name)
    stranger.producer = Producer(4_000_000, 0)
    side.note(lambda: stranger.add(TOPIC))
    side.note(stranger.end)
    side.note(lambda: stranger.add_group(name))
    side.note(lambda: stranger.commit_offset(name, TOPIC, 1))
    side.note(lambda: stranger.produce(TOPIC, b"v"))
    nobody = side.producer("")
    side.note(lambda: nobody.init().error)
    side.note(nobody.end)
    side.note(lambda: nobody.add(TOPIC))
    side.note(lambda: nobody.add_group(name))


def fenced(side: Side, name: str) -> None:
    first, second = side.producer(name), side.producer(name)
    side.init(first)
    side.note(lambda: first.add(TOPIC))
    side.note(lambda: first.produce(TOPIC, b"v"))
    side.init(second)
    for version in (1, 2):
        side.note(lambda: first.add(TOPIC, version=version))  # noqa: B023
        side.note(lambda: first.add_group(name, version=version))  # noqa: B023
        side.note(lambda: first.end(version=version))  # noqa: B023
    side.note(lambda: first.commit_offset(name, TOPIC, 1))
    side.note(lambda: first.produce(TOPIC, b"late", version=9))
    side.note(lambda: first.produce(TOPIC, b"late", version=11))
    side.note(lambda: second.add(TOPIC))
    side.note(lambda: second.produce(TOPIC, b"w"))
    side.note(second.end)


def own_epochs(side: Side, name: str) -> None:
    producer = side.producer(name)
    own = side.init(producer)
    side.init(producer, own)
    side.init(producer, own)
    side.init(producer, producer.producer)
    side.init(producer, own)
    side.init(producer, own, version=3)
    side.init(producer, Producer(own.id + 1, own.epoch))
    side.init(producer, Producer(own.id, -1))
    side.init(producer, timeout_ms=0)
    side.init(producer, timeout_ms=900_001)
    side.init(producer)


def own_epoch_within_a_transaction(side: Side, name: str) -> None:
    producer = side.producer(name)
    own = side.init(producer)
    side.note(lambda: producer.add(TOPIC))
    side.note(lambda: producer.produce(TOPIC, b"v"))
    side.init(producer, own)
    side.init(producer)


def listed_by_age(side: Side, name: str) -> None:
    """Finds ids whose transaction began more than a time ago."""
    for state in ("empty", "open", "ended"):
        producer = side.producer(f"{name}-{state}")
        side.init(producer)
        if state != "empty":
            side.note(lambda: producer.add(TOPIC))  # noqa: B023  called at once
        if state == "ended":
            side.note(producer.end)
    time.sleep(0.01)
    for least_ms in (-1, 0, 3_600_000, 2**62):
        found = side.client.ask(66, 1, state_filters=(), producer_id_filters=(), duration_filter=least_ms)
        ids = sorted(each.transactional_id for each in found.transaction_states)
        side.seen.append([each for each in ids if each.startswith(name)])


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    home = tmp_path_factory.mktemp("kafka")
    settings = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1"}
    settings["transaction.state.log.num.partitions"] = "1"
    with Broker(home).start(props=settings) as broker, serving(home / "gateway") as gateway:
        where = SimpleNamespace(address=parse_address("bootstrap", broker.bootstrap))
        both = [Side(where), Side(gateway)]
        for side in both:
            asked = {"name": TOPIC, "num_partitions": 2, "replication_factor": 1}
            assert side.client.ask(19, 4, topics=[asked], timeout=30_000).topics[0].error_code == 0
            for kind in (0, 1):  # Kafka creates its internal topics when somebody asks for a coordinator
                side.client.ask(10, 4, key_type=kind, coordinator_keys=["any"])
        yield both
        for side in both:
            side.close()


STORIES = [commits_and_aborts, versions, not_added, others, fenced]
STORIES += [own_epochs, own_epoch_within_a_transaction, listed_by_age]


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_every_code_is_kafkas(sides: list[Side], story: Callable[[Side, str], None]) -> None:
    for side in sides:
        side.seen = []
        story(side, story.__name__)
    kafka, ours = sides
    assert ours.seen == kafka.seen
