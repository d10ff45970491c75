"""What the reader tells Spark between micro-batches, and what it reads; then through real queries."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_commitlog.arrow.columns import schema_of
from pyspark_commitlog.pipeline.read.admission import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from pyspark_commitlog.pipeline.read.open_logs import OpenLogs
from pyspark_commitlog.pipeline.read.options import ReadOptions, Use
from pyspark_commitlog.pipeline.read.stream import UNDECIDED, StreamReader
from pyspark_commitlog.pipeline.read.task_ranges import OffsetRange
from pyspark_commitlog.storage import (
    CorruptRecordError,
    GroupOffsets,
    InvalidConfigError,
    LogDirLockedError,
    LogManager,
    LogWatcher,
    OffsetOutOfRangeError,
    Origin,
    TopicPartition,
    UnknownTopicOrPartitionError,
    add_partitions,
)
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.recovery.loader import LogLoader
from pyspark_commitlog.storage.recovery.view import LoadedLog
from tests.pipeline.read.plain_offsets import PlainReader, plain
from tests.support.logs.building import end_transaction, open_files, records, replicated, write_transactional

ALL = ReadAllAvailable()


class Logs:
    """A log directory that tests write to, and queries that read it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.manager = LogManager.open(directory, create=True)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.manager.create_topic(topic, partitions=partitions, configs=named)

    def append(self, topic: str, partition: int, count: int, *, timestamp: int = 1000) -> None:
        """Appends ``count`` records in one batch; values are their offsets."""
        log = self.manager.open_log(topic, partition)
        first = log.log_end_offset
        log.append_records(records([b"%d" % (first + n) for n in range(count)], timestamps=timestamp))

    def delete_below(self, topic: str, partition: int, offset: int) -> None:
        """Deletes records as ``kafka-delete-records`` does."""
        place = (topic, partition)
        self.manager.write_marks({place: self.manager.marks(place)._replace(log_start_offset=offset)})

    def drop(self, topic: str) -> None:
        """Deletes the topic and all that is known about it; renames its directories first, as Kafka does."""
        self.manager.close()
        for path in Path(self.directory).glob(f"{topic}-*"):
            shutil.rmtree(path.rename(f"{path}.{'0' * 32}-delete"))
        path = Path(self.directory) / "topics.json"
        content = json.loads(path.read_text())
        del content["topics"][topic]
        changed = path.with_suffix(".changed")
        changed.write_text(json.dumps(content))
        changed.replace(path)  # a reader sees all of the old file or all of the new one
        for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
            (Path(self.directory) / name).unlink(missing_ok=True)
        self.manager = LogManager.open(self.directory)

    def reader(self, now_ms: Callable[[], int] | None = None, /, **options: str) -> StreamReader:
        given = {"path": self.directory, "startingOffsets": "earliest"}
        given |= {} if "subscribePattern" in options else {"subscribe": "a"}
        given |= {name.replace("_", "."): value for name, value in options.items()}
        parsed = ReadOptions.parse(given, Use.STREAM)
        return PlainReader(parsed, schema_of(["topic", "partition", "offset", "value"]), now_ms)


@pytest.fixture
def logs(log_dir: str) -> Iterator[Logs]:
    """Topic ``a``: 70 records in partition 0, 30 in partition 1."""
    logs = Logs(log_dir)
    logs.create("a", 2)
    logs.append("a", 0, 70)
    logs.append("a", 1, 30)
    yield logs
    logs.manager.close()


def planned(reader: StreamReader, start: Any, end: Any) -> list[tuple[str, int, int]]:
    found = []
    for part in reader.partitions(start, end):
        assert isinstance(part, OffsetRange)
        found.append((str(part.source), part.start, part.end))
    return found


def read(reader: StreamReader, start: Any, end: Any) -> dict[str, list[int]]:
    """Returns the offsets of a micro-batch by partition."""
    found: dict[str, list[int]] = {}
    for part in reader.partitions(start, end):
        for batch in reader.read(part):
            for row in batch.to_pylist():
                assert row["value"] == b"%d" % row["offset"]
                found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    return found


# Where to begin


@pytest.mark.parametrize(
    ("options", "initial"),
    [
        pytest.param({}, {"0": 0, "1": 0}, id="earliest"),
        pytest.param({"startingOffsets": '{"a": {"0": 5, "1": -2}}'}, {"0": 5, "1": 0}, id="offsets"),
        pytest.param({"startingTimestamp": "1500"}, {"0": 70, "1": 30}, id="a time"),
        pytest.param({"startingTimestamp": "0"}, {"0": 0, "1": 0}, id="a time before the log"),
        pytest.param(
            {"startingOffsetsByTimestamp": '{"a": {"0": 2000, "1": 1}}'}, {"0": 70, "1": 0}, id="a time for each"
        ),
    ],
)
def test_query_begins_at_the_requested_offsets(logs: Logs, options: dict[str, str], initial: dict[str, int]) -> None:
    for partition in (0, 1):
        logs.append("a", partition, 5, timestamp=2000)
    assert logs.reader(**options).initialOffset() == {"a": initial}


