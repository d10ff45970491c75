"""Read a table and the tail of its log at random moments, and look that the rows are those of the whole topic.

A schedule writes, ends transactions either way, exports, fails in the middle of an export, deletes what the table has,
compacts the log and the table, vacuums, and adds a field to the values. A model in memory has every record, and says
which rows a topic has that was never exported, deleted or compacted.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.arrow.values.serde import JsonSerde
from pyspark_commitlog.pipeline.delta import upserts
from pyspark_commitlog.pipeline.delta.table_and_tail import small_tail
from pyspark_commitlog.pipeline.delta.table_and_tail.kept import known_table
from pyspark_commitlog.pipeline.job.session import DELTA_SETTINGS, spark_session
from pyspark_commitlog.storage import (
    ConfigOverrides,
    InvalidConfigError,
    LogManager,
    MaintenanceRun,
    OutcomeStatus,
    TopicPartition,
    compact_partitions,
    in_this_process,
    select_partitions,
)
from pyspark_commitlog.storage.format import v2
from tests.pipeline.delta.table_and_tail.exported import FLIGHT, Exported
from tests.pipeline.delta.table_topics import raw
from tests.support.logs.building import NOW_MS, end_transaction, records
from tests.support.spark import spark_jvm
from tests.support.spark.delta_jars import delta_jars
from tests.support.spark.settings import settings
from tests.torture.suite import Run, Suite

PARTITIONS, KEYS, STEPS = 2, 6, 12
COMPARED, HELD = 0.5, 0.3  # how often, after a step: each comparison takes as long as a step
VACUUM = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # by default 10,000 tasks list a few files
}
KEEP_VERSIONS = ("write", "export", "optimize")  # steps after which a DataFrame from before still has its files
WIDER = JsonSerde(pa.schema([*FLIGHT.type, ("gate", pa.string())]))
Rows = Counter[tuple[object, ...]]


@dataclass(frozen=True)
class Written:
    """A record of the model, and its transaction."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    time_ms: int
    transaction: int | None = None

    def row(self, columns: list[str]) -> tuple[object, ...]:
        fields = json.loads(self.value) if self.value is not None else {}
        fields |= {"_key": self.key, "_partition": self.partition, "_offset": self.offset}
        return tuple(fields.get(name) for name in columns)


class Model:
    """All records of the topic, and how their transactions ended."""

    def __init__(self) -> None:
        self.records: list[Written] = []
        self.is_committed: dict[int, bool] = {}

    def visible(self) -> list[Written]:
        """Returns the committed records before the first open transaction of their partition."""
        open_at = dict.fromkeys(range(PARTITIONS), float("inf"))
        for each in self.records:
            if each.transaction is not None and each.transaction not in self.is_committed:
                open_at[each.partition] = min(open_at[each.partition], each.offset)
        return [
            each
            for each in self.records
            if each.offset < open_at[each.partition] and self.is_committed.get(each.transaction or 0, True)
        ]

    def rows(self, mode: str, columns: list[str]) -> Rows:
        found = self.visible()
        if mode == "upsert":
            found = [each for each in newest(found) if each.value is not None]
        return Counter(each.row(columns) for each in found)


def newest(found: list[Written]) -> list[Written]:
    """Returns the newest record of each key: by offset within a partition, between partitions by time."""
    of_partition: dict[tuple[bytes, int], Written] = {}
    for each in found:
        of_partition[each.key, each.partition] = each  # ascending offsets
    of_key: dict[bytes, Written] = {}
    for each in of_partition.values():
        other = of_key.get(each.key)
        if other is None or (each.time_ms, each.partition) > (other.time_ms, other.partition):
            of_key[each.key] = each
    return list(of_key.values())


