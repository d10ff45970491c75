"""Batch reads: tasks, filter pushdown, columns, and damage."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.datasource import GreaterThanOrEqual, InputPartition

from pyspark_commitlog.arrow.columns import schema_of
from pyspark_commitlog.pipeline.read import batch as batch_module, open_logs, task_ranges
from pyspark_commitlog.pipeline.read.batch import BatchReader, FilteringBatchReader, batch_reader
from pyspark_commitlog.pipeline.read.options import ReadOptions, Use
from pyspark_commitlog.pipeline.read.stream import StreamReader
from pyspark_commitlog.pipeline.read.task_ranges import OffsetRange
from pyspark_commitlog.storage import (
    BatchFields,
    Codec,
    CorruptRecordError,
    InvalidRecordError,
    LogManager,
    LogReader,
    NotALogDirError,
    delete_topic,
)
from pyspark_commitlog.storage.segment.reader import SegmentReader
from tests.support.logs.building import NOW_MS, open_files, records

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
COUNT = 1000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topic ``t``: partition 0 has 1000 records, one per second, ten per batch, 100 per segment; partition 1 has 10."""
    path = str(tmp_path_factory.mktemp("batch") / "log")
    with LogManager.open(path, create=True) as manager:
        manager.create_topic("t", partitions=2)
        for partition, count in ((0, COUNT), (1, 10)):
            writer = manager.open_log("t", partition)
            for first in range(0, count, 10):
                times = [NOW_MS + number * 1000 for number in range(first, first + 10)]
                writer.append_records(
                    records([b"%d" % number for number in range(first, first + 10)], timestamps=times)
                )
                if first % 100 == 90:
                    writer.roll()
    return path


def reader(path: str, **options: str) -> BatchReader:
    parsed = ReadOptions.parse({"path": path, "subscribe": "t", **options})
    return batch_reader(parsed, schema_of(["value", "offset"]))


def tasks(found: BatchReader) -> list[tuple[int, int, int]]:
    return [
        (each.source.partition, each.start, each.end) for each in found.partitions() if isinstance(each, OffsetRange)
    ]


