"""Loads from real brokers of Kafka 0.8.2.2 and 0.10.2.2, which a ZooKeeper knows."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.classic.wire import calls
from pyspark_commitlog.classic.wire.broker import Broker
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.storage import TopicPartition
from pyspark_commitlog.storage.format.legacy import v0
from tests.mirror.support import Place
from tests.pipeline.delta.test_broker_load import Load
from tests.support.kafka.old_kafka import OldBroker
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.logs.building import records
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

LARGE = b"x" * 5000
SETTINGS = {"num.partitions": 2, "log.segment.bytes": 6000}  # a file for each large message


def produce(broker: Broker, partition: int, *values: bytes) -> None:
    place = TopicPartition("t", partition)
    soon(lambda: calls.cluster(broker, ["t"]).partitions[place].leader >= 0, KeyError)
    for value in values:
        (found,) = calls.produce(broker, {place: v0.encode(records([value])).tobytes()}).values()
        calls.check(found.error, "t")


@pytest.mark.parametrize(("release", "table_format"), [("0.8.2.2", "delta"), ("0.10.2.2", "parquet")])
def test_a_topic_of_an_old_broker_is_loaded_once_and_again_from_a_time(
    spark: SparkSession, tmp_path: Path, release: str, table_format: str
) -> None:
    with (
        ZooKeeper(tmp_path / "zookeeper") as zookeeper,
        OldBroker(tmp_path / "kafka", zookeeper.connect, release=release, settings=SETTINGS) as kafka,
        Connection(Address("127.0.0.1", kafka.port)) as connection,
    ):
        broker = Broker(connection)
        loads = Load(spark, Place(tmp_path, "unused"), tmp_path, table_format)
        loads.file.write_text(f"zookeeper.connect={zookeeper.connect}\nfetch.message.max.bytes=1000\n")
        produce(broker, 0, b"a", LARGE, b"b")
        produce(broker, 1, b"c")
        assert loads.run() == "loaded: offsets 0 to 2 of partition 0, offsets 0 to 0 of partition 1"
        assert loads.rows() == [(0, 0, b"a"), (0, 1, LARGE), (0, 2, b"b"), (1, 0, b"c")]
        middle_ms = int(time.time() * 1000)
        produce(broker, 0, LARGE, b"d")
        assert loads.run() == "loaded: offsets 3 to 4 of partition 0"
        assert loads.run() == "loaded: nothing new"
        wanted = [(0, 0, b"a"), (0, 1, LARGE), (0, 2, b"b"), (0, 3, LARGE), (0, 4, b"d"), (1, 0, b"c")]
        for since in ("2020-01-01", str(middle_ms)):
            loads.run("--from-time", since)
            assert loads.rows() == wanted
        again = loads.run("--from-time", "2020-01-01")
        assert again in (
            "loaded: nothing new",
            "loaded again: offsets 0 to 4 of partition 0, offsets 0 to 0 of partition 1",
        )
