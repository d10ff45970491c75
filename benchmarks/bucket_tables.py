"""A table on an object store with the tail of its log there, read in full, compared with Delta alone over all rows.

The rows are those of :mod:`benchmarks.tables`. versitygw runs on this machine and shares its cores: only the ratio
counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions as F

from benchmarks.bucket_servers import BUCKET, SERVERS, session_on
from benchmarks.comparison import Comparison, Setting
from benchmarks.floors import PARTITIONS
from benchmarks.reading import drain
from benchmarks.sessions import in_own_process, run_stream
from benchmarks.tables import ROWS, SERDE, TAIL, TOPIC
from benchmarks.timing import Timing, alternate
from pyspark_commitlog import commitlog_sink, table_sink, topic_table

LOG, TABLE, WHOLE = f"s3://{BUCKET}/log", f"s3a://{BUCKET}/table", f"s3a://{BUCKET}/whole"
SERVER = "versitygw"


def measure(setting: Setting) -> Iterator[Comparison]:
    rows = max(TAIL, setting.sized(ROWS))
    found = in_own_process(_measured, setting, rows)
    operation = f"read {rows:,} typed rows, of which 1 % are in the log only, on {SERVER}"
    yield Comparison(operation, "Delta, all rows", found["ours"], found["theirs"], 0.9)


def _measured(setting: Setting, rows: int) -> dict[str, Timing]:
    """Measures in a process that has no session yet."""
    with SERVERS[SERVER](setting.directory / SERVER) as store, session_on(store.port) as spark:
        tail = rows // TAIL
        _append(spark, 0, rows - tail)
        _export(spark, setting.directory)
        _append(spark, rows - tail, rows)
        topic_table(spark, LOG, TOPIC, TABLE).coalesce(PARTITIONS).write.format("delta").save(WHOLE)
        if (count := _whole(spark).count()) != rows:
            raise ValueError(f"{count} rows, not {rows}")
        peers = {"ours": lambda: drain(topic_table(spark, LOG, TOPIC, TABLE)), "theirs": lambda: drain(_whole(spark))}
        return alternate(peers, setting.rounds, warm_up=2)


def _whole(spark: SparkSession) -> DataFrame:
    return spark.read.format("delta").load(WHOLE)


def _append(spark: SparkSession, first: int, end: int) -> None:
    """Appends records in one micro-batch, whose number is the first of them."""
    numbers = {"item": F.col("id") % 1_000_000, "amount": F.col("id") * 7 % 1000}
    value = F.to_json(F.struct(*[number.alias(name) for name, number in numbers.items()]))
    sink = commitlog_sink(topic=TOPIC, log_dir=LOG, txnAppId="rows", partitions=PARTITIONS)
    sink(spark.range(first, end).select(value.cast("binary").alias("value")), first)


def _export(spark: SparkSession, directory: Path) -> None:
    reader = spark.readStream.format("commitlog").option("subscribe", TOPIC)
    stream = reader.option("startingOffsets", "earliest").option("includeHeaders", "true").load(LOG)
    writer = stream.writeStream.foreachBatch(table_sink(path=TABLE, serde=SERDE))  # type: ignore[arg-type]
    run_stream(writer, directory / "checkpoint")
