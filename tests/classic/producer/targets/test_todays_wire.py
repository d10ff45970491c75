"""Today's wire, against our gateway: what is sent is in its log; what cannot be sent is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.classic.errors import BrokerUnreachableError, MessageSizeTooLargeError, NotSentError
from pyspark_commitlog.classic.producer import Producer, ProducerData, QueueItem, Record
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import InvalidConfigError
from tests.classic.producer.reading import records_in, values_in
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.ports import free_port
from tests.support.waiting import soon

STRINGS = {"serializer.class": "kafka.serializer.StringEncoder"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("gateway") / "log") as started:
        with WireClient(started) as client:
            for topic in ("sync", "async", "whole", "own", "zipped", "first", "last"):
                create_topic(client, topic, 4)
        yield started


def directory(gateway: Gateway) -> Path:
    return Path(gateway.context.log_dir)


def size_of(gateway: Gateway, topic: str) -> int:
    return sum(path.stat().st_size for path in directory(gateway).rglob(f"{topic}-*/*.log"))


def test_a_synchronous_send_is_in_the_log_when_it_returns(gateway: Gateway) -> None:
    with Producer({"bootstrap.servers": gateway.bootstrap_servers, **STRINGS}) as producer:
        producer.send([ProducerData("sync", key, [key, "more"]) for key in ("21", "foobar", "abc")])
        # murmur2 of the keys, as in Kafka's own UtilsTest
        assert [values_in(directory(gateway), "sync", each) for each in range(4)] == [
            [b"21", b"more"],
            [],
            [b"foobar", b"more"],
            [b"abc", b"more"],
        ]
    (table,) = records_in(directory(gateway), "sync", 2)
    assert table.keys is not None
    assert table.keys.to_list() == [b"foobar"] * 2


def test_a_queue_is_sent_to_its_end_when_the_producer_is_closed(gateway: Gateway) -> None:
    settings = {"bootstrap.servers": gateway.bootstrap_servers, "producer.type": "async", "queue.size": 300}
    with Producer(settings) as producer:
        for number in range(2000):
            producer.send(ProducerData("async", None, b"%d" % number))
    found = [value for each in range(4) for value in values_in(directory(gateway), "async", each)]
    assert sorted(found, key=str) == sorted((b"%d" % number for number in range(2000)), key=str)
    assert producer.figures[:5] == (2000, 0, 0, 0, 2000)


def test_records_arrive_with_key_headers_and_time(gateway: Gateway) -> None:
    sent = Record(b"v", b"k", (("h", b"1"), ("h", None)), 1_600_000_000_000)
    with Producer({"bootstrap.servers": gateway.bootstrap_servers}) as producer:
        producer.send(ProducerData("whole", None, [sent, None]))
    tables = [table for each in range(4) for table in records_in(directory(gateway), "whole", each)]
    found = {value: table for table in tables for value in (table.values.to_list() if table.values else [])}
    with_headers = found[b"v"]
    assert with_headers.headers is not None
    assert with_headers.headers.to_list()[0] == [(b"h", b"1"), (b"h", None)]
    assert 1_600_000_000_000 in with_headers.timestamps.tolist()
    assert None in found


def test_a_partitioner_of_ones_own_gets_the_partitions_of_the_cluster(gateway: Gateway) -> None:
    class Second:
        def partition(self, key: object, num_partitions: int) -> int:
            assert (key, num_partitions) == (b"k", 4)
            return 1

    with Producer({"bootstrap.servers": gateway.bootstrap_servers}, partitioner=Second()) as producer:
        producer.send(ProducerData("own", b"k", b"1"))
    assert values_in(directory(gateway), "own", 1) == [b"1"]


def test_topics_are_compressed_as_the_settings_say(gateway: Gateway) -> None:
    settings = {
        "bootstrap.servers": gateway.bootstrap_servers,
        "compression.codec": "zstd",
        "compressed.topics": "zipped",
    }
    with Producer(settings) as producer:
        producer.send([ProducerData(topic, None, [bytes(1000)] * 50) for topic in ("zipped", "plain")])
    zipped, plain = (size_of(gateway, topic) for topic in ("zipped", "plain"))
    assert zipped < 5000
    assert plain > 50_000


def test_a_synchronous_send_to_nobody_fails() -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{free_port()}", "num.retries": 0, "request.timeout.ms": 300}
    with Producer(settings) as producer, pytest.raises(BrokerUnreachableError, match="timed out"):
        producer.send(ProducerData("t", None, b"1"))


def test_an_asynchronous_send_to_nobody_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    settings = {
        "bootstrap.servers": f"127.0.0.1:{free_port()}",
        "producer.type": "async",
        "num.retries": 0,
        "request.timeout.ms": 300,
        "batch.size": 2,
    }
    with Producer(settings) as producer:
        producer.send(ProducerData("t", None, [b"1", b"2"]))
        soon(lambda: producer.figures.lost_events == 2)
    assert "messages are lost: topic t: " in caplog.text


def test_a_message_that_is_too_large_is_refused_before_it_is_sent(gateway: Gateway) -> None:
    settings = {"bootstrap.servers": gateway.bootstrap_servers, "max.message.size": 10}
    with Producer(settings) as producer, pytest.raises(MessageSizeTooLargeError):
        producer.send(ProducerData("sync", None, bytes(11)))


def test_a_field_of_a_wrong_type_fails_its_set_only(gateway: Gateway) -> None:
    """A program that sends again what is said to have failed must not write the other sets a second time."""
    wrong = Record(b"v", timestamp_ms=1.5)  # type: ignore[arg-type]
    sent = [ProducerData("first", None, b"1"), ProducerData("wrong", None, wrong), ProducerData("last", None, b"2")]
    with Producer({"bootstrap.servers": gateway.bootstrap_servers}) as producer:
        with pytest.raises(NotSentError, match="1 of 3 messages were not sent") as error:
            producer.send(sent)
        assert [each.topic for each in error.value.items if isinstance(each, QueueItem)] == ["wrong"]
        for topic, value in (("first", b"1"), ("last", b"2")):
            assert [each for p in range(4) for each in values_in(directory(gateway), topic, p)] == [value]


def test_settings_of_security_are_librdkafkas() -> None:
    with pytest.raises(InvalidConfigError, match="librdkafka refuses"):
        Producer({"bootstrap.servers": "h:1", "security.protocol": "none"})