class Schedule:
    """A topic, its table and the model, and what may happen to them."""

    def __init__(self, spark: SparkSession, folder: Path, chance: random.Random, mode: str) -> None:
        folder.mkdir(parents=True)
        self.chance, self.model = chance, Model()
        self.topic = Exported(spark, folder, mode, partitions=PARTITIONS)
        self.told: list[str] = []
        self._count = 0
        self._open: dict[int, int] = {}  # producer by partition
        self.write()
        self.export()

    def run(self, steps: int = STEPS) -> None:
        for _ in range(steps):
            step = self.chance.choice(self._steps())
            is_held = step.__name__ in KEEP_VERSIONS and self.chance.random() < HELD
            held = (self._both(), self._expected()) if is_held else None
            self.told.append(step.__name__)
            step()
            if held is not None:
                self._compare(*held, "a DataFrame from before the step")
            if self.chance.random() < COMPARED:
                self._compare(self._both(), self._expected(), "a new DataFrame")
        self._compare(self._both(), self._expected(), "a new DataFrame")

    def _steps(self) -> list[Callable[[], None]]:
        often = [self.write, self.write, self.transaction, self.end, self.export, self.fail, self.delete_exported]
        compact = [self.compact] if self.topic.mode == "upsert" else []
        return [*often, *compact, self.optimize, self.vacuum, self.add_field]

    def _both(self) -> DataFrame:
        """A tail is read by the call, or by the query as a long one is."""
        with patch.object(small_tail, "OFFSETS_MAX", self.chance.choice([0, small_tail.OFFSETS_MAX])):
            return self.topic.both()

    def _expected(self) -> Callable[[list[str]], Rows]:
        known = Model()
        known.records, known.is_committed = [*self.model.records], dict(self.model.is_committed)
        return lambda columns: known.rows(self.topic.mode, columns)

    def _compare(self, rows: DataFrame, expected: Callable[[list[str]], Rows], what: str) -> None:
        columns = [name for name in rows.columns if name not in ("_headers", "_timestamp")]
        found = Counter(raw(row) for row in rows.select(*columns).collect())
        missing, surplus = expected(columns) - found, found - expected(columns)
        told = f"{what} after {self.told}: lacks {missing}, has too many {surplus}"
        assert (missing, surplus) == (Counter(), Counter()), told

    # Steps

    def write(self) -> None:
        self._append(self.chance.randrange(PARTITIONS), None)

    def transaction(self) -> None:
        """Begins a transaction, or writes more in one that is open."""
        partition = self.chance.randrange(PARTITIONS)
        if partition not in self._open:
            self._count += 1
            self._open[partition] = self._count
            self._append(partition, self._count)

    def end(self) -> None:
        for partition, producer in self._open.items():
            is_committed = self.chance.random() < 0.5
            with LogManager.open(self.topic.log_dir) as manager:
                end_transaction(manager.open_log("t", partition), producer, commit=is_committed)
            self.model.is_committed[producer] = is_committed
        self._open.clear()

    def export(self) -> None:
        self.topic.export()

    def fail(self) -> None:
        """The query ends before a commit, between two of them, or after them; the next one repeats the micro-batch."""
        sink, moment = self.topic.sink(), self.chance.choice(["before", "within", "after"])

        def failing(records: DataFrame, batch_id: int) -> None:
            if moment != "before":
                sink(records, batch_id)
            raise OSError("killed")

        broken = patch.object(upserts, "_merge", side_effect=OSError("killed"))
        with suppress(PySparkException):
            if moment == "within":
                with broken:
                    self.topic.export_by(sink)
            else:
                self.topic.export_by(failing)

    def delete_exported(self) -> None:
        """What ``retain --keep-for-tables`` may do: deletes records that the table has."""
        with suppress(InvalidConfigError), LogManager.open(self.topic.log_dir) as manager:
            for number in range(PARTITIONS):
                log = manager.open_log("t", number)
                most = known_table(self.topic.table).known.offsets.get(TopicPartition("t", number), 0)
                if most > log.log_start_offset:
                    log.delete_records(self.chance.randint(log.log_start_offset, most))

    def compact(self) -> None:
        overrides = ConfigOverrides.parse(["cleanup.policy=compact", "min.cleanable.dirty.ratio=0"])
        with LogManager.open(self.topic.log_dir) as manager:
            for number in range(PARTITIONS):
                manager.open_log("t", number).roll()
        run = MaintenanceRun(self.topic.log_dir, overrides=overrides)
        with run.manager() as manager:
            selection = select_partitions(manager, ["t"], overrides)
        for outcome in compact_partitions(run, selection, in_this_process):
            assert outcome.status is OutcomeStatus.DONE, str(outcome)

    def optimize(self) -> None:
        for table in self._tables():
            table.optimize().executeCompaction()

    def vacuum(self) -> None:
        with settings(self.topic.spark, VACUUM):
            for table in self._tables():
                table.vacuum(0)

    def _tables(self) -> list[DeltaTable]:
        """Returns the table, and that of its tombstones."""
        paths, spark = [self.topic.table, upserts.deleted_keys(self.topic.table)], self.topic.spark
        return [DeltaTable.forPath(spark, path) for path in paths if Path(path, "_delta_log").is_dir()]

    def add_field(self) -> None:
        self.topic.serde = WIDER

    def _append(self, partition: int, producer: int | None) -> None:
        count = self.chance.randint(1, 5)
        drawn = [self._drawn() for _ in range(count)]
        times = [NOW_MS + 1000 * (len(self.model.records) + n) - 7000 * partition for n in range(count)]
        columns: dict[str, Any] = {"keys": [key for key, _ in drawn], "timestamps": times}
        encoded = records([value for _, value in drawn], **columns)
        with LogManager.open(self.topic.log_dir) as manager:
            log = manager.open_log("t", partition)
            first = log.log_end_offset
            if producer is None:
                log.append_records(encoded)
            else:
                fields = v2.BatchFields(producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
                log.append(v2.encode(encoded, fields))
        for n, (key, value) in enumerate(drawn):
            self.model.records.append(Written(partition, first + n, key, value, times[n], producer))

    def _drawn(self) -> tuple[bytes, bytes | None]:
        key = b"key %d" % self.chance.randrange(KEYS)
        if self.chance.random() < 0.25:
            return key, None
        value = {"carrier": self.chance.choice("ABC"), "delay": self.chance.randrange(100)}
        if self.topic.serde is WIDER:
            value["gate"] = self.chance.choice("XYZ")
        return key, json.dumps(value).encode()


@contextmanager
def torture_session(name: str) -> Iterator[SparkSession]:
    """A session with Delta, which logs nothing: most failures are made."""
    own = spark_jvm.SMALL | DELTA_SETTINGS | {"spark.jars": delta_jars(), "spark.ui.showConsoleProgress": "false"}
    spark = spark_session(name, master="local[2]", settings=own)
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def run(run: Run) -> None:
    """Half of the schedules are of each mode."""
    with torture_session("table schedules") as spark:
        for case in run.cases():
            with run.watching(case):
                mode = ("append", "upsert")[case.number % 2]
                Schedule(spark, run.directory / str(case.number), case.chance, mode).run()
            run.passed()


SUITE = Suite("schedules", 200, run)