@pytest.mark.parametrize(
    ("options", "initial"),
    [
        pytest.param({"startingOffsets": "latest"}, {"0": 70, "1": 30}, id="latest"),
        pytest.param({"startingOffsets": '{"a": {"0": -1, "1": 3}}'}, {"0": 70, "1": 3}, id="the latest of one"),
        pytest.param(
            {"startingTimestamp": "9999", "startingOffsetsByTimestampStrategy": "latest"},
            {"0": 70, "1": 30},
            id="a time without a record",
        ),
    ],
)
def test_start_that_may_change_is_the_end_of_an_empty_first_micro_batch(
    logs: Logs, options: dict[str, str], initial: dict[str, int]
) -> None:
    """Spark asks again for the initial offset of a failed micro-batch, when the log has grown."""
    reader = logs.reader(**options)
    start = reader.initialOffset()
    assert start == UNDECIDED
    end = reader.latestOffset(start, ALL)
    assert end == {"a": initial}
    assert reader.partitions(start, end) == []
    logs.append("a", 0, 1)
    assert reader.latestOffset(end, ALL) == {"a": {"0": 71, "1": 30}}
    again = logs.reader(**options)
    assert again.partitions(again.initialOffset(), end) == []


def test_start_outside_the_log_is_refused(logs: Logs) -> None:
    with pytest.raises(OffsetOutOfRangeError, match="offset 71 of a-0 is outside the log, which begins at 0 and ends"):
        logs.reader(startingOffsets='{"a": {"0": 71, "1": 0}}').initialOffset()


def test_start_at_partitions_that_do_not_exist_is_refused(logs: Logs) -> None:
    with pytest.raises(InvalidConfigError, match="names partitions that are not read: a-2"):
        logs.reader(startingOffsets='{"a": {"0": 1, "1": 0, "2": 0}}').initialOffset()


def test_topic_that_does_not_exist_is_refused(logs: Logs) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=r"no topic 'aa'.*did you mean 'a'"):
        logs.reader(subscribe="aa").initialOffset()


@pytest.mark.parametrize("is_available_now", [False, True])
def test_partition_without_its_directory_is_named(logs: Logs, is_available_now: bool) -> None:
    logs.manager.close()
    shutil.rmtree(Path(logs.directory) / "a-1")
    reader = logs.reader()
    if is_available_now:
        reader.prepareForTriggerAvailableNow()
    with pytest.raises(UnknownTopicOrPartitionError, match="no directories of partitions a-1"):
        reader.initialOffset()


