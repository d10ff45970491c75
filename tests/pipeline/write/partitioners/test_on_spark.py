"""Partitioners of a user's own in Spark's workers, for the sink and for ``df.write``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F

from pyspark_commitlog import commitlog_sink
from pyspark_commitlog.storage import InvalidConfigError
from tests.support.logs.directories import directory_with_internal_topics

ROWS = 1_000_000
MODULE = """
import pyarrow.compute as pc
from pyspark_commitlog import RowPartitioner

class ByDigits:
    "Values of one digit to partition 0, of two to 1, and so on, up to the last."
    def __init__(self, base=0):
        self.base = base
    def place(self, rows, destination):
        digits = pc.add(pc.binary_length(rows["value"]), self.base - 1)
        return pc.min_element_wise(digits, destination.partitions - 1)

class ByLastByte(RowPartitioner):
    def partition(self, key, partitions):
        return key[-1] % partitions

class OnlyHere:
    "Cannot be created where tasks run."
    def __init__(self):
        from pyspark import TaskContext
        if TaskContext.get() is not None:
            raise RuntimeError("no such file on this machine")
    def place(self, rows, destination):
        return [0] * rows.num_rows

class Failing:
    def place(self, rows, destination):
        return {}["region"]
"""


@pytest.fixture(scope="module", autouse=True)
def module_of_mine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("mine") / "spark_partitioners_of_mine.py"
    path.write_text(MODULE)
    spark.sparkContext.addPyFile(str(path))


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return directory_with_internal_topics(tmp_path / "log")


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).select(
        F.when(F.col("id") % 10 > 0, F.col("id").cast("string")).alias("key"), F.col("id").cast("string").alias("value")
    )


def mine(name: str, **options: object) -> dict[str, object]:
    named = {f"partitioner.option.{option}": value for option, value in options.items()}
    return {"partitioner.class": f"spark_partitioners_of_mine:{name}", **named}


def table(spark: SparkSession, log_dir: str) -> DataFrame:
    return spark.read.format("commitlog").option("subscribe", "t").load(log_dir)


def by_digits(spark: SparkSession, log_dir: str) -> dict[int, tuple[int, int, int, int]]:
    """By partition: rows, the sum of their values, and the fewest and the most digits."""
    digits = F.length(F.col("value").cast("string"))
    total = F.sum(F.col("value").cast("string").cast("long"))
    found = table(spark, log_dir).groupBy("partition")
    rows = found.agg(F.count("*"), total, F.min(digits), F.max(digits)).collect()
    return {row[0]: tuple(row[1:]) for row in rows}


def test_a_million_rows_are_placed_by_a_class_of_ones_own(spark: SparkSession, log_dir: str) -> None:
    sink = commitlog_sink(topic="t", log_dir=log_dir, txnAppId="app", partitions=7, producer=mine("ByDigits", base=1))
    sink(numbers(spark, ROWS), 0)
    sink.close()
    assert by_digits(spark, log_dir) == {
        digits: (end - start, sum(range(start, end)), digits, digits)
        for digits, start, end in [(1, 0, 10), *((digits, 10 ** (digits - 1), 10**digits) for digits in range(2, 7))]
    }


def test_a_batch_write_takes_a_class_that_places_one_key_at_a_time(spark: SparkSession, log_dir: str) -> None:
    writer = numbers(spark, 1000).write.format("commitlog").mode("append").option("topic", "t").option("partitions", 10)
    writer.options(**{f"kafka.{name}": value for name, value in mine("ByLastByte").items()}).save(log_dir)
    rows = table(spark, log_dir).selectExpr("partition", "cast(key as string) as key").collect()
    assert len(rows) == 1000
    assert all(row.partition == ord(row.key[-1]) % 10 for row in rows if row.key)
    assert {row.partition for row in rows if row.key is None} == set(range(10))


def test_rows_are_spread_by_bytes(spark: SparkSession, log_dir: str) -> None:
    rows = spark.range(2000).selectExpr("'same' as key", "repeat('x', cast(id % 97 * id % 1013 as int)) as value")
    writer = rows.write.format("commitlog").mode("append").option("topic", "t").option("partitions", 4)
    writer.option("partitioner.class", "LeastBytesPartitioner").save(log_dir)
    found = table(spark, log_dir).groupBy("partition").agg(F.sum(F.length("value") + 11)).collect()
    bytes_of = [row[1] for row in found]
    assert len(bytes_of) == 4
    assert max(bytes_of) - min(bytes_of) < 2 * 1024  # less than a row of each of the two tasks


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("OnlyHere", "OnlyHere: cannot be created with no options: RuntimeError: no such file on this machine"),
        ("Failing", r"Failing: failed for topic t: KeyError: 'region' \(.*spark_partitioners_of_mine.py, line 28\)"),
    ],
)
def test_failure_in_a_task_is_the_error_and_no_row_is_seen(
    spark: SparkSession, log_dir: str, name: str, told: str
) -> None:
    rows = numbers(spark, 10)
    with pytest.raises(InvalidConfigError, match=told):
        commitlog_sink(topic="t", log_dir=log_dir, txnAppId="app", producer=mine(name))(rows, 0)
    with pytest.raises(PySparkException, match=told):
        rows.write.format("commitlog").mode("append").option("topic", "t").options(**mine(name)).save(log_dir)
    assert table(spark, log_dir).count() == 0
