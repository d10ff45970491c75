"""The settings of a producer: both generations' names, their defaults, and what is refused."""

from __future__ import annotations

import pytest

from pyspark_commitlog.classic.producer import Producer, ProducerConfig
from pyspark_commitlog.storage import InvalidConfigError

TARGETS = {
    "zk.connect": "h:2181",
    "broker.list": "0:h:9092",
    "metadata.broker.list": "h:9092",
    "bootstrap.servers": "h:9092",
    "log.dir": "d",
}
ZK = {"zk.connect": "h:2181"}


def config(**settings: object) -> ProducerConfig:
    return ProducerConfig.from_mapping({name.replace("__", "."): value for name, value in settings.items()})


@pytest.mark.parametrize("target", TARGETS)
def test_defaults_are_those_of_the_generation_that_has_the_target(target: str) -> None:
    found = ProducerConfig.from_mapping({target: TARGETS[target]})
    is_old = target in ("zk.connect", "broker.list")
    assert found.producer_type == "sync"
    assert (found.queue_time_ms, found.queue_size, found.batch_size) == (5000, 10_000, 200)
    assert found.enqueue_timeout_ms == (0 if is_old else -1)
    assert found.num_retries == (0 if is_old else 3)
    assert found.socket_timeout_ms == (30_000 if is_old else 10_000)
    assert found.required_acks == (-1 if target == "bootstrap.servers" else 0)
    assert (found.buffer_size, found.connect_timeout_ms, found.reconnect_interval) == (102_400, 5000, 30_000)
    assert (found.max_message_size, found.retry_backoff_ms, found.metadata_refresh_ms) == (1_000_000, 100, 600_000)
    assert found.zk_read_num_retries == 3
    assert found.codec_of("any").name == "NONE"


@pytest.mark.parametrize(
    ("older", "newer", "field", "value"),
    [
        ("queue.time", "queue.buffering.max.ms", "queue_time_ms", 7),
        ("queue.size", "queue.buffering.max.messages", "queue_size", 700),
        ("queue.enqueueTimeout.ms", "queue.enqueue.timeout.ms", "enqueue_timeout_ms", 7),
        ("batch.size", "batch.num.messages", "batch_size", 7),
        ("buffer.size", "send.buffer.bytes", "buffer_size", 7),
        ("socket.timeout.ms", "request.timeout.ms", "socket_timeout_ms", 7),
        ("num.retries", "message.send.max.retries", "num_retries", 7),
    ],
)
def test_a_setting_has_both_its_names_but_not_at_once(older: str, newer: str, field: str, value: int) -> None:
    for name in (older, newer):
        assert getattr(ProducerConfig.from_mapping({**ZK, name: str(value)}), field) == value
    with pytest.raises(InvalidConfigError, match=f"{newer} is given twice"):
        ProducerConfig.from_mapping({**ZK, older: 1, newer: 1})


@pytest.mark.parametrize(
    ("given", "name"), [(0, "NONE"), ("1", "GZIP"), (2, "SNAPPY"), ("none", "NONE"), ("gzip", "GZIP")]
)
def test_codecs_are_numbers_or_names(given: object, name: str) -> None:
    assert config(zk__connect="h:1", compression__codec=given).codec.name == name


def test_only_compressed_topics_are_compressed_unless_there_are_none() -> None:
    some = config(zk__connect="h:1", compression__codec=1, compressed__topics="a,b")
    assert [some.codec_of(each).name for each in "abc"] == ["GZIP", "GZIP", "NONE"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs one of zk.connect"),
        ({**ZK, "broker.list": "0:h:1"}, "zk.connect and broker.list are both given"),
        ({"log.dir": "d", "bootstrap.servers": "h:1"}, "are both given"),
        ({"broker.list": "0:h:1", "partitioner.class": "m:C"}, "partitioner.class needs zk.connect"),
        ({**ZK, "producer.type": "fast"}, "producer.type = 'fast'"),
        ({**ZK, "batch.size": 20, "queue.size": 10}, "batch.size = 20 is larger than queue.size = 10"),
        ({**ZK, "batch.size": 0}, "batch.size = 0"),
        ({**ZK, "queue.time": "long"}, "queue.time = 'long'"),
        ({**ZK, "compression.codec": 3}, "compression.codec = '3'"),
        ({**ZK, "compression.codec": "lz4"}, "zk.connect takes gzip and snappy"),
        ({**ZK, "queue.tme": 1}, "unknown setting of a producer: queue.tme .did you mean 'queue.time'"),
        ({**ZK, "event.handler": "m:C"}, "need producer.type = async"),
        ({**ZK, "sasl.username": "u"}, "sasl.username needs bootstrap.servers"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        ProducerConfig.from_mapping(settings)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("serializer.class", "nowhere.at.all:Encoder", "serializer.class = nowhere.at.all:Encoder"),
        ("serializer.class", "collections:OrderedDict", "no method to_message"),
        ("key.serializer.class", "json", "package.module:Class, such as kafka.serializer.DefaultEncoder"),
        ("partitioner.class", "collections:OrderedDict", "no method partition"),
        ("event.handler", "collections:OrderedDict", "no method handle"),
        ("callback.handler", "collections:OrderedDict", "no method after_dequeuing_existing_data"),
        ("callback.handler.props", "a", "callback.handler.props"),
    ],
)
def test_a_class_that_there_is_not_is_refused(tmp_path: object, setting: str, value: str, message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        Producer({"log.dir": str(tmp_path), "producer.type": "async", setting: value})
