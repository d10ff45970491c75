"""Read a topic from an object store, compared with Delta from the same store through S3A, and with a log directory.

The servers run on this machine and share its cores: only ratios count. Ours with lz4 is compared with Delta's default
codec, and without compression with Delta without. Each reads all columns that it has: ours has those of Kafka's source,
Delta's table key, value and timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pyspark.sql import SparkSession, functions as F

from benchmarks.bucket_servers import BUCKET, SERVERS, session_on
from benchmarks.bucket_writing import CODECS, OF_DELTA, OF_DIRECTORY
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.floors import PARTITIONS
from benchmarks.reading import drain
from benchmarks.sessions import in_own_process
from benchmarks.timing import Timing, alternate_told, time_second_call
from benchmarks.writing import FILES, ROWS_A_FILE, Peers, write_files
from pyspark_commitlog import commitlog_sink

LOG, TABLES = f"s3://{BUCKET}/log", f"s3a://{BUCKET}"
OPERATION = f"read {FILES * ROWS_A_FILE:,} rows of {PARTITIONS} partitions into noop"
WARM_UP = 2


def measure(setting: Setting) -> Iterator[Comparison]:
    """Yield each comparison as soon as it is measured; only those on versitygw have limits."""
    write_files(setting.directory / "input", setting.sized(ROWS_A_FILE))
    for server in SERVERS:
        found = in_own_process(_measured, server, setting)
        asked, aim, most = (0.9, 1.5, 2.2) if server == "versitygw" else (None, None, None)
        for ours, theirs in CODECS.items():
            operation, timing = f"{OPERATION}, {ours}, on {server}", found[f"ours, {ours}"]
            yield Comparison(operation, f"{OF_DELTA}, {theirs}", timing, found[f"delta, {ours}"], asked, aim)
            yield Comparison(operation, OF_DIRECTORY, timing, found[f"posix, {ours}"], most, ratio=Ratio.SLOWER)


def _measured(server: str, setting: Setting) -> dict[str, Timing]:
    """Measure on one server, in a process that has no session yet."""
    log = str(setting.directory / f"log-{server}")
    with SERVERS[server](setting.directory / server) as store, session_on(store.port) as spark:
        peers: Peers = {}
        for ours, theirs in CODECS.items():
            peers |= _written(spark, str(setting.directory / "input"), log, ours, theirs)
        runs = {name: partial(time_second_call, run) for name, run in peers.items()}
        return alternate_told(runs, setting.rounds, WARM_UP)


def _written(spark: SparkSession, source: str, log: str, codec: str, of_delta: str) -> Peers:
    """Write the rows with a codec to the three places. Returns what reads them."""
    rows = spark.read.parquet(source)
    producer = {"compression.type": codec}
    for place in (LOG, log):
        commitlog_sink(topic=codec, log_dir=place, txnAppId=codec, partitions=PARTITIONS, producer=producer)(rows, 0)
    table = f"{TABLES}/{of_delta}"
    stamped = rows.withColumn("timestamp", F.current_timestamp())
    stamped.write.format("delta").option("compression", of_delta).save(table)
    return {
        f"ours, {codec}": partial(_read, spark, LOG, codec),
        f"delta, {codec}": lambda: drain(spark.read.format("delta").load(table)),
        f"posix, {codec}": partial(_read, spark, log, codec),
    }


def _read(spark: SparkSession, log: str, topic: str) -> None:
    drain(spark.read.format("commitlog").option("subscribe", topic).load(log))
