"""Topics of any size, written and read through Spark, without input files."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions as F

from benchmarks.rows import KEY_BYTES, VALUE_BYTES
from pyspark_commitlog import commitlog_sink
from pyspark_commitlog.storage import LogManager

TASKS = 4


def make(directory: Path, topic: str, partitions: int = TASKS) -> None:
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic(topic, partitions=partitions)


def write(spark: SparkSession, directory: Path, topic: str, count: int) -> None:
    """Write ``count`` rows in one transaction, by four tasks."""
    commitlog_sink(topic=topic, log_dir=str(directory), txnAppId=topic)(rows(spark, count), 0)


def read(spark: SparkSession, directory: Path, topic: str) -> None:
    """Read all columns of all rows into noop."""
    frame = spark.read.format("commitlog").option("subscribe", topic).load(str(directory))
    frame.write.format("noop").mode("overwrite").save()


def rows(spark: SparkSession, count: int, tasks: int = TASKS) -> DataFrame:
    number = F.col("id").cast("string")
    return spark.range(0, count, 1, tasks).select(
        F.lpad(number, KEY_BYTES, "0").cast("binary").alias("key"),
        F.rpad(number, VALUE_BYTES, ".").cast("binary").alias("value"),
    )