def test_options_without_effect_are_logged_once(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    reader = logs.reader(kafka_noticed_once="1")
    for _ in range(2):
        reader.latestOffset(reader.initialOffset(), ALL)
    assert caplog.text.count("kafka.noticed.once") == 1


# How far


def test_offsets_in_a_checkpoint_are_those_of_sparks_kafka_source(logs: Logs) -> None:
    logs.create("b")
    reader = logs.reader(subscribe="a,b")
    assert reader.latestOffset({"a": {"0": 1}}, ALL) == {"a": {"0": 70, "1": 30}, "b": {"0": 0}}


@pytest.mark.parametrize(
    ("options", "limit", "end"),
    [
        pytest.param({"maxOffsetsPerTrigger": "10"}, ReadMaxRows(10), {"0": 7, "1": 3}, id="in proportion to lag"),
        pytest.param({"maxOffsetsPerTrigger": "1000"}, ReadMaxRows(1000), {"0": 70, "1": 30}, id="more than there is"),
        pytest.param({"maxBytesPerTrigger": "1"}, ReadMaxBytes(1), {"0": 70, "1": 30}, id="a batch at least"),
        pytest.param(
            {"maxOffsetsPerTrigger": "10", "maxBytesPerTrigger": "1"}, ReadMaxRows(10), {"0": 7, "1": 3}, id="both"
        ),
        pytest.param({"minOffsetsPerTrigger": "500"}, ReadMinRows(500), {"0": 70, "1": 30}, id="the first never waits"),
        pytest.param({}, ALL, {"0": 70, "1": 30}, id="none"),
    ],
)
def test_micro_batch_keeps_to_the_limits(logs: Logs, options: dict[str, str], limit: Any, end: dict[str, int]) -> None:
    reader = logs.reader(**options)
    assert reader.getDefaultReadLimit() == limit
    assert reader.latestOffset(reader.initialOffset(), limit) == {"a": end}
    assert reader.reportLatestOffset() == {"a": {"0": 70, "1": 30}}, "what lag is counted from"


def test_no_limit_applies_if_spark_asks_for_all_as_with_trigger_once(logs: Logs) -> None:
    reader = logs.reader(maxOffsetsPerTrigger="10", minOffsetsPerTrigger="5", maxBytesPerTrigger="1")
    assert reader.latestOffset(reader.initialOffset(), ALL) == {"a": {"0": 70, "1": 30}}


def test_bytes_of_a_micro_batch_are_those_of_the_log(logs: Logs) -> None:
    """Ten batches of ten records in one partition; a limit of three and a half batches."""
    logs.create("b")
    log = logs.manager.open_log("b", 0)
    for n in range(10):
        logs.append("b", 0, 10)
        size = log.segments.active.size // (n + 1)
    reader = logs.reader(subscribe="b", maxBytesPerTrigger=str(size * 7 // 2))
    ends, start = [], reader.initialOffset()
    while start != (end := reader.latestOffset(start, reader.getDefaultReadLimit())):
        ends.append(end["b"]["0"])
        start = end
    assert ends == [30, 60, 90, 100]


def test_too_few_records_wait_for_more_or_for_the_delay(logs: Logs) -> None:
    now = 0
    reader = logs.reader(lambda: now, minOffsetsPerTrigger="10", maxTriggerDelay="5s")
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)
    logs.append("a", 0, 9)
    assert reader.latestOffset(start, limit) == start
    logs.append("a", 1, 1)
    assert reader.latestOffset(start, limit) == {"a": {"0": 79, "1": 31}}
    logs.append("a", 1, 1)
    start = {"a": {"0": 79, "1": 31}}
    assert reader.latestOffset(start, limit) == start
    now = 5000
    assert reader.latestOffset(start, limit) == {"a": {"0": 79, "1": 32}}


def test_available_now_ends_where_the_log_ended_at_its_start(logs: Logs) -> None:
    reader = logs.reader(maxOffsetsPerTrigger="40", minOffsetsPerTrigger="30")
    reader.prepareForTriggerAvailableNow()
    start, ends = reader.initialOffset(), []
    limit = reader.getDefaultReadLimit()
    while start != (end := reader.latestOffset(start, limit)):
        ends.append(end["a"])
        logs.append("a", 0, 100)
        start = end
    assert ends == [{"0": 28, "1": 12}, {"0": 56, "1": 24}, {"0": 70, "1": 30}]
    assert reader.reportLatestOffset() == {"a": {"0": 70, "1": 30}}


def test_latest_start_under_available_now_has_nothing_to_read(logs: Logs) -> None:
    reader = logs.reader(startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    logs.append("a", 0, 5)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    assert start == {"a": {"0": 70, "1": 30}}
    assert reader.latestOffset(start, ALL) == start


def test_topic_created_after_available_now_began_is_for_the_next_run(logs: Logs) -> None:
    reader = logs.reader(subscribePattern="a|b")
    reader.prepareForTriggerAvailableNow()
    logs.create("b")
    logs.append("b", 0, 3)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == {"a": {"0": 70, "1": 30}}


def test_a_micro_batch_ends_before_trailing_markers(logs: Logs) -> None:
    """A power cut may take a marker that is not synced, and give its offset to a record."""
    logs.create("b")
    log = logs.manager.open_log("b", 0)
    write_transactional(log, 7, 0, b"0", b"1")
    reader = logs.reader(subscribe="b")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == {"b": {"0": 0}}
    assert logs.reader(subscribe="b", isolation_level="read_uncommitted").latestOffset(start, ALL) == {"b": {"0": 2}}
    end_transaction(log, 7, commit=True)
    assert reader.latestOffset(start, ALL) == {"b": {"0": 2}}
    assert read(reader, start, {"b": {"0": 2}}) == {"b-0": [0, 1]}
    of_kafka = {"b": {"0": 3}}
    assert reader.latestOffset(of_kafka, ALL) == of_kafka, "a checkpoint that Kafka's source wrote lies behind them"
    logs.append("b", 0, 1)
    assert read(reader, of_kafka, reader.latestOffset(of_kafka, ALL)) == {"b-0": [3]}


# What a query's own process asks of this reader between two micro-batches. Spark starts such a process for each query.
PLANNING = """
import sys
from pyspark_commitlog.pipeline.datasource import CommitLogDataSource

options = {"path": sys.argv[1], "subscribe": "a,b", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "90"}
source = CommitLogDataSource(options | {"maxBytesPerTrigger": "1000"})
reader = source.streamReader(source.schema())
reader.prepareForTriggerAvailableNow()
start, count = reader.initialOffset(), 0
while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
    count += sum(part.end - part.start for part in reader.partitions(start, end))
    reader.commit(end)
    start = end
print(count, end["b"]["0"], "numba" in sys.modules)
"""


def test_query_is_planned_without_importing_numba(logs: Logs) -> None:
    """Importing it and loading kernels would take longer than a first micro-batch."""
    logs.create("b")
    for _ in range(3):
        logs.append("b", 0, 2)
    ran = subprocess.run(
        [sys.executable, "-c", PLANNING, logs.directory], capture_output=True, text=True, timeout=120, check=True
    )
    assert ran.stdout.split() == ["106", "6", "False"]


# What is read


def test_micro_batches_are_read_one_after_the_other_while_the_log_grows(logs: Logs) -> None:
    reader = logs.reader()
    start, found = reader.initialOffset(), []
    for _ in range(3):
        end = reader.latestOffset(start, ALL)
        found.append({name: (each[0], each[-1], len(each)) for name, each in read(reader, start, end).items()})
        start = end
        logs.append("a", 0, 10)
    assert found == [{"a-0": (0, 69, 70), "a-1": (0, 29, 30)}, {"a-0": (70, 79, 10)}, {"a-0": (80, 89, 10)}]


def test_partitions_and_topics_created_later_are_read_from_their_beginning(logs: Logs) -> None:
    reader = logs.reader(subscribePattern="a|b.")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    logs.create("b1")
    logs.append("b1", 0, 3)
    end = reader.latestOffset(start, ALL)
    assert end == {"a": {"0": 70, "1": 30}, "b1": {"0": 3}}
    assert read(reader, start, end) == {"b1-0": [0, 1, 2]}


def test_partition_created_after_the_first_plan_is_read_by_the_next_micro_batch(logs: Logs) -> None:
    """The first one failed: Spark asks for the initial offset again, and repeats the plan."""
    logs.create("t")
    logs.append("t", 0, 3)
    before = logs.reader(subscribe="t", startingOffsets="earliest")
    end = before.latestOffset(before.initialOffset(), ALL)
    add_partitions(logs.manager, "t", 2)
    logs.append("t", 1, 2)
    after = logs.reader(subscribe="t", startingOffsets="earliest")
    assert read(after, after.initialOffset(), end) == {"t-0": [0, 1, 2]}
    assert read(after, end, after.latestOffset(end, ALL)) == {"t-1": [0, 1]}
    with pytest.raises(UnknownTopicOrPartitionError, match="no longer subscribed: t-0"):
        planned(logs.reader(subscribe="a"), {"a": {"0": 70, "1": 30}, "t": {"0": 3}}, {"a": {"0": 70, "1": 30}})


def test_query_on_a_pattern_waits_for_its_first_topic(logs: Logs) -> None:
    reader = logs.reader(subscribePattern="b.")
    start = reader.initialOffset()
    assert start == {}
    assert reader.latestOffset(start, ALL) == start
    logs.create("b1")
    logs.append("b1", 0, 3)
    assert read(reader, start, reader.latestOffset(start, ALL)) == {"b1-0": [0, 1, 2]}


def test_tasks_are_planned_as_in_a_batch_read(logs: Logs) -> None:
    start, end = {"a": {"0": 10, "1": 0}}, {"a": {"0": 70, "1": 30}}
    assert planned(logs.reader(), start, end) == [("a-0", 10, 70), ("a-1", 0, 30)]
    assert planned(logs.reader(), end, end) == []
    assert planned(logs.reader(maxRecordsPerPartition="40"), start, end) == [
        ("a-0", 10, 40),
        ("a-0", 40, 70),
        ("a-1", 0, 30),
    ]


def test_planned_micro_batch_is_read_though_its_segments_are_replaced(logs: Logs) -> None:
    logs.create("k", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    log = logs.manager.open_log("k", 0)
    for n in range(6):
        log.append_records(records([b"%d" % n], keys=[b"%d" % (n % 2)]))
        log.roll()
    reader = logs.reader(subscribe="k")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    parts = reader.partitions(start, end)
    Cleaner().clean(log, 0, log.context.clock.now_ms())
    found = [offset for part in parts for batch in reader.read(part) for offset in batch["offset"].to_pylist()]
    assert found == [4, 5]
    assert reader.latestOffset(start, ALL) == end


def test_task_opens_a_log_again_that_seems_to_end_before_the_plan(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of NFS answers from its cache until a file is opened again; the query failed, or skipped records."""
    reader = logs.reader()
    start, end = {"a": {"0": 0, "1": 0}}, {"a": {"0": 70, "1": 30}}
    assert len(read(reader, start, end)) == 2
    logs.append("a", 0, 5)
    (part,) = reader.partitions(end, {"a": {"0": 75, "1": 30}})
    monkeypatch.setattr(LogWatcher, "catch_up", lambda *_: None)
    found = [offset for batch in reader.read(part) for offset in batch["offset"].to_pylist()]
    assert found == [*range(70, 75)]


def test_log_is_opened_once_for_all_micro_batches(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    load = LogLoader.view

    def view(loader: LogLoader) -> LoadedLog:
        opened.append(loader.context.directory)
        return load(loader)

    monkeypatch.setattr(LogLoader, "view", view)
    reader = logs.reader()
    start = reader.initialOffset()
    for _ in range(5):
        logs.append("a", 0, 1)
        end = reader.latestOffset(start, ALL)
        read(reader, start, end)
        start = end
    looks_and_reads = 2
    assert len(opened) <= 2 * looks_and_reads


def test_recreated_topic_is_read_with_its_new_settings(logs: Logs) -> None:
    reader = logs.reader()
    assert read(reader, {"a": {"0": 69}}, {"a": {"0": 70}}) == {"a-0": [69]}
    logs.drop("a")
    logs.create("a", cleanup_policy="compact")
    log = logs.manager.open_log("a", 0)
    for n in range(5):
        log.append(replicated(b"%d" % (n * 20), base_offset=n * 20), origin=Origin.REPLICATION)
        log.roll()
    assert read(reader, {"a": {"0": 1}}, {"a": {"0": 81}}) == {"a-0": [20, 40, 60, 80]}


def test_only_so_many_logs_keep_their_files_open(logs: Logs) -> None:
    open_logs = OpenLogs(logs.directory, kept=1)
    found = open_logs.catch_up([TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("a", 2)])
    assert [str(each) for each in found] == ["a-0", "a-1"]

    def with_files() -> list[bool]:
        return ["_file" in vars(log.segments.active) for log in found.values()]

    assert with_files() == [False, True]
    assert open_logs.get(TopicPartition("a", 0)).offset_within(0, 70, 1) == 70
    assert with_files() == [True, False]
    assert open_logs.catch_up(found) == found, "what is known of a log stays"
    open_logs.close()
    assert with_files() == [False, False]


def test_files_of_a_deleted_topic_are_given_back(logs: Logs) -> None:
    """Their disk space is free only then."""
    logs.create("b")
    logs.append("b", 0, 3)
    reader = logs.reader(subscribePattern="a|b", failOnDataLoss="false")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    logs.drop("b")
    reader.latestOffset(start, ALL)
    assert open_files(Path(logs.directory) / "b-0") == 0
    assert open_files(Path(logs.directory) / "a-0")


def test_a_log_that_is_deleted_once_it_was_caught_up_can_still_be_asked_for(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as it is known: the query ended with a KeyError."""
    open_logs, catch_up = OpenLogs(logs.directory), LogWatcher.catch_up
    partition = TopicPartition("b", 0)
    logs.create("b")
    logs.append("b", 0, 3)
    open_logs.catch_up([partition])

    def deleted_afterwards(log: LogWatcher, *marks: Any) -> None:
        catch_up(log, *marks)
        logs.drop("b")

    monkeypatch.setattr(LogWatcher, "catch_up", deleted_afterwards)
    assert [*open_logs.catch_up([partition])] == [partition]
    assert open_logs.get(partition).log_end_offset == 3
    assert not open_logs.catch_up([partition])
    assert open_files(Path(logs.directory) / "b-0") == 0


# What is lost


def lose_by_retention(logs: Logs) -> tuple[str, dict[str, list[int]]]:
    logs.delete_below("a", 0, 68)
    return r"a-0 now begins at offset 68: offsets 60 to 67 were not read", {"a-0": [68, 69], "a-1": [*range(30)]}


def lose_topic(logs: Logs) -> tuple[str, dict[str, list[int]]]:
    logs.drop("a")
    return r"no longer exist, or are no longer subscribed: a-0, a-1", {}


def recreate_topic(logs: Logs) -> tuple[str, dict[str, list[int]]]:
    logs.drop("a")
    logs.create("a", 2)
    logs.append("a", 0, 2)
    return r"a-0 ends at 2, but was read up to 60", {"a-0": [0, 1]}


@pytest.mark.parametrize("lose", [lose_by_retention, lose_topic, recreate_topic])
@pytest.mark.parametrize("running", [True, False], ids=["running", "restarted"])
def test_lost_records_stop_a_query_unless_data_loss_is_allowed(
    logs: Logs,
    lose: Callable[[Logs], tuple[str, dict[str, list[int]]]],
    running: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    start = {"a": {"0": 60, "1": 0}}
    strict, lenient = logs.reader(), logs.reader(failOnDataLoss="false")
    if running:
        assert strict.latestOffset(start, ALL) == lenient.latestOffset(start, ALL)
    told, left = lose(logs)
    with pytest.raises((OffsetOutOfRangeError, UnknownTopicOrPartitionError), match=f"{told}.*failOnDataLoss=false"):
        strict.partitions(start, strict.latestOffset(start, ALL))
    with caplog.at_level(logging.WARNING):
        end = lenient.latestOffset(start, ALL)
        assert read(lenient, start, end) == left
    assert "because failOnDataLoss is false" in caplog.text
    assert lenient.latestOffset(end, ALL) == end
    assert read(lenient, end, end) == {}


@pytest.mark.parametrize("limit", [{"maxBytesPerTrigger": "1"}, {"maxOffsetsPerTrigger": "10"}, {}])
def test_available_now_ends_even_if_its_records_vanish(logs: Logs, limit: dict[str, str]) -> None:
    logs.create("b")
    logs.append("b", 0, 3)
    reader = logs.reader(subscribePattern="a|b", failOnDataLoss="false", **limit)
    reader.prepareForTriggerAvailableNow()
    start, found = reader.initialOffset(), dict[str, list[int]]()
    logs.drop("a")
    while start != (end := reader.latestOffset(start, reader.getDefaultReadLimit())):
        for partition, offsets in read(reader, start, end).items():
            found.setdefault(partition, []).extend(offsets)
        start = end
    assert found == {"b-0": [0, 1, 2]}


@contextmanager
def without(topic: str, logs: Logs) -> Iterator[None]:
    """Within the ``with`` block, the partitions of a topic are not there, as on a disk that is not mounted."""
    away = Path(logs.directory).with_name("away")
    away.mkdir()
    for path in Path(logs.directory).glob(f"{topic}-*"):
        path.rename(away / path.name)
    yield
    for path in away.iterdir():
        path.rename(Path(logs.directory) / path.name)


def test_query_continues_where_it_was_once_a_missing_topic_is_back(logs: Logs) -> None:
    """Spark stores the end of a micro-batch before it is planned: an end without the topic would lose its offsets."""
    logs.create("b")
    logs.append("b", 0, 3)
    reader = logs.reader(subscribePattern="a|b")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    told = "no longer exist, or are no longer subscribed: a-0, a-1"
    with without("a", logs), pytest.raises(UnknownTopicOrPartitionError, match=told):
        reader.latestOffset(start, ALL)
    logs.append("a", 0, 2)
    restarted = logs.reader(subscribePattern="a|b")
    assert read(restarted, start, restarted.latestOffset(start, ALL)) == {"a-0": [70, 71]}


@pytest.mark.parametrize("running", [True, False], ids=["running", "restarted"])
def test_topic_that_was_missing_when_the_end_was_planned_is_reported_though_it_is_back(
    logs: Logs, running: bool
) -> None:
    """The next micro-batch would read all of its records again."""
    logs.create("b")
    logs.append("b", 0, 3)
    lenient = logs.reader(subscribePattern="a|b", failOnDataLoss="false")
    start = lenient.latestOffset(lenient.initialOffset(), ALL)
    with without("a", logs):
        end = lenient.latestOffset(start, ALL)
    assert end == {"b": {"0": 3}}
    strict = logs.reader(subscribePattern="a|b")
    if running:
        strict.latestOffset(strict.initialOffset(), ALL)
    with pytest.raises(UnknownTopicOrPartitionError, match="no longer exist, or are no longer subscribed: a-0, a-1"):
        strict.partitions(start, end)


def test_end_of_a_log_that_ends_before_the_start_is_not_stored(logs: Logs) -> None:
    """It may be an older copy: with the right one in its place, a query that was to go back would never go on."""
    told, _ = recreate_topic(logs)
    with pytest.raises(OffsetOutOfRangeError, match=told):
        logs.reader().latestOffset({"a": {"0": 60, "1": 0}}, ALL)


def test_new_partition_without_its_first_records_is_reported(logs: Logs) -> None:
    start = {"a": {"0": 70}}
    logs.delete_below("a", 1, 4)
    reader = logs.reader()
    end = reader.latestOffset(start, ALL)
    with pytest.raises(OffsetOutOfRangeError, match="a-1 is new and begins at offset 4"):
        reader.partitions(start, end)


@pytest.mark.parametrize("lose", [lose_by_retention, lose_topic])
def test_records_lost_between_planning_and_reading_are_reported(
    logs: Logs, lose: Callable[[Logs], tuple[str, dict[str, list[int]]]], caplog: pytest.LogCaptureFixture
) -> None:
    start, end = {"a": {"0": 60, "1": 0}}, {"a": {"0": 70, "1": 30}}
    strict, lenient = logs.reader(), logs.reader(failOnDataLoss="false")
    parts = strict.partitions(start, end)
    _, left = lose(logs)
    with pytest.raises((OffsetOutOfRangeError, UnknownTopicOrPartitionError), match="failOnDataLoss=false"):
        list(strict.read(parts[0]))
    with caplog.at_level(logging.WARNING):
        found = [offset for batch in lenient.read(parts[0]) for offset in batch["offset"].to_pylist()]
    assert found == left.get("a-0", [])
    assert "continuing with the remaining records" in caplog.text


@pytest.mark.parametrize("mode", ["failfast", "dropmalformed"])
@pytest.mark.parametrize("fails", ["true", "false"])
def test_records_deleted_while_a_task_reads_are_reported(
    logs: Logs, mode: str, fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    logs.create("s")
    for _ in range(3):
        logs.append("s", 0, 3)
        logs.manager.open_log("s", 0).roll()
    reader = logs.reader(subscribe="s", mode=mode, failOnDataLoss=fails)
    (part,) = reader.partitions({"s": {"0": 0}}, {"s": {"0": 9}})
    reading = (offset for batch in reader.read(part) for offset in batch["offset"].to_pylist())
    assert [next(reading) for _ in range(3)] == [0, 1, 2]
    for name in ("00000000000000000000.log", "00000000000000000003.log"):
        (Path(logs.directory) / "s-0" / name).unlink()
    told = "offsets 3 to 5 of s-0 were deleted before they were read"
    if fails == "true":
        with pytest.raises(OffsetOutOfRangeError, match=told):
            next(reading)
    else:
        assert [*reading] == [6, 7, 8]
        assert told in caplog.text


def test_planned_end_above_a_truncated_log_is_reported(logs: Logs) -> None:
    with pytest.raises(OffsetOutOfRangeError, match="a-0 ends at 70, but was to be read up to 75"):
        logs.reader().partitions({"a": {"0": 60, "1": 0}}, {"a": {"0": 75, "1": 30}})


@pytest.mark.parametrize("start", [{"a": 5}, {"a": {"x": 5}}, {"a": {"0": -2}}, {"a": {"0": "5"}}])
def test_checkpoint_without_offsets_is_refused(logs: Logs, start: Any) -> None:
    with pytest.raises(InvalidConfigError, match="of the checkpoint"):
        logs.reader().latestOffset(start, ALL)


def test_damage_stops_a_query_or_is_skipped(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    logs.append("a", 0, 5)
    logs.manager.open_log("a", 0).checkpoint()
    path = Path(logs.directory) / "a-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    start, end = {"a": {"0": 0, "1": 30}}, {"a": {"0": 75, "1": 30}}
    with pytest.raises(CorruptRecordError, match=r"a-0/00000000000000000000.log.*position 0"):
        read(logs.reader(), start, end)
    with caplog.at_level(logging.WARNING):
        assert read(logs.reader(mode="dropmalformed"), start, end) == {"a-0": [70, 71, 72, 73, 74]}
    assert "skipped, because of option mode" in caplog.text


# The group


def test_progress_is_committed_for_the_group_once_spark_is_done_with_it(logs: Logs) -> None:
    def committed() -> dict[tuple[str, int], int]:
        found = GroupOffsets(LogManager.open(logs.directory)).fetch("g")
        return {partition: each.offset for partition, each in found.items()}

    reader = logs.reader(kafka_group_id="g", maxOffsetsPerTrigger="10")
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert committed() == {}
    reader.latestOffset(end, limit)
    assert committed() == {("a", 0): 7, ("a", 1): 3}
    reader.commit({"a": {"0": 9, "1": 4}})
    assert committed() == {("a", 0): 9, ("a", 1): 4}
    reader.stop()


def test_group_that_cannot_be_committed_for_is_refused_at_once(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(_: LogManager) -> None:
        raise LogDirLockedError("a running Kafka broker holds this directory")

    monkeypatch.setattr(LogManager, "check_writable", locked)
    with pytest.raises(LogDirLockedError, match="running Kafka broker"):
        logs.reader(kafka_group_id="g").initialOffset()
    assert logs.reader().initialOffset() == {"a": {"0": 0, "1": 0}}


def test_reader_can_be_sent_to_workers_before_it_is_used(logs: Logs) -> None:
    reader = cloudpickle.loads(cloudpickle.dumps(logs.reader()))  # type: ignore[no-untyped-call]
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert end == {"a": {"0": 70, "1": 30}}


# Through Spark


class Stream:
    """A query that resumes from one checkpoint, however often it is run."""

    def __init__(self, spark: SparkSession, logs: Logs, checkpoint: str) -> None:
        self.spark, self.logs, self.checkpoint = spark, logs, checkpoint
        self.batches: list[list[str]] = []  # the values of each micro-batch since the last run, by partition and offset

    def frame(self, **options: str) -> DataFrame:
        given = options if "subscribePattern" in options else {"subscribe": "a"} | options
        return self.spark.readStream.format("commitlog").options(**given).load(self.logs.directory)

    def start(
        self, frame: DataFrame, write: Callable[[DataFrame, int], None] | None = None, **trigger: Any
    ) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(write or self.keep)
        return writer.option("checkpointLocation", self.checkpoint).trigger(**trigger).start()

    def run(self, **options: str) -> list[list[str]]:
        """Runs to the end of the current records."""
        self.start(self.frame(**options), availableNow=True).awaitTermination()
        found, self.batches = self.batches, []
        return found

    def replace_last_offsets(self, text: str) -> None:
        """Replaces offsets in the checkpoint, in the format of Spark's Kafka source."""
        last = max(Path(self.checkpoint, "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        head, offsets = last.read_text().rsplit("\n", 1)
        assert plain(json.loads(offsets)).keys() == json.loads(text).keys()
        last.write_text(f"{head}\n{text}")
        (last.parent / f".{last.name}.crc").unlink()

    def keep(self, frame: DataFrame, _: int) -> None:
        rows = frame.orderBy("partition", "offset").selectExpr("cast(value as string) as value").collect()
        self.batches.append([row["value"] for row in rows])


@pytest.fixture
def stream(spark: SparkSession, logs: Logs, tmp_path: Path) -> Stream:
    return Stream(spark, logs, str(tmp_path / "checkpoint"))


def counted(start: int, end: int) -> list[str]:
    return [str(n) for n in range(start, end)]


def test_query_resumes_from_its_checkpoint_or_one_of_sparks_kafka_source(stream: Stream) -> None:
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "50", "kafka.group.id": "g"}
    query = stream.start(stream.frame(**options), availableNow=True)
    query.awaitTermination()
    assert stream.batches == [counted(0, 35) + counted(0, 15), counted(35, 70) + counted(15, 30)]
    source = query.recentProgress[0].sources[0]
    assert plain(json.loads(source.endOffset)) == {"a": {"0": 35, "1": 15}}
    assert json.loads(source.latestOffset) == {"a": {"0": 70, "1": 30}}, "what lag is counted from"
    stream.batches.clear()
    stream.replace_last_offsets('{"a":{"1":20,"0":70}}')
    stream.logs.append("a", 1, 5)
    assert stream.run(**options) == [counted(20, 35)]
    committed = GroupOffsets(stream.logs.manager).fetch("g")
    assert {partition: each.offset for partition, each in committed.items()} == {("a", 0): 70, ("a", 1): 35}


def test_a_wrong_option_is_the_last_line_of_the_error(stream: Stream) -> None:
    query = stream.start(stream.frame(maxOffsetsPerTrigger="many"), availableNow=True)
    with pytest.raises(StreamingQueryException) as failure:
        query.awaitTermination()
    lines = [line for line in str(failure.value).splitlines() if "Error" in line]
    assert "InvalidConfigError: option maxOffsetsPerTrigger" in lines[-1]


def test_first_micro_batch_is_repeated_with_the_same_records_after_it_failed(stream: Stream) -> None:
    """From the latest offsets of a first run, which found nothing to read."""

    def fail(frame: DataFrame, batch: int) -> None:
        stream.keep(frame, batch)
        raise ValueError("not written")

    assert stream.run() == [[]]
    stream.logs.append("a", 0, 3)
    with pytest.raises(StreamingQueryException, match="not written"):
        stream.start(stream.frame(), fail, availableNow=True).awaitTermination()
    assert stream.batches == [counted(70, 73)]
    stream.batches.clear()
    stream.logs.append("a", 0, 2)
    assert stream.run() == [counted(70, 73), counted(73, 75)]


def test_schema_of_a_stream_may_say_that_nothing_is_null_and_a_null_then_stops_the_query(stream: Stream) -> None:
    reader = stream.spark.readStream.schema("value binary not null, partition int not null, offset bigint not null")
    options = {"subscribe": "a", "startingOffsets": "earliest"}
    frame = reader.format("commitlog").options(**options).load(stream.logs.directory)
    assert not any(field.nullable for field in frame.schema)
    stream.start(frame, availableNow=True).awaitTermination()
    assert stream.batches == [counted(0, 70) + counted(0, 30)]
    stream.logs.manager.open_log("a", 1).append_records(records([b"30", None], timestamps=1000))
    with pytest.raises(StreamingQueryException, match=r"offsets 30 to 31 of a-1: column 'value' is null in 1 of 2"):
        stream.start(frame, availableNow=True).awaitTermination()


def test_once_reads_all_whatever_the_limits(stream: Stream) -> None:
    frame = stream.frame(startingOffsets="earliest", maxOffsetsPerTrigger="10")
    stream.start(frame, once=True).awaitTermination()
    assert stream.batches == [counted(0, 70) + counted(0, 30)]


def test_running_query_sees_what_is_appended_and_what_is_new_and_stops_when_a_topic_vanishes(stream: Stream) -> None:
    stream.logs.create("b1")
    query = stream.start(stream.frame(subscribePattern="b.*", startingOffsets="earliest"), processingTime="0 seconds")
    found = []
    for topic, count in (("b1", 2), ("b1", 1), ("b2", 3)):
        if topic not in stream.logs.manager.topics():
            stream.logs.create(topic)
        stream.logs.append(topic, 0, count)
        query.processAllAvailable()
        found.append([value for batch in stream.batches for value in batch])
        stream.batches.clear()
    assert found == [["0", "1"], ["2"], ["0", "1", "2"]]
    stream.logs.drop("b2")
    with pytest.raises(StreamingQueryException, match=r"UnknownTopicOrPartitionError: .* no longer exist.*: b2-0"):
        query.awaitTermination(120)


def test_stream_with_an_end_is_refused_with_the_reason(stream: Stream) -> None:
    query = stream.frame(endingOffsets="latest").writeStream.format("noop")
    with pytest.raises(PySparkException, match="endingOffsets is not valid in a streaming query"):
        query.option("checkpointLocation", stream.checkpoint).start().awaitTermination()
