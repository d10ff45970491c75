"""Kafka's own consumers read what the producer sent: to 0.8.2.2, to 3.9.1 and to our gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from pyspark_commitlog.classic.producer import Producer, ProducerData, Record
from tests.support.gateway import serving
from tests.support.kafka import old_kafka
from tests.support.kafka.broker import Broker, Topic, create_topics, java_consume
from tests.support.kafka.old_kafka import OldBroker
from tests.support.kafka.zookeeper import ZooKeeper

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

RECORDS = 450
STRINGS = {"serializer.class": "kafka.serializer.StringEncoder", "num.retries": 20}
CODECS = ["none", "gzip", "snappy"]


class Old(NamedTuple):
    """A broker of 0.8.2.2, and its ZooKeeper."""

    port: int
    zookeeper: str


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Old]:
    home = tmp_path_factory.mktemp("old")
    with (
        ZooKeeper(home / "zookeeper") as zookeeper,
        OldBroker(home / "kafka", zookeeper.connect, release="0.8.2.2", settings={"num.partitions": 3}) as broker,
    ):
        yield Old(broker.port, zookeeper.connect)


def send(settings: dict[str, object], topic: str) -> None:
    """Sends ``key-i`` and ``value-i``, one after the other."""
    with Producer({**STRINGS, **settings}) as producer:
        for number in range(RECORDS):
            producer.send(ProducerData(topic, f"key-{number % 7}", f"value-{number}"))
    assert producer.figures.lost_events == 0


def wanted() -> dict[str, list[str]]:
    """The values of each key, in order."""
    return {f"key-{key}": [f"value-{number}" for number in range(key, RECORDS, 7)] for key in range(7)}


def by_key(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def consumed_by_0_8(old: Old, topic: str, count: int = RECORDS) -> list[tuple[str, str]]:
    """What the high-level consumer of 0.8.2.2 gets."""
    output = old_kafka.run_tool(
        "kafka.tools.ConsoleConsumer",
        *("--zookeeper", old.zookeeper, "--topic", topic, "--from-beginning", "--max-messages", str(count)),
        *("--property", "print.key=true"),
        release="0.8.2.2",
    )
    return [(key, value) for key, _, value in (line.partition("\t") for line in output.splitlines()) if value]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_consumer_of_0_8_reads_what_was_sent_by_metadata(old: Old, kind: str, codec: str) -> None:
    topic = f"metadata-{kind}-{codec}"
    settings = {"metadata.broker.list": f"127.0.0.1:{old.port}", "request.required.acks": -1}
    send({**settings, "producer.type": kind, "compression.codec": codec, "batch.size": 50}, topic)
    assert by_key(consumed_by_0_8(old, topic)) == wanted()


def test_a_consumer_of_0_8_reads_what_was_sent_by_leaders_in_zookeeper(old: Old) -> None:
    send({"metadata.broker.list": f"127.0.0.1:{old.port}", "request.required.acks": 1}, "leaders")  # makes the topic
    with Producer({**STRINGS, "zk.connect": old.zookeeper, "request.required.acks": 1}) as producer:
        producer.send([ProducerData("leaders", f"key-{key}", "last") for key in range(7)])
    found = consumed_by_0_8(old, "leaders", RECORDS + 7)
    assert by_key(found) == {key: [*values, "last"] for key, values in wanted().items()}


@pytest.mark.parametrize("target", ["3.9.1", "ours"])
def test_the_java_consumer_reads_what_was_sent(target: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        if target == "ours":
            bootstrap = stack.enter_context(serving(tmp_path / "log")).bootstrap_servers
        else:
            bootstrap = stack.enter_context(Broker(tmp_path)).start().bootstrap
        for codec in [*CODECS, "lz4", "zstd"]:
            for kind in ("sync", "async"):
                topic = f"{kind}-{codec}"
                create_topics(bootstrap, {topic: Topic(3)})
                send({"bootstrap.servers": bootstrap, "producer.type": kind, "compression.codec": codec}, topic)
                assert by_key(texts(bootstrap, topic)) == wanted()
        for codec in CODECS:
            topic = f"metadata-{codec}"
            create_topics(bootstrap, {topic: Topic(3)})
            settings = {"metadata.broker.list": bootstrap, "request.required.acks": -1, "producer.type": "async"}
            send({**settings, "compression.codec": codec}, topic)
            assert by_key(texts(bootstrap, topic)) == wanted()
        create_topics(bootstrap, {"whole": Topic()})
        whole = Record(b"v", b"k", (("h", b"1"),), 1_600_000_000_000)
        with Producer({"bootstrap.servers": bootstrap}) as producer:
            producer.send(ProducerData("whole", None, whole))
        (found,) = java_consume(bootstrap, "whole")
        assert (found.key, found.value, found.timestamp_ms) == (b"k", b"v", 1_600_000_000_000)
        assert list(found.headers) == [("h", b"1")]


def texts(bootstrap: str, topic: str) -> list[tuple[str, str]]:
    return [((each.key or b"").decode(), (each.value or b"").decode()) for each in java_consume(bootstrap, topic)]
