"""Spark and a client of Kafka on one topic: each reads what the other wrote, and a client gets a query's commits."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from pyspark_commitlog import commitlog_sink
from tests.support.gateway import serving

pytestmark = pytest.mark.slow

TIMEOUT_S = 60.0


def test_spark_and_a_client_read_what_the_other_wrote(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    with serving(log_dir) as gateway:
        producer = Producer({"bootstrap.servers": str(gateway.address)})
        for number in range(100):
            producer.produce("in", str(number))
        assert producer.flush(TIMEOUT_S) == 0
        consumer = Consumer(
            {"bootstrap.servers": str(gateway.address), "group.id": "g", "isolation.level": "read_committed"}
        )
        consumer.assign([TopicPartition("out", 0, 0)])
        assert consumer.consume(1, 0.5) == []  # it waits before there is anything to read; the topic is made for it
        source = spark.readStream.format("commitlog").option("subscribe", "in")
        query = (
            source.option("startingOffsets", "earliest")
            .load(str(log_dir))
            .select("key", "value")
            .writeStream.foreachBatch(commitlog_sink(topic="out", log_dir=str(log_dir)))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = [each.value() for each in consumer.consume(100, TIMEOUT_S)]
        consumer.close()
    assert found == [str(number).encode() for number in range(100)]
