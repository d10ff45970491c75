"""Loads of topics from brokers: each record once, into Parquet and Delta, and again from a point."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog.pipeline.delta.command.arguments import parser
from pyspark_commitlog.pipeline.delta.export import each_topic, is_load, load
from pyspark_commitlog.pipeline.delta.loads import broker_log
from pyspark_commitlog.pipeline.delta.parquet_folder import ParquetFolder
from pyspark_commitlog.pipeline.delta.tables import TableSink
from pyspark_commitlog.storage import (
    BatchFields,
    CorruptionError,
    FetchAnswer,
    InvalidConfigError,
    LogManager,
    OffsetOutOfRangeError,
    Producer,
    ProgressMismatchError,
    Records,
    TopicPartition,
    UnknownTopicOrPartitionError,
    delete_topic,
)
from tests.mirror.support import Place, delete_before, fill, numbered, place
from tests.support.logs.building import batch


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Place]:
    for partition in range(2):
        fill(tmp_path / "source", "t", numbered(0, 6), partition=partition, partitions=2)
    with place(tmp_path / "source") as found:
        yield found


class Load:
    """A command line that is run repeatedly."""

    def __init__(self, spark: SparkSession, source: Place, tmp_path: Path, table_format: str) -> None:
        self.spark, self.table_format, self.path = spark, table_format, tmp_path / "rows"
        self.file = tmp_path / "consumer.properties"
        self.file.write_text(f"bootstrap.servers={source.bootstrap}\ngroup.id=unused\n")

    def run(self, *flags: str, topic: str = "t") -> str:
        given = ["--consumer.config", str(self.file), "--topic", topic, "--table", str(self.path)]
        (options,) = each_topic(
            parser("").parse_args(["to-table", *given, "--table-format", self.table_format, *flags])
        )
        assert is_load(options)
        return str(load(self.spark, options))

    def rows(self) -> list[tuple[int, int, bytes]]:
        if self.table_format == "delta":
            frame = self.spark.read.format("delta").load(str(self.path))
        else:
            frame = self.spark.read.parquet(str(self.path / "current"))
        found = frame.select("_partition", "_offset", "value").collect()
        return sorted((row[0], row[1], bytes(row[2])) for row in found)


def expected(*spans: range) -> list[tuple[int, int, bytes]]:
    values = [value or b"" for _, value in numbered(0, 20)]
    return [(partition, offset, values[offset]) for partition, span in enumerate(spans) for offset in span]


@pytest.fixture(params=[pytest.param("delta", marks=pytest.mark.matrix), "parquet"])
def loads(request: pytest.FixtureRequest, spark: SparkSession, source: Place, tmp_path: Path) -> Load:
    return Load(spark, source, tmp_path, request.param)


def test_each_load_adds_what_is_new_and_goes_back_where_it_is_told(
    loads: Load, source: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_log, "TASK_OFFSETS", 4)
    assert (
        loads.run("--from-offsets", '{"t": {"0": 2}}')
        == "loaded: offsets 2 to 5 of partition 0, offsets 0 to 5 of partition 1"
    )
    assert loads.rows() == expected(range(2, 6), range(6))
    fill(source.directory, "t", numbered(6, 9), partition=1)
    assert loads.run() == "loaded: offsets 6 to 8 of partition 1"
    assert loads.run() == "loaded: nothing new"
    assert loads.run("--from-time", "2020-01-01").endswith(
        "offsets 0 to 5 of partition 0, offsets 0 to 8 of partition 1"
    )
    assert loads.rows() == expected(range(6), range(9))
    if loads.table_format == "parquet":
        assert ParquetFolder(str(loads.path)).next_offsets().offsets == {("t", 0): 6, ("t", 1): 9}


def test_records_that_were_deleted_before_they_were_loaded_are_an_error(loads: Load, source: Place) -> None:
    loads.run()
    fill(source.directory, "t", numbered(6, 9))
    fill(source.directory, "t", numbered(9, 12))
    delete_before(source, "t", 0, 9)
    with pytest.raises(OffsetOutOfRangeError, match="from offset 6 to 8 were not loaded"):
        loads.run()
    loads.run("--from-offsets", '{"t": {"0": 9}}')
    assert loads.rows() == expected([*range(6), *range(9, 12)], range(6))  # type: ignore[arg-type]


def test_a_topic_that_is_another_one_is_refused_unless_its_offsets_are_named(
    loads: Load, source: Place, tmp_path: Path
) -> None:
    loads.run()
    fill(tmp_path / "other", "t", numbered(0, 3), partitions=2)
    with place(tmp_path / "other") as other:
        loads.file.write_text(f"bootstrap.servers={other.bootstrap}\n")
        with pytest.raises(ProgressMismatchError, match="has rows of another log: topic t was deleted and made again"):
            loads.run()
        with pytest.raises(UnknownTopicOrPartitionError, match="the brokers have no topic 'other'; they have t"):
            loads.run(topic="other")
        loads.run("--from-offsets", '{"t": {"0": 0, "1": 0}}')
    assert loads.rows() == expected(range(3), range(0))


def test_a_topic_made_again_is_refused_unless_all_partitions_are_named(loads: Load, source: Place) -> None:
    loads.run()
    with LogManager.open(str(source.directory)) as manager:
        delete_topic(manager, "t")
    for partition in range(2):
        fill(source.directory, "t", numbered(0, 9), partition=partition, partitions=2)
    for flags in ((), ("--from-offsets", '{"t": {"0": 2}}')):
        with pytest.raises(ProgressMismatchError, match="topic t was deleted and made again"):
            loads.run(*flags)
    loads.run("--from-offsets", "earliest")
    assert loads.rows() == expected(range(9), range(9))
    assert loads.run() == "loaded: nothing new"


@pytest.mark.only_all
def test_a_load_keeps_what_another_one_added_after_it_had_looked_for_the_end(
    spark: SparkSession, source: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, commit = Load(spark, source, tmp_path, "delta"), TableSink.load

    def after_another(sink: TableSink, records: DataFrame, *rest: Any) -> None:
        monkeypatch.setattr(TableSink, "load", commit)
        fill(source.directory, "t", numbered(6, 9))
        loads.run()
        commit(sink, records, *rest)

    monkeypatch.setattr(TableSink, "load", after_another)
    loads.run()
    assert loads.rows() == expected(range(9), range(6))


def test_progress_is_right_for_partitions_whose_last_offsets_have_no_rows(loads: Load, source: Place) -> None:
    loads.run("--from-offsets", '{"t": {"0": 2, "1": 6}}')  # the end of partition 1
    assert loads.run() == "loaded: nothing new"
    append_aborted(source, 0)
    assert loads.run() == "loaded: offsets 6 to 7 of partition 0"
    delete_before(source, "t", 0, 8)
    assert loads.run() == "loaded: nothing new"
    fill(source.directory, "t", numbered(6, 9), partition=1)
    assert loads.run() == "loaded: offsets 6 to 8 of partition 1"
    assert loads.rows() == expected(range(2, 6), range(6, 9))


def append_aborted(source: Place, partition: int) -> None:
    """A record of an aborted transaction, and its marker."""
    with LogManager.open(str(source.directory)) as manager:
        log = manager.open_log("t", partition)
        fields = BatchFields(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        log.append_records(Records.to_append([None], [b"no"], int(time.time() * 1000)), fields)
        log.end_transaction(Producer(7, 1), commit=False)


@pytest.fixture
def delta(spark: SparkSession, source: Place, tmp_path: Path) -> Load:
    return Load(spark, source, tmp_path, "delta")


@pytest.mark.only_all
@pytest.mark.parametrize(
    "is_there",
    [
        pytest.param(False, id="before the rows are there"),
        pytest.param(True, id="after they are there", marks=pytest.mark.only_all),
    ],
)
def test_after_a_crash_of_a_load_that_went_back_the_next_one_has_each_row_once(
    delta: Load, source: Place, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    delta.run()
    overwrite = TableSink._overwrite

    def crash(*arguments: Any) -> None:
        if is_there:
            overwrite(*arguments)
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(TableSink, "_overwrite", crash)
        with pytest.raises(InterruptedError):
            delta.run("--from-offsets", '{"t": {"0": 2}}')
    fill(source.directory, "t", numbered(6, 9))
    assert delta.run() == "loaded: offsets 6 to 8 of partition 0"
    assert delta.rows() == expected(range(9), range(6))


@pytest.mark.only_all
def test_a_table_that_was_restored_is_loaded_from_where_it_was(delta: Load, source: Place, spark: SparkSession) -> None:
    delta.run("--from-offsets", '{"t": {"1": 4}}')
    version = spark.sql(f"DESCRIBE HISTORY delta.`{delta.path}`").agg({"version": "max"}).collect()[0][0]
    fill(source.directory, "t", numbered(6, 9))
    delta.run()
    spark.sql(f"RESTORE TABLE delta.`{delta.path}` TO VERSION AS OF {version}")
    assert delta.run() == "loaded: offsets 6 to 8 of partition 0"
    assert delta.rows() == expected(range(9), range(4, 6))


@pytest.mark.only_all
def test_progress_of_another_topic_or_damaged_is_refused(delta: Load, source: Place, spark: SparkSession) -> None:
    fill(source.directory, "other", numbered(0, 3))
    delta.run()
    with pytest.raises(ProgressMismatchError, match="has rows of topic t, not of other: give another path"):
        delta.run(topic="other")
    spark.sql(f"ALTER TABLE delta.`{delta.path}` SET TBLPROPERTIES ('commitlog.loaded' = '{{')")
    with pytest.raises(CorruptionError, match=r"property commitlog.loaded: .* Correct it, or remove it"):
        delta.run()
    spark.sql(f"ALTER TABLE delta.`{delta.path}` UNSET TBLPROPERTIES ('commitlog.loaded')")
    assert delta.run() == "loaded: nothing new"


class CutOff:
    """A broker whose answers end within the first batch."""

    def open(self) -> CutOff:
        return self

    def fetch(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, FetchAnswer]:
        return {each: FetchAnswer(batch(b"x").tobytes()[:-1], offset) for each, offset in positions.items()}

    def close(self) -> None:
        """Holds nothing."""


def test_a_load_that_gets_no_whole_batch_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_log, "_PATIENCE_S", 0.0)
    with pytest.raises(OffsetOutOfRangeError, match="has no whole batch of t-0 at offset 0, below 1"):
        list(broker_log.fetched(CutOff(), TopicPartition("t", 0), 0, 1))  # type: ignore[arg-type]


def test_either_a_directory_or_brokers_are_named(loads: Load) -> None:
    for given in ([], ["--log-dir", "x", "--consumer.config", str(loads.file)]):
        with pytest.raises(InvalidConfigError, match="name the log"):
            each_topic(parser("").parse_args(["to-table", "--topic", "t", "--table", "x", *given]))
    with pytest.raises(InvalidConfigError, match="takes no --checkpoint"):
        loads.run("--checkpoint", "x")