def read(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("commitlog").option("subscribe", "t").options(**options).load(path)


def offsets(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


# Tasks


def test_planning_warns_of_a_torn_end_so_that_the_driver_says_it(
    log: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark plans in a process of the driver, whose stderr is the driver's; tasks warn where they run."""
    shutil.copytree(Path(log) / "t-1", tmp_path / "log" / "t-1")
    *_, torn = sorted(each for each in (tmp_path / "log" / "t-1").glob("*.log") if each.stat().st_size)
    torn.write_bytes(torn.read_bytes() + torn.read_bytes()[:40])
    for empty in (tmp_path / "log" / "t-1").glob("*.log"):
        if not empty.stat().st_size:
            empty.unlink()
    path = str(tmp_path / "log")
    assert tasks(reader(path)) == [(1, 0, 10)]
    stream = ReadOptions.parse({"path": path, "subscribe": "t", "startingOffsets": "earliest"}, Use.STREAM)
    StreamReader(stream, schema_of(["value"])).initialOffset()
    told = [record.getMessage() for record in caplog.records if "skipping it as an unfinished" in record.getMessage()]
    assert told
    assert all(str(torn) in each for each in told)


def test_each_partition_is_one_task_unless_more_are_requested(log: str) -> None:
    assert tasks(reader(log)) == [(0, 0, COUNT), (1, 0, 10)]
    assert tasks(reader(log, minPartitions="3")) == [(0, 0, 500), (0, 500, 1000), (1, 0, 10)]
    assert tasks(reader(log, maxRecordsPerPartition="400")) == [(0, 0, 333), (0, 333, 666), (0, 666, 1000), (1, 0, 10)]


def test_a_large_partition_is_several_tasks(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_ranges, "TASK_BYTES", 3_000)
    found = tasks(reader(log))
    assert len([each for each in found if each[0] == 0]) > 2
    assert found[-1] == (1, 0, 10)


def test_empty_partitions_are_no_task_and_a_read_of_nothing_is_empty(log: str) -> None:
    nothing = reader(log, startingOffsets='{"t": {"0": 1000, "1": 10}}')
    assert tasks(nothing) == []
    assert list(nothing.read(InputPartition(None))) == []  # the task Spark makes where there is none


def test_tasks_together_read_every_record_once_wherever_they_split(log: str) -> None:
    found = reader(log, maxRecordsPerPartition="37")
    read_offsets = [
        offset for part in found.partitions() for batch in found.read(part) for offset in batch["offset"].to_pylist()
    ]
    assert read_offsets == [*range(COUNT), *range(10)]


def test_the_next_batch_is_read_while_spark_takes_one(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_read = [Event(), Event(), Event()]
    batches = batch_module.batches_of

    def watched(*given: Any) -> Iterator[pa.RecordBatch]:
        for batch, event in zip(batches(*given), is_read, strict=False):
            event.set()
            yield batch

    monkeypatch.setattr(batch_module, "batches_of", watched)
    monkeypatch.setattr(LogReader.records, "__kwdefaults__", {**LogReader.records.__kwdefaults__, "fetch_bytes": 100})
    found = reader(log)
    taken = found.read(found.partitions()[0])
    assert next(taken)["offset"].to_pylist() == [*range(10)]
    assert is_read[1].wait(60)
    assert not is_read[2].is_set()
    taken.close()


# Filters


def test_only_the_option_chooses_the_reader_with_filter_pushdown(log: str) -> None:
    assert type(reader(log)) is BatchReader
    assert type(reader(log, pushFilters="true")) is FilteringBatchReader


def test_a_filter_by_time_reads_only_the_segments_that_have_such_records(
    log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reader(log, pushFilters="true")
    assert isinstance(found, FilteringBatchReader)
    since = datetime.fromtimestamp(NOW_MS / 1000 + 905, UTC)
    found.pushFilters([GreaterThanOrEqual(("timestamp",), since)])
    assert tasks(found) == [(0, 905, COUNT)]
    decoded: set[int] = set()
    inner = SegmentReader.decode

    def decode(segment: SegmentReader, *arguments: object, **more: object) -> object:
        decoded.add(segment.base_offset)
        return inner(segment, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(SegmentReader, "decode", decode)
    everything = OffsetRange(task_ranges.TopicPartition("t", 0), 0, COUNT)  # as a task planned before would have it
    rows = [offset for batch in found.read(everything) for offset in batch["offset"].to_pylist()]
    assert rows == [*range(900, COUNT)]  # whole batches: Spark applies the filter again
    assert decoded == {900}


def test_filters_select_the_rows_that_satisfy_them(pushing: SparkSession, log: str) -> None:
    def left(condition: Column) -> list[tuple[int, int]]:
        return offsets(read(pushing, log, pushFilters="true").where(condition))

    since = F.lit(datetime.fromtimestamp(NOW_MS / 1000 + 500, UTC))
    inside = (F.col("partition") == 0) & (F.col("offset") >= 17) & (F.col("offset") < 23)
    assert left(inside) == [(0, offset) for offset in range(17, 23)]
    late = (F.col("timestamp") >= since) & (F.col("offset") % 100 == 1)
    assert left(late) == [(0, offset) for offset in (501, 601, 701, 801, 901)]
    listed = F.col("offset").isin(5, 500) & (F.col("topic") == "t")
    assert left(listed) == [(0, 5), (0, 500), (1, 5)]
    assert read(pushing, log, pushFilters="true").count() == COUNT + 10  # without any filter


def test_a_frame_keeps_its_first_filters_so_each_query_must_load_again(pushing: SparkSession, log: str) -> None:
    """Documents Spark 4.2; if this fails, remove the warning in docs/data_source.md."""
    frame = read(pushing, log, pushFilters="true")
    assert frame.where("offset < 5").count() == 10
    assert frame.count() == 10
    assert read(pushing, log, pushFilters="true").count() == COUNT + 10


def test_a_frame_keeps_its_first_plan_so_a_query_for_new_records_must_load_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Documents Spark 4.2; if this fails, remove the paragraph in docs/data_source.md."""
    path = str(tmp_path / "log")
    write(path, 3)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW planned_once USING commitlog OPTIONS (path '{path}', subscribe 't')")
    frame, view = read(spark, path), "SELECT * FROM planned_once"
    assert (frame.count(), spark.sql(view).count()) == (3, 3)
    write(path, 2)
    assert (frame.count(), spark.sql(view).count()) == (3, 3)
    assert read(spark, path).count() == 5


def test_a_plain_session_reads_and_pushdown_names_the_missing_setting(spark: SparkSession, log: str) -> None:
    assert read(spark, log).where("offset = 7").count() == 2
    with pytest.raises(PySparkException, match=f"DATA_SOURCE_PUSHDOWN_DISABLED.*{PUSHDOWN}"):
        read(spark, log, pushFilters="true").collect()


# Columns


def test_only_the_requested_columns_are_read_in_their_order(spark: SparkSession, log: str) -> None:
    frame = read(spark, log, columns="offset, value", startingOffsets='{"t": {"0": 999, "1": 10}}')
    assert frame.columns == ["offset", "value"]
    assert [tuple(row) for row in frame.collect()] == [(999, b"999")]


# Planning again, in a process that planned before


def write(path: str, count: int) -> None:
    with LogManager.open(path, create=True) as manager:
        if "t" not in manager.topics():
            manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append_records(records([b"v"] * count))


def test_a_plan_uses_the_current_state_of_the_log(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    write(path, 3)
    assert tasks(reader(path)) == [(0, 0, 3)]
    write(path, 2)
    assert tasks(reader(path)) == [(0, 0, 5)]
    with LogManager.open(path) as manager:
        manager.open_log("t", 0).roll()
        manager.open_log("t", 0).delete_records(4)
    assert tasks(reader(path)) == [(0, 4, 5)]
    with LogManager.open(path) as manager:
        delete_topic(manager, "t")
    write(path, 1)
    assert tasks(reader(path)) == [(0, 0, 1)]
    shutil.rmtree(path)
    with pytest.raises(NotALogDirError, match="no such directory"):
        reader(path).partitions()
    write(path, 2)
    assert tasks(reader(path)) == [(0, 0, 2)]


def test_planning_leaves_no_file_open_and_keeps_only_a_few_directories(tmp_path: Path) -> None:
    for number in range(2 * open_logs.DIRECTORIES_KNOWN):
        write(str(tmp_path / f"log-{number}"), 3)
        assert tasks(reader(str(tmp_path / f"log-{number}"), startingOffsetsByTimestamp='{"t": {"0": 0}}'))
    assert open_files(tmp_path) == 0
    assert len(open_logs._of_this_process) == open_logs.DIRECTORIES_KNOWN


# Damage


@pytest.fixture
def damaged(log: str, tmp_path: Path) -> str:
    """A copy in which the batch of offsets 20 to 29 in partition 0 has a flipped bit."""
    shutil.copytree(log, tmp_path / "log")
    path = tmp_path / "log" / "t-0" / "00000000000000000000.log"
    with LogManager.open(str(tmp_path / "log")) as manager, manager.open_reader("t", 0) as found:
        position = found.segments.first.position_reaching(20)
    assert position is not None
    data = bytearray(path.read_bytes())
    data[position + 80] ^= 1
    path.write_bytes(data)
    return str(tmp_path / "log")


def test_a_corrupt_batch_fails_the_query_with_path_and_position(spark: SparkSession, damaged: str) -> None:
    with pytest.raises(PySparkException, match=r"CorruptRecordError: .*00000000000000000000\.log, position \d+: "):
        read(spark, damaged).collect()


def test_a_corrupt_batch_is_skipped_if_the_mode_says_so(spark: SparkSession, damaged: str) -> None:
    found = offsets(read(spark, damaged, mode="dropmalformed", minPartitions="4").where("partition = 0"))
    assert found == [(0, offset) for offset in range(COUNT) if not 20 <= offset < 30]


@pytest.fixture
def with_late(log_dir: str) -> str:
    """Topic ``t``, where the second of three records has a time in nanoseconds instead of milliseconds."""
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=1)
        times = [NOW_MS, NOW_MS * 1_000_000, NOW_MS + 1]
        manager.open_log("t", 0).append_records(records([b"a", b"b", b"c"], timestamps=times))
    return log_dir


def streamed(spark: SparkSession, path: str, target: Path, **options: str) -> list[tuple[str, bool]]:
    """Returns values, and whether they have a time."""
    given = {"subscribe": "t", "startingOffsets": "earliest", **options}
    frame = spark.readStream.format("commitlog").options(**given).load(path).selectExpr("value", "timestamp")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{target}/checkpoint")
    writer.trigger(availableNow=True).start(f"{target}/out").awaitTermination()
    return with_times(spark.read.parquet(f"{target}/out"))


def with_times(frame: DataFrame) -> list[tuple[str, bool]]:
    rows = frame.selectExpr("cast(value as string) as value", "timestamp is not null as has").collect()
    return sorted((row.value, row.has) for row in rows)


def test_time_beyond_timestamps_fails_a_query_or_is_null(pushing: SparkSession, with_late: str, tmp_path: Path) -> None:
    told = f"TimeBeyondSparkError: offset 1 of t-0: its time is {NOW_MS}000000 ms"
    with pytest.raises(PySparkException, match=told):
        read(pushing, with_late).collect()
    with pytest.raises(PySparkException, match=told):
        streamed(pushing, with_late, tmp_path / "first")
    right = [("a", True), ("b", False), ("c", True)]
    assert with_times(read(pushing, with_late, mode="permissive")) == right
    assert streamed(pushing, with_late, tmp_path / "second", mode="permissive") == right


@pytest.mark.parametrize(
    ("condition", "values"),
    [("timestamp is not null", "ac"), ("timestamp is null", "b"), ("timestamp > timestamp_millis(1)", "ac")],
)
def test_filter_on_a_time_that_is_null_is_applied_as_spark_does(
    pushing: SparkSession, with_late: str, condition: str, values: str
) -> None:
    found = read(pushing, with_late, mode="permissive", pushFilters="true").where(condition)
    assert [value for value, _ in with_times(found)] == list(values)


@pytest.fixture
def with_bomb(log_dir: str) -> str:
    """Topic ``t``, with a single small batch that decompresses to 2 MiB."""
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append_records(records([bytes(2**21)]), BatchFields(codec=Codec.ZSTD))
    return log_dir


@pytest.mark.parametrize("use", Use)
def test_the_decompressed_size_of_a_batch_is_limited_by_an_option(with_bomb: str, use: Use) -> None:
    kind = {Use.BATCH: BatchReader, Use.STREAM: StreamReader}[use]

    def lengths(**options: str) -> list[int]:
        given = {"path": with_bomb, "subscribe": "t", "startingOffsets": "earliest", **options}
        found = kind(ReadOptions.parse(given, use), schema_of(["value"]))
        ranges = [OffsetRange(task_ranges.TopicPartition("t", 0), 0, 1)]
        return [len(value) for part in ranges for batch in found.read(part) for value in batch["value"].to_pylist()]

    assert lengths() == lengths(**{"max.decompressed.bytes": str(2**21 + 100)}) == [2**21]
    with pytest.raises(
        InvalidRecordError, match=r"t-0/0+\.log, position 0: the zstd .* raise max\.decompressed\.bytes"
    ):
        lengths(**{"Max.Decompressed.Bytes": str(2**21)})


def test_skipped_batches_are_logged_one_by_one_and_counted(damaged: str, caplog: pytest.LogCaptureFixture) -> None:
    found = reader(damaged, mode="dropmalformed")
    rows = sum(batch.num_rows for part in found.partitions() for batch in found.read(part))
    assert rows == COUNT
    told = [record.getMessage() for record in caplog.records if "00000000000000000000.log" in record.getMessage()]
    assert len(told) == 1
    assert "position" in told[0]
    counted = [record.getMessage() for record in caplog.records if "corrupt batches" in record.getMessage()]
    assert counted == [f"t-0: skipped 1 corrupt batches in offsets 0 to {COUNT - 1}"]


def test_a_time_after_a_corrupt_batch_is_an_error_or_found_depending_on_the_mode(damaged: str) -> None:
    """The segment is small, so its batches are searched from its beginning."""
    at = str(NOW_MS + 45_000)
    with pytest.raises(CorruptRecordError, match=r"00000000000000000000\.log, position \d+"):
        reader(damaged, startingTimestamp=at, startingOffsetsByTimestampStrategy="latest").partitions()
    options = {"mode": "dropmalformed", "startingOffsetsByTimestampStrategy": "latest"}
    assert tasks(reader(damaged, startingTimestamp=at, **options))[0] == (0, 45, COUNT)
    within = str(NOW_MS + 25_000)  # a record that cannot be read
    assert tasks(reader(damaged, startingTimestamp=within, **options))[0] == (0, 30, COUNT)
