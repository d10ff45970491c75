"""Topics whose log or table, or both, are on an object store, in a process with a session that reaches it by S3A."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.pipeline.job.session import DELTA_SETTINGS, spark_session
from pyspark_commitlog.storage.bucket.root import open_root
from tests.pipeline.delta.table_and_tail.exported import Exported, counted, flight
from tests.pipeline.delta.table_topics import raw, run
from tests.support.spark import spark_jvm
from tests.support.spark.delta_jars import delta_jars
from tests.support.spark.s3a import s3a_jars, s3a_settings
from tests.support.stores.server import StoreServer

FEW_TASKS = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "2"}  # of 10,000, in which VACUUM lists files
Rows = Counter[tuple[object, ...]]


class Case(NamedTuple):
    """Where a topic and its table are, and the table's mode."""

    mode: str
    log_on_store: bool
    table_on_store: bool


class Found(NamedTuple):
    """What was read of a topic, and what a topic has that is decoded at once."""

    both: Rows
    expected: Rows
    streamed: list[tuple[object, ...]]  # offset and carrier, in the order of a stream over both


class Placed(Exported):
    """A topic of one partition with its log at ``log``, and its table at ``table``: paths, or URLs of a store."""

    def __init__(self, spark: SparkSession, folder: Path, log: str, table: str, mode: str) -> None:
        super().__init__(spark, folder, mode, partitions=1)
        if "://" in log:
            open_root(log, create=True, check=lambda _: [])
            self.log_dir = log
        self.table = table

    def write(self, *pairs: tuple[bytes, bytes | None]) -> None:
        rows = self.spark.createDataFrame(pairs, "key binary, value binary").coalesce(1)
        rows.write.format("commitlog").mode("append").option("topic", self.name).save(self.log_dir)

    def streamed(self) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []

        def keep(frame: DataFrame, _: int) -> None:
            found.extend(raw(row) for row in frame.select("_offset", "carrier").collect())

        run(self.over_both(maxOffsetsPerTrigger="2"), keep, self.folder / "checkpoint-of-both")
        return found


def found_on_store(port: int, folder: Path, cases: list[Case]) -> dict[Case, Found]:
    """Reads topics with rows in the table, and records after it, through an export, OPTIMIZE and VACUUM."""
    with session_on(port) as spark:
        return {case: _found(spark, folder / f"{number}", case) for number, case in enumerate(cases)}


def _found(spark: SparkSession, folder: Path, case: Case) -> Found:
    folder.mkdir()
    log = f"s3://logs/log-{folder.name}" if case.log_on_store else str(folder / "log")
    table = f"s3a://logs/table-{folder.name}" if case.table_on_store else str(folder / "table")
    topic = Placed(spark, folder, log, table, case.mode)
    topic.write((b"a", flight("UA", 1)), (b"b", flight("AA", 2)), (b"x", None))
    topic.export()
    topic.write((b"c", flight("DL", 3)))
    topic.export()
    spark.sql(f"OPTIMIZE delta.`{table}`")
    spark.sql(f"VACUUM delta.`{table}`")
    topic.write((b"a", flight("UA", 4)), (b"b", None), (b"d", flight("B6", 5)))
    return Found(counted(topic.both()), topic.expected(), topic.streamed() if case.mode == "append" else [])


def in_own_process(port: int, folder: Path, cases: list[Case]) -> dict[Case, Found]:
    """Returns :func:`found_on_store` of a new process, whose JVM has the jars of S3A."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(found_on_store, port, folder, cases).result()


@contextmanager
def session_on(port: int) -> Iterator[SparkSession]:
    """A session with Delta that reaches the store on ``port``; to be called once in a process."""
    os.environ.update(spark_jvm.ENVIRONMENT | StoreServer(Path(), port=port).environment())
    jars = {"spark.jars": ",".join([delta_jars(), *s3a_jars()])}
    own = spark_jvm.SMALL | DELTA_SETTINGS | jars | s3a_settings(port) | FEW_TASKS
    spark = spark_session("tables on a store", master="local[2]", settings=own)
    try:
        yield spark
    finally:
        spark.stop()
