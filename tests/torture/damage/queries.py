"""Damaged partitions before all that a user reads with: ``cat``, ``read_table``, Spark by batch and stream, export.

The inputs are those of :mod:`tests.torture.damage.reads`, as files; what may come of them is the same. A small query
takes Spark a hundred times as long as the engine, so that streams and exports see some of the inputs only.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F

from pyspark_commitlog.arrow.batches import TimeBeyondSparkError
from pyspark_commitlog.arrow.table import read_table
from pyspark_commitlog.pipeline.delta.command.arguments import parser
from pyspark_commitlog.pipeline.delta.export import query
from pyspark_commitlog.pipeline.job.run_query import run_available
from pyspark_commitlog.pipeline.job.session import spark_session
from pyspark_commitlog.storage import errors
from pyspark_commitlog.storage.errors import LogStoreError
from pyspark_commitlog.storage.reading.aborted import Isolation
from tests.cli.in_process import commitlog
from tests.support.disk.frozen_filesystem import FrozenFileSystem
from tests.torture.damage import oracle, reads
from tests.torture.damage.log_damage import damaged
from tests.torture.damage.reads import AS_WRITTEN, REFUSED
from tests.torture.damage.sound_logs import ROOT, Row, SoundLog
from tests.torture.suite import Run, Suite

STREAM_EVERY = 4  # inputs
EXPORT_EVERY = 8  # inputs
HERE = ("cat", "read_table")
COLUMNS = (0, 1, 3, 4)  # of a row: offset, time, key, value
OURS = (
    TimeBeyondSparkError.__name__,
    *(name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, LogStoreError)),
)


class RefusedError(Exception):
    """A reader said that something is damaged."""


def run(run: Run) -> None:
    reads.prepare()
    spark = session(run.directory)
    try:
        for case in run.cases():
            log = reads.draw(case.chance)
            damage = damaged(log, case.chance)
            disk = log.disk.changed(damage.changes)
            directory = written(disk, run.directory / "log")
            for name, level, way in ways(spark, log, directory, case.number):
                with run.watching(case, f"{name}, {level.value}, {log.name}: {damage.what}"):
                    run.note(f"{name}: {check(log, disk, level, way, is_here=name in HERE)}")
            run.passed()
    finally:
        spark.stop()


def session(directory: Path) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.streaming.metricsEnabled": "false",
    }
    found = spark_session("damaged queries", master="local[1]", settings=settings, delta=True)
    found.sparkContext.setLogLevel("OFF")
    return found


def written(disk: FrozenFileSystem, directory: Path) -> Path:
    """The files of the disk, in a directory without anything else."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for path in disk.list_directories():
        (directory / path.removeprefix(ROOT).lstrip("/")).mkdir(exist_ok=True)
    for path, data in disk.files.items():
        (directory / path.removeprefix(f"{ROOT}/")).write_bytes(data)
    return directory


Way = tuple[str, Isolation, Callable[[], list[Row]]]


def ways(spark: SparkSession, log: SoundLog, directory: Path, number: int) -> Iterator[Way]:
    for level in Isolation:
        yield "cat", level, partial(by_cat, directory, log.topic, level)
        yield "read_table", level, partial(by_read_table, directory, log.topic, level)
        yield "batch", level, partial(by_batch, spark, directory, log.topic, level)
    level = list(Isolation)[number // STREAM_EVERY % 2]
    if number % STREAM_EVERY == 0:
        yield "stream", level, partial(by_stream, spark, directory, log.topic, level)
    if number % EXPORT_EVERY == 0:
        yield "export", Isolation.READ_COMMITTED, partial(by_export, spark, directory, log.topic)


def check(
    log: SoundLog, disk: FrozenFileSystem, level: Isolation, way: Callable[[], list[Row]], *, is_here: bool
) -> str:
    """``is_here``: the log is read in this process, where warnings are heard."""
    try:
        with reads.hearing() as warnings:
            found = way()
    except RefusedError:
        return REFUSED
    if found == [oracle.part_of(row, COLUMNS) for row in log.rows[level]]:
        return AS_WRITTEN
    return oracle.judge(log, disk, level, found, warnings if is_here else None, COLUMNS)


# How it is read


def by_cat(directory: Path, topic: str, level: Isolation) -> list[Row]:
    done = commitlog("cat", "--log-dir", directory, "-t", topic, "-e", "-J", "--isolation-level", level.value)
    if done.code:
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stderr, "an error without a word"
        raise RefusedError
    reads.LOGGER.warning(done.stderr)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["offset"], row["ts"], _text(row, "key"), _text(row, "payload")) for row in rows]


