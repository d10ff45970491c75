"""The settings of a write for its topics: those of the producer, named as in Spark's Kafka sink."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.write.dataframe import WriteOptions
from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink
from pyspark_commitlog.pipeline.write.partitioners.setting import KafkasPartitioner
from pyspark_commitlog.pipeline.write.targets import ProducerSettings
from pyspark_commitlog.storage import COORDINATOR_TOPICS, Codec, InvalidConfigError, InvalidTopicError


def test_settings_are_accepted_as_named_in_sparks_kafka_sink() -> None:
    given = {"kafka.compression.type": "zstd", "Kafka.Batch.Size": "16384", "transaction.timeout.ms": 5000}
    found = ProducerSettings.parse(given)
    assert (found.compression.codec, found.batch_bytes, found.transaction_timeout_ms) == (Codec.ZSTD, 16384, 5000)


def test_settings_that_only_a_broker_needs_are_accepted_with_one_notice(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.bootstrap.servers": "b:9092", "kafka.acks": "all", "kafka.linger.ms": "5"}
    for _ in range(2):
        assert ProducerSettings.parse(given) == ProducerSettings.parse({})
    told = "change nothing here: kafka.acks, kafka.bootstrap.servers, kafka.linger.ms"
    assert [record.getMessage().endswith(told) for record in caplog.records] == [True]


def test_notice_names_no_values(caplog: pytest.LogCaptureFixture) -> None:
    ProducerSettings.parse({"kafka.sasl.jaas.config": "password=secret"})
    assert "kafka.sasl.jaas.config" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("given", "partitioner"),
    [
        ({"kafka.partitioner.ignore.keys": "true"}, KafkasPartitioner.ROUND_ROBIN),
        ({"kafka.partitioner.ignore.keys": "false"}, KafkasPartitioner.DEFAULT),
        ({"kafka.partitioner.class": "murmur2_random"}, KafkasPartitioner.MURMUR2_RANDOM),
        ({"partitioner.class": "murmur2_random", "partitioner.ignore.keys": "true"}, KafkasPartitioner.RANDOM),
        ({"partitioner.class": "random"}, KafkasPartitioner.RANDOM),
        ({"partitioner.class": "column", "partitioner.ignore.keys": "true"}, KafkasPartitioner.COLUMN),
    ],
)
def test_partitioner_is_named_as_by_kafkas_clients_and_may_ignore_keys(
    given: dict[str, str], partitioner: KafkasPartitioner
) -> None:
    assert ProducerSettings.parse(given).partitioner is partitioner


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kafka.key.serializer": "S"}, "kafka.key.serializer is not supported: .*cast the column key"),
        ({"kafka.value.serializer": "S"}, "cast the column value"),
        ({"kafka.interceptor.classes": "I"}, "kafka.interceptor.classes is not supported"),
        ({"kafka.transactional.id": "me"}, "txnAppId"),
        ({"kafka.compression.type": "brotli"}, "compression.type = 'brotli'"),
        ({"compression.type": "lz4", "kafka.compression.type": "zstd"}, "compression.type is given twice"),
        ({"partitioner.ignore.keys": "yes"}, "must be true or false"),
        ({"linger.ms": "5"}, "unknown producer setting 'linger.ms'"),
    ],
)
def test_settings_that_would_change_what_is_written_are_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        ProducerSettings.parse(given)


@pytest.mark.parametrize("name", [*COORDINATOR_TOPICS, "__share_group_state"])
def test_no_writer_of_sparks_takes_an_internal_topic(name: str, tmp_path: Path) -> None:
    """Neither as the topic, nor among others, nor for bad records; nothing is created."""
    log_dir = str(tmp_path / "log")
    for topic, topics, bad in ((name, None, None), (None, f"a,{name}", None), ("a", None, name)):
        with pytest.raises(InvalidTopicError, match=f"'{name}' is internal, and writing records into it is refused"):
            commitlog_sink(log_dir=log_dir, topic=topic, topics=topics, badRecords=bad)
        given = {"path": log_dir, "topic": topic, "topics": topics, "badRecords": bad}
        with pytest.raises(InvalidTopicError, match="internal"):
            WriteOptions.parse({key: value for key, value in given.items() if value is not None})
    assert not (tmp_path / "log").exists()
