"""Spark and a client of Kafka on one topic: each reads what the other wrote, and a client gets a query's commits."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyspark_commitlog import commitlog_sink
from pyspark_commitlog.gateway.server import Gateway
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


APP = "orders-app"  # of the query and of the client: a transactional id, and a group
TOPICS = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}


class Both:
    """A query and a client with one name, on the topics ``in`` and ``out`` of one directory."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.log_dir, self.checkpoint = spark, folder / "log", str(folder / "checkpoint")
        self.sink = commitlog_sink(topic="out", log_dir=str(self.log_dir), txnAppId=APP)

    def start_query(self, **trigger: object) -> StreamingQuery:
        source = self.spark.readStream.format("commitlog").option("subscribe", "in")
        read = source.option("startingOffsets", "earliest").load(str(self.log_dir)).select("key", "value")
        stream = read.writeStream.foreachBatch(self.sink).option("checkpointLocation", self.checkpoint)
        return stream.trigger(**trigger).start()  # type: ignore[arg-type]

    def produce(self, gateway: Gateway, value: str) -> None:
        producer = Producer({"bootstrap.servers": gateway.bootstrap_servers})
        producer.produce("in", value)
        assert producer.flush(TIMEOUT_S) == 0


def client_of(gateway: Gateway) -> Producer:
    return Producer({"bootstrap.servers": gateway.bootstrap_servers, "transactional.id": APP})


def read_all(gateway: Gateway, count: int) -> list[bytes]:
    reading = {"bootstrap.servers": gateway.bootstrap_servers, "group.id": "other", "enable.partition.eof": False}
    consumer = Consumer({**reading, "isolation.level": "read_committed", "enable.auto.commit": False})
    consumer.assign([TopicPartition("out", 0, 0)])
    found: list = []
    while len(found) < count:
        found += consumer.consume(count - len(found), TIMEOUT_S)
    found += consumer.consume(1, 1.0)
    consumer.close()
    return [each.value() for each in found]


def test_a_query_and_a_client_with_one_transactional_id_exclude_each_other(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path)
    with serving(both.log_dir, **TOPICS) as gateway:
        both.produce(gateway, "query 0")
        client = client_of(gateway)
        client.init_transactions(TIMEOUT_S)
        client.begin_transaction()
        client.produce("out", "client 0")
        assert client.flush(TIMEOUT_S) == 0
        with pytest.raises(StreamingQueryException, match="in use by a gateway"):
            both.start_query(availableNow=True).awaitTermination()
        client.commit_transaction(TIMEOUT_S)
        del client
    with serving(both.log_dir, **TOPICS) as gateway:  # the one before has let the id go
        query = both.start_query(processingTime="100 milliseconds")
        assert read_all(gateway, 2) == [b"client 0", b"query 0"]
        client = client_of(gateway)
        with pytest.raises(KafkaException):  # it tries again for that long
            client.init_transactions(2.0)
        both.produce(gateway, "query 1")
        assert read_all(gateway, 3)[2:] == [b"query 1"]
        query.stop()
        both.sink.close()
        client.init_transactions(TIMEOUT_S)
        client.begin_transaction()
        client.produce("out", "client 1")
        client.commit_transaction(TIMEOUT_S)
        assert read_all(gateway, 4) == [b"client 0", b"query 0", b"query 1", b"client 1"]


def test_a_query_and_a_consumer_with_one_group_keep_their_progress_apart(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path)
    with serving(both.log_dir, group_initial_rebalance_delay_ms=0, **TOPICS) as gateway:
        both.produce(gateway, "query 0")
        group = {"bootstrap.servers": gateway.bootstrap_servers, "group.id": APP, "enable.auto.commit": False}
        consumer = Consumer({**group, "auto.offset.reset": "earliest"})
        consumer.subscribe(["in"])
        assert [each.value() for each in consumer.consume(1, TIMEOUT_S)] == [b"query 0"]
        consumer.commit(asynchronous=False)
        both.start_query(availableNow=True).awaitTermination()
        both.produce(gateway, "query 1")
        both.start_query(availableNow=True).awaitTermination()
        both.sink.close()
        assert read_all(gateway, 2) == [b"query 0", b"query 1"]
        assert [each.value() for each in consumer.consume(1, TIMEOUT_S)] == [b"query 1"]
        consumer.close()
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers})
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([APP])[APP].result(TIMEOUT_S)