def _text(row: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in row:
        return base64.b64decode(row[f"{name}_base64"])
    text = row.get(name)
    return None if text is None else str(text).encode()


def by_read_table(directory: Path, topic: str, level: Isolation) -> list[Row]:
    try:
        table = read_table(directory, topic, isolation=level)
    except LogStoreError as error:
        raise RefusedError from error
    times = [None if each is None else each.value // 1000 for each in table["timestamp"]]
    columns = (table[name].to_pylist() for name in ("offset", "key", "value"))
    return [(offset, -1 if time is None else time, key, value)
            for (offset, key, value), time in zip(zip(*columns, strict=True), times, strict=True)]  # fmt: skip


@contextmanager
def refusing() -> Iterator[None]:
    """Only errors of ours are refusals, whatever Spark puts around them."""
    try:
        yield
    except (PySparkException, Py4JError, LogStoreError) as error:
        if isinstance(error, LogStoreError) or any(name in str(error) for name in OURS):
            raise RefusedError from error
        raise


def by_batch(spark: SparkSession, directory: Path, topic: str, level: Isolation) -> list[Row]:
    with refusing():
        reader = spark.read.format("commitlog").option("subscribe", topic).option("isolation.level", level.value)
        return _collected(reader.load(str(directory)), "offset", "timestamp", "key", "value")


def _collected(frame: DataFrame, *names: str) -> list[Row]:
    offset, time, key, value = (F.col(name) for name in names)
    rows = frame.select(offset, F.unix_micros(time), key, value).collect()
    found = [
        (row[0], -1 if row[1] is None else row[1] // 1000, _bytes(row[2]), _bytes(row[3])) for row in rows
    ]  # fmt: skip
    return sorted(found)


def _bytes(text: bytearray | None) -> bytes | None:
    return None if text is None else bytes(text)


def by_stream(spark: SparkSession, directory: Path, topic: str, level: Isolation) -> list[Row]:
    rows: list[Row] = []
    options = {"subscribe": topic, "startingOffsets": "earliest", "isolation.level": level.value}
    checkpoint = directory.parent / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    with refusing():
        stream = spark.readStream.format("commitlog").options(**options).load(str(directory))
        writer = stream.writeStream.foreachBatch(
            lambda frame, _: rows.extend(_collected(frame, "offset", "timestamp", "key", "value"))
        )
        started = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        started.awaitTermination()
    return rows


def by_export(spark: SparkSession, directory: Path, topic: str) -> list[Row]:
    table, checkpoint = directory.parent / "table", directory.parent / "export"
    for path in (table, checkpoint):
        shutil.rmtree(path, ignore_errors=True)
    options: argparse.Namespace = parser("").parse_args(
        ["to-table", "--log-dir", str(directory), "--topic", topic, "--table", str(table),
         "--checkpoint", str(checkpoint)]
    )  # fmt: skip
    with refusing():
        stream, write, *_ = query(spark, options)
        run_available(stream, write, options.checkpoint, lambda *_: None)
        if not table.exists():
            return []
        return _collected(spark.read.format("delta").load(str(table)), "_offset", "_timestamp", "_key", "value")


SUITE = Suite("damaged directories", 2_000, run)
