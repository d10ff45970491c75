"""Tiers read by Spark and by read_table, beside what a consumer of the broker read."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog import read_table
from pyspark_commitlog.pipeline.read.options import ReadOptions
from pyspark_commitlog.storage import InvalidConfigError, Isolation
from tests.support.tiers import Broker, broker


@pytest.fixture(scope="module", params=["kafka", "aiven-zstd"])
def of_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    return broker(request.param, tmp_path_factory.mktemp(request.param))


@pytest.mark.parametrize("isolation", Isolation)
def test_spark_reads_a_log_directory_with_its_tier(
    spark: SparkSession, of_broker: Broker, isolation: Isolation
) -> None:
    found = (
        spark.read.format("commitlog")
        .option("tier", str(of_broker.tier))
        .option("subscribe", "t-txn")
        .option("maxRecordsPerPartition", 100)
        .option("isolation.level", isolation.value)
        .load(str(of_broker.log))
        .select("offset", "key", "value")
        .orderBy("offset")
        .collect()
    )
    expected = [(row[0], row[3], row[4]) for row in of_broker.rows("t-txn", isolation)]
    assert [(row.offset, _bytes(row.key), _bytes(row.value)) for row in found] == expected


def test_spark_reads_a_tier_alone(spark: SparkSession, of_broker: Broker) -> None:
    read = spark.read.format("commitlog").option("tier", str(of_broker.tier)).option("subscribe", "t-plain")
    offsets = [row.offset for row in read.load().select("offset").orderBy("offset").collect()]
    assert offsets == list(range(618))


@pytest.mark.parametrize("isolation", Isolation)
def test_read_table_reads_a_log_directory_with_its_tier(of_broker: Broker, isolation: Isolation) -> None:
    found = read_table(of_broker.log, "t-txn", tier=of_broker.tier, isolation=isolation)
    rows = zip(*(found.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True)
    assert [*rows] == [(row[0], row[3], row[4]) for row in of_broker.rows("t-txn", isolation)]


def test_read_table_reads_a_tier_alone(of_broker: Broker) -> None:
    assert read_table(None, "t-delrec", tier=of_broker.tier, start=300, end=400).num_rows == 100
    with pytest.raises(InvalidConfigError, match="path is None: give the log directory, or its tier"):
        read_table(None, "t-delrec")


def test_keys_without_a_tier_are_refused() -> None:
    with pytest.raises(InvalidConfigError, match="option tierKeys has no effect without option tier"):
        ReadOptions.parse({"path": "/log", "subscribe": "t", "tierKeys": "/key.pem"})


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
