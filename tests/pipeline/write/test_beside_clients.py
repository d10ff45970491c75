"""Spark's sink and a client with one transactional id: one at a time, and each ends what the other left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, serving
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.transactions import WireProducer, committed

APP = "app"
OTHER_PRODUCER = 49


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    directory = directory_with_internal_topics(tmp_path / "log")
    quick = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 50}
    with serving(Path(directory), **quick) as started:
        yield started


def write(spark: SparkSession, gateway: Gateway, version: int) -> None:
    rows = spark.sql(f"select 'spark {version}' as value")
    options = {"topic": "t", "txnAppId": APP, "txnVersion": version}
    rows.coalesce(1).write.format("commitlog").mode("append").options(**options).save(gateway.context.log_dir)


def send(producer: WireProducer, value: bytes) -> None:
    assert producer.add("t") == 0
    assert producer.produce("t", value) == 0


def test_a_query_and_a_client_take_turns(spark: SparkSession, gateway: Gateway) -> None:
    write(spark, gateway, 0)
    with WireClient(gateway) as client:
        producer = WireProducer(client, APP)
        assert not producer.init(timeout_ms=60_000).error
        send(producer, b"client")
        with pytest.raises(PySparkException, match="in use by a gateway"):
            write(spark, gateway, 1)
        assert producer.end() == 0
    assert committed(gateway, "t") == [b"spark 0", b"client"]


def test_a_query_begins_after_clients_with_its_name_and_fences_them(spark: SparkSession, tmp_path: Path) -> None:
    directory = Path(directory_with_internal_topics(tmp_path / "log"))
    with serving(directory) as gateway, WireClient(gateway) as client:
        producer = WireProducer(client, APP)
        assert (
            not client.ask(19, 4, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}])
            .topics[0]
            .error_code
        )
        producer.init()
        send(producer, b"client")
        assert producer.end() == 0
        send(producer, b"left")
    with serving(directory) as gateway, WireClient(gateway) as client:
        write(spark, gateway, 0)
        assert committed(gateway, "t") == [b"client", b"spark 0"]
        producer.client = client
        assert producer.produce("t", b"late") == OTHER_PRODUCER
        assert producer.end() == OTHER_PRODUCER
        assert producer.init().error == 0
        send(producer, b"again")
        assert producer.end() == 0
    with serving(directory) as gateway:
        write(spark, gateway, 1)
        assert committed(gateway, "t") == [b"client", b"spark 0", b"again", b"spark 1"]
