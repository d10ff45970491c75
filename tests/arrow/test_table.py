"""Topics as Arrow tables without Spark, compared with the records that were written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from pyspark_commitlog import read_table, tail
from pyspark_commitlog.arrow.batches import TimeBeyondSparkError
from pyspark_commitlog.storage import (
    BatchFields,
    InvalidConfigError,
    Isolation,
    LogManager,
    NotALogDirError,
    Origin,
    UnknownTopicOrPartitionError,
)
from pyspark_commitlog.storage.format.internal import control_records
from pyspark_commitlog.storage.format.tables import Bytes
from tests.support.logs.building import NOW_MS, records

COUNT = 300


@pytest.fixture
def log(log_dir: str) -> str:
    """Topic ``t``: partition 0 has 300 records, one per second from NOW_MS on, in batches of ten; partition 1 has 7."""
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=2, configs={"segment.bytes": "4096"})
        for partition, count in ((0, COUNT), (1, 7)):
            for first in range(0, count, 10):
                numbers = range(first, min(first + 10, count))
                manager.open_log("t", partition).append_records(
                    records(
                        [b"v%d" % number for number in numbers],
                        keys=[b"k%d" % number for number in numbers],
                        timestamps=[NOW_MS + number * 1000 for number in numbers],
                    )
                )
    return log_dir


def offsets(path: str, **arguments: object) -> list[tuple[int, int]]:
    """Returns (partition, offset) of each row."""
    table = read_table(path, "t", columns=["partition", "offset"], **arguments)  # type: ignore[arg-type]
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def of_first(start: int, end: int) -> list[tuple[int, int]]:
    return [(0, offset) for offset in range(start, end)]


def of_second(start: int, end: int) -> list[tuple[int, int]]:
    return [(1, offset) for offset in range(start, end)]


def test_rows_are_those_written_with_the_columns_of_the_data_source(log: str) -> None:
    assert read_table(log, "t", start=42, end=43).to_pylist() == [
        {
            "key": b"k42",
            "value": b"v42",
            "topic": "t",
            "partition": 0,
            "offset": 42,
            "timestamp": datetime.fromtimestamp(NOW_MS / 1000 + 42, UTC),
            "timestampType": 0,
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        pytest.param({}, of_first(0, COUNT) + of_second(0, 7), id="everything"),
        pytest.param({"start": 17, "end": 23}, of_first(17, 23), id="inside batches, where one partition ends before"),
        pytest.param({"start": 5}, of_first(5, COUNT) + of_second(5, 7), id="from an offset on"),
        pytest.param({"end": 2}, of_first(0, 2) + of_second(0, 2), id="up to an offset"),
        pytest.param({"start": COUNT - 1, "end": 10**6}, of_first(COUNT - 1, COUNT), id="beyond the end"),
        pytest.param({"start": 10**6}, [], id="all of it beyond the end"),
        pytest.param({"start": 3, "end": 3}, [], id="nothing"),
        pytest.param({"partition": 1}, of_second(0, 7), id="one partition"),
        pytest.param({"partition": [1, 0], "end": 1}, [(0, 0), (1, 0)], id="several, in their order"),
        pytest.param(
            {"by": "timestamp", "start": NOW_MS + 1500, "end": NOW_MS + 4000}, of_first(2, 4) + of_second(2, 4), id="ms"
        ),
        pytest.param(
            {"by": "timestamp", "start": datetime.fromtimestamp(NOW_MS / 1000 + 297, UTC)},
            of_first(297, COUNT),
            id="a datetime, younger than all of one partition",
        ),
        pytest.param({"by": "timestamp", "end": NOW_MS + 1001}, of_first(0, 2) + of_second(0, 2), id="up to a time"),
        pytest.param({"by": "timestamp", "start": NOW_MS + 10**9}, [], id="younger than all"),
    ],
)
def test_bounds_select_the_rows_of_the_table(
    log: str, arguments: dict[str, object], found: list[tuple[int, int]]
) -> None:
    assert offsets(log, **arguments) == found


def test_a_datetime_between_two_milliseconds_is_rounded_up(log: str) -> None:
    just_behind = datetime.fromtimestamp(NOW_MS / 1000, UTC).replace(microsecond=1)
    assert offsets(log, by="timestamp", start=just_behind, partition=1) == of_second(1, 7)
    assert offsets(log, by="timestamp", start=just_behind.isoformat(), partition=1) == of_second(1, 7)
    with pytest.raises(InvalidConfigError, match="start: 'noon' is neither ISO 8601"):
        offsets(log, by="timestamp", start="noon")


def test_columns_are_in_the_requested_order_with_headers_only_on_request(log: str) -> None:
    table = read_table(log, "t", end=1, partition=0, columns=["headers", "offset"])
    assert table.schema.names == ["headers", "offset"]
    assert table.to_pylist() == [{"headers": None, "offset": 0}]
    assert "headers" not in read_table(log, "t", end=1).schema.names


def test_a_topic_without_records_is_a_table_without_rows(log: str) -> None:
    with LogManager.open(log) as manager:
        manager.create_topic("empty", partitions=1)
    assert read_table(log, "empty").schema.names[:2] == ["key", "value"]
    assert read_table(log, "empty").num_rows == 0
    assert tail(log, "empty", 3).num_rows == 0


def test_records_below_the_log_start_are_not_in_the_table(log: str) -> None:
    with LogManager.open(log) as manager:
        manager.open_log("t", 0).delete_records(100)
    assert offsets(log, partition=0) == of_first(100, COUNT)
    assert offsets(log, partition=0, start=50, end=102) == of_first(100, 102)


def test_records_of_open_and_aborted_transactions_are_read_only_on_request(log: str) -> None:
    with LogManager.open(log) as manager:
        partition = manager.open_log("t", 1)
        of_producer = BatchFields(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        partition.append_records(records([b"x", b"y"]), of_producer)
    assert offsets(log, partition=1) == of_second(0, 7)
    assert offsets(log, partition=1, isolation="read_uncommitted") == of_second(0, 9)
    assert offsets(log, partition=1, isolation=Isolation.READ_UNCOMMITTED) == of_second(0, 9)


@pytest.mark.parametrize(
    ("n", "rows"),
    [
        pytest.param(0, [], id="none"),
        pytest.param(1, [(0, COUNT - 1), (1, 6)], id="one"),
        pytest.param(15, of_first(COUNT - 15, COUNT) + of_second(0, 7), id="across batches, more than a partition has"),
        pytest.param(10**6, of_first(0, COUNT) + of_second(0, 7), id="more than there are"),
    ],
)
def test_tail_is_the_last_records_of_each_partition(log: str, n: int, rows: list[tuple[int, int]]) -> None:
    table = tail(log, "t", n, columns=["partition", "offset"])
    assert list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)) == rows


def test_tail_searches_further_back_if_offsets_have_no_records_to_show(log: str) -> None:
    with LogManager.open(log) as manager:
        partition = manager.open_log("t", 1)
        for epoch in range(20):  # 7 records, then 20 aborted transactions of one record each
            of_producer = BatchFields(producer_id=5, producer_epoch=epoch, base_sequence=0, transactional=True)
            partition.append_records(records([b"x"]), of_producer)
            partition.append(abort_marker(producer_id=5, epoch=epoch), origin=Origin.COORDINATOR)
    assert tail(log, "t", 3, partition=1)["value"].to_pylist() == [b"v4", b"v5", b"v6"]


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        pytest.param({"topic": "tt"}, UnknownTopicOrPartitionError, "did you mean 't'", id="topic"),
        pytest.param({"partition": 2}, UnknownTopicOrPartitionError, r"partitions \[0, 1\], but not 2", id="partition"),
        pytest.param({"by": "time"}, InvalidConfigError, "'offset' or 'timestamp'", id="by"),
        pytest.param({"start": 9, "end": 3}, InvalidConfigError, "start 9 is after end 3", id="start behind end"),
        pytest.param({"start": -1}, InvalidConfigError, "start is -1", id="a negative offset"),
        pytest.param({"end": "3"}, InvalidConfigError, "end is '3'", id="text for an offset"),
        pytest.param({"start": datetime.now(UTC)}, InvalidConfigError, "an offset of 0 or more", id="a time by offset"),
        pytest.param(
            {"start": datetime(2020, 1, 1), "by": "timestamp"}, InvalidConfigError, "no time zone", id="no time zone"
        ),
        pytest.param({"columns": ["vlaue"]}, InvalidConfigError, "did you mean 'value'", id="column"),
        pytest.param({"columns": []}, InvalidConfigError, "at least one", id="no column"),
        pytest.param({"columns": "key"}, InvalidConfigError, r"such as \['key'\]", id="columns as text"),
        pytest.param({"isolation": "serializable"}, InvalidConfigError, "read_committed", id="isolation"),
        pytest.param({"path": "/nowhere"}, NotALogDirError, "/nowhere", id="path"),
    ],
)
def test_invalid_arguments_are_refused(
    log: str, arguments: dict[str, object], error: type[Exception], told: str
) -> None:
    call: Callable[..., object] = read_table
    with pytest.raises(error, match=told):
        call(**({"path": log, "topic": "t"} | arguments))


def abort_marker(*, producer_id: int, epoch: int) -> Bytes:
    return control_records.end_transaction_marker(
        commit=False,
        offset=0,
        leader_epoch=0,
        timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=0,
    )


def test_tail_of_a_negative_number_is_refused(log: str) -> None:
    with pytest.raises(InvalidConfigError, match="-1"):
        tail(log, "t", -1)


def test_spark_is_not_imported(log: str) -> None:
    program = (
        "import sys; from pyspark_commitlog import read_table, tail\n"
        f"print(read_table({log!r}, 't').num_rows, tail({log!r}, 't', 2).num_rows, 'pyspark' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["307", "4", "False"]


def test_time_beyond_timestamps_is_an_error_or_null(log_dir: str) -> None:
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append_records(records([b"a", b"b"], timestamps=[NOW_MS, NOW_MS * 1_000_000]))
    for read in read_table, tail:
        with pytest.raises(TimeBeyondSparkError, match=f"offset 1 of t-0: its time is {NOW_MS}000000 ms"):
            read(log_dir, "t")
        times = read(log_dir, "t", mode="permissive")["timestamp"].to_pylist()
        assert times == [datetime.fromtimestamp(NOW_MS / 1000, UTC), None]
        assert read(log_dir, "t", columns=["value"])["value"].to_pylist() == [b"a", b"b"]
        with pytest.raises(InvalidConfigError, match="mode is 'dropmalformed'"):
            read(log_dir, "t", mode="dropmalformed")


@pytest.mark.parametrize("time_ms", [2**63 - 1, 2**63, 2**80])
def test_bounds_beyond_all_times_and_offsets_are_those_of_the_log(log: str, time_ms: int) -> None:
    assert offsets(log, start=time_ms, by="timestamp") == offsets(log, start=time_ms) == []
    assert len(offsets(log, end=time_ms, by="timestamp")) == len(offsets(log, end=time_ms)) == COUNT + 7
