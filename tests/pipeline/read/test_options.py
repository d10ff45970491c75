from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql.types import StructType

from pyspark_commitlog.arrow.table import read_table, tail
from pyspark_commitlog.pipeline.job.command_line import arguments, to_run
from pyspark_commitlog.pipeline.locations import local_directory
from pyspark_commitlog.pipeline.metrics.directory import DirectoryMetrics
from pyspark_commitlog.pipeline.metrics.queries import CommitLogMetrics
from pyspark_commitlog.pipeline.read.internal_topics import Decode
from pyspark_commitlog.pipeline.read.options import Columns, ReadOptions, Use
from pyspark_commitlog.pipeline.read.rate_limits import TriggerLimits, time_string_ms
from pyspark_commitlog.pipeline.read.subscription import Subscription
from pyspark_commitlog.pipeline.read.task_ranges import TaskLimits
from pyspark_commitlog.pipeline.rows.offsets import (
    EARLIEST,
    LATEST,
    AtEnd,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Bound,
    DataLoss,
)
from pyspark_commitlog.pipeline.rows.read_mode import ReadMode
from pyspark_commitlog.pipeline.write.dataframe import WriteOptions
from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink
from pyspark_commitlog.storage import (
    InvalidConfigError,
    Isolation,
    LogManager,
    TopicPartition,
    UnknownTopicOrPartitionError,
)

GIVEN = {"path": "/logs", "subscribe": "flights"}


def test_defaults_are_those_of_sparks_kafka_source_but_read_committed() -> None:
    options = ReadOptions.parse(GIVEN)
    assert options == ReadOptions(
        directory="/logs",
        subscription=Subscription("subscribe", "flights"),
        starting=AtEnd("startingOffsets", EARLIEST),
        ending=AtEnd("endingOffsets", LATEST),
        loss=DataLoss(fails=True),
        tasks=TaskLimits(None, None),
        limits=TriggerLimits(None, None, 15 * 60_000, None),
        columns=Columns(include_headers=False, names=None, decode=None),
        isolation=Isolation.READ_COMMITTED,
        group_id=None,
        push_filters=False,
        keys_by_murmur2=False,
        mode=ReadMode.FAIL_FAST,
    )


def test_stream_starts_at_the_latest_by_default() -> None:
    assert ReadOptions.parse(GIVEN, Use.STREAM).starting == AtEnd("startingOffsets", LATEST)
    told = ReadOptions.parse(GIVEN | {"startingOffsets": '{"flights": {"0": -1}}'}, Use.STREAM)
    assert told.starting == AtOffsets("startingOffsets", {TopicPartition("flights", 0): LATEST})


def test_every_option_is_read() -> None:
    options = ReadOptions.parse(
        GIVEN
        | {
            "failOnDataLoss": "false",
            "minPartitions": "7",
            "maxRecordsPerPartition": "1000",
            "maxOffsetsPerTrigger": "100",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "90s",
            "maxBytesPerTrigger": "1048576",
            "includeHeaders": "true",
            "columns": "value, offset,headers",
            "pushFilters": "true",
            "keyPartitioner": "murmur2",
            "mode": "DROPMALFORMED",
            "kafka.isolation.level": "read_uncommitted",
            "kafka.group.id": "g",
        },
        Use.STREAM,
    )
    assert options.loss == DataLoss(fails=False)
    assert options.tasks == TaskLimits(7, 1000)
    assert options.limits == TriggerLimits(100, 10, 90_000, 1 << 20)
    assert options.columns == Columns(True, ("value", "offset", "headers"), None)
    assert options.columns.schema().names == ["value", "offset", "headers"]
    assert (options.push_filters, options.keys_by_murmur2, options.mode) == (True, True, ReadMode.DROP_MALFORMED)
    assert (options.isolation, options.group_id) == (Isolation.READ_UNCOMMITTED, "g")
    assert options.notices == ()


def test_decoded_topics_have_columns_of_their_own() -> None:
    columns = ReadOptions.parse(GIVEN | {"decode": "Offsets", "columns": "offset,group"}).columns
    assert columns == Columns(False, ("offset", "group"), Decode.OFFSETS)
    assert columns.schema().simpleString() == "struct<offset:bigint,group:string>"
    assert columns.arrow_schema(columns.schema()).names == ["offset", "group"]
    with pytest.raises(InvalidConfigError, match="no column value of type binary"):
        columns.arrow_schema(StructType().add("value", "binary"))


def test_option_names_and_values_ignore_case() -> None:
    given = {
        "PATH": "/logs",
        "SubscribePattern": "f.*",
        "INCLUDEHEADERS": "True",
        "isolation.LEVEL": "read_UNcommitted",
    }
    options = ReadOptions.parse(given)
    assert options.subscription == ("subscribePattern", "f.*")
    assert options.columns.include_headers
    assert options.isolation is Isolation.READ_UNCOMMITTED


TIMES = '{"flights": {"0": 8}}'
BY_TIME = {TopicPartition("flights", 0): 8}


@pytest.mark.parametrize(
    ("given", "starting"),
    [
        pytest.param(
            {"startingTimestamp": "1970-01-01T00:00:07"},
            AtTimestamp("startingTimestamp", 7000, False),
            id="one time for all, as text",
        ),
        pytest.param({"startingTimestamp": "7"}, AtTimestamp("startingTimestamp", 7, False), id="one time for all"),
        pytest.param(
            {"startingOffsetsByTimestamp": '{"flights": {"0": "1970-01-01T00:00:00.008"}}'},
            AtTimestamps("startingOffsetsByTimestamp", BY_TIME, False),
            id="a time each, as text",
        ),
        pytest.param(
            {"startingOffsetsByTimestamp": TIMES},
            AtTimestamps("startingOffsetsByTimestamp", BY_TIME, False),
            id="a time for each partition, before offsets",
        ),
        pytest.param(
            {"startingTimestamp": " 7 ", "startingOffsetsByTimestamp": TIMES},
            AtTimestamp("startingTimestamp", 7, False),
            id="one time, before a time for each partition",
        ),
        pytest.param(
            {"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "Latest"},
            AtTimestamp("startingTimestamp", 7, True),
            id="the latest where no record is as late",
        ),
    ],
)
def test_times_take_precedence_over_offsets(given: dict[str, str], starting: Bound) -> None:
    assert ReadOptions.parse(GIVEN | {"startingOffsets": "earliest"} | given).starting == starting


def test_end_at_a_time_without_a_record_is_the_latest_whatever_the_strategy_for_starts() -> None:
    options = ReadOptions.parse(GIVEN | {"endingTimestamp": "9", "startingOffsetsByTimestampStrategy": "error"})
    assert options.ending == AtTimestamp("endingTimestamp", 9, latest_without_match=True)
    options = ReadOptions.parse(GIVEN | {"endingOffsetsByTimestamp": TIMES, "endingOffsets": "latest"})
    assert options.ending == AtTimestamps("endingOffsetsByTimestamp", BY_TIME, latest_without_match=True)


FEW_MS = [("500ms", 500), ("1999us", 1), (" 3S ", 3000), ("0s", 0)]


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("15min", 900_000), ("2h", 7_200_000), ("1d", 86_400_000), ("250", 250), *FEW_MS],
)
def test_times_are_written_as_spark_writes_them(text: str, ms: int) -> None:
    assert time_string_ms(text, "maxTriggerDelay") == ms


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"subscrbe": "b"}, "unknown option 'subscrbe'.*did you mean 'subscribe'", id="nearest name"),
        pytest.param({"startingoffset": "b"}, "did you mean 'startingOffsets'", id="as Spark passes it"),
        pytest.param({"topic": "b"}, "option topic is for writes .did you mean 'subscribe'", id="option of a write"),
        pytest.param({"location": "file:/x"}, "is no table.*CREATE TEMPORARY VIEW", id="a table of the catalog"),
        pytest.param({"owner": "root"}, "is no table.*CREATE TEMPORARY VIEW", id="a table without a place"),
        pytest.param({"assign": '{"a": [0]}'}, "exactly one of .* not subscribe and assign", id="two subscriptions"),
        pytest.param(
            {"assign": '{"a": [0]}', "subscribePattern": "a"},
            "exactly one of .* not subscribe and assign and subscribePattern",
            id="three subscriptions",
        ),
        pytest.param({"subscribe": " , "}, "option subscribe names no topic", id="no topic"),
        pytest.param({"startingOffsets": "newest"}, "option startingOffsets", id="offsets"),
        pytest.param({"endingOffsets": "[]"}, "option endingOffsets", id="ending offsets"),
        pytest.param(
            {"startingTimestamp": "noon"}, "option startingTimestamp: 'noon' is neither ISO 8601", id="a time"
        ),
        pytest.param(
            {"endingTimestamp": "-1"}, "option endingTimestamp: '-1' is neither ISO 8601", id="a time before 1970"
        ),
        pytest.param({"startingOffsetsByTimestamp": "latest"}, "option startingOffsetsByTimestamp", id="times"),
        pytest.param({"endingOffsetsByTimestamp": "{"}, "option endingOffsetsByTimestamp", id="ending times"),
        pytest.param(
            {"startingOffsetsByTimestampStrategy": "earliest"},
            "startingOffsetsByTimestampStrategy is 'earliest'; it must be error or latest",
            id="strategy",
        ),
        pytest.param(
            {"startingOffsets": '{"a": {"0": 2}}', "endingOffsets": '{"a": {"0": 1}}'},
            "startingOffsets is after endingOffsets in a-0: 2 and 1",
            id="start behind end",
        ),
        pytest.param({"includeHeaders": "yes"}, "includeHeaders is 'yes'; it must be true or false", id="a boolean"),
        pytest.param({"failOnDataLoss": ""}, "failOnDataLoss is ''; it must be true or false", id="an empty boolean"),
        pytest.param({"pushFilters": "1"}, "pushFilters is '1'; it must be true or false", id="push-down"),
        pytest.param({"keyPartitioner": "murmur2"}, "keyPartitioner needs pushFilters = true", id="partitioner"),
        pytest.param({"minPartitions": "0"}, "minPartitions is '0'; .* from 1 to 2147483647", id="no partition"),
        pytest.param({"minPartitions": "3000000000"}, "minPartitions is '3000000000'", id="too many partitions"),
        pytest.param({"maxRecordsPerPartition": "-5"}, "maxRecordsPerPartition is '-5'", id="negative records"),
        pytest.param({"maxOffsetsPerTrigger": "1e6"}, "maxOffsetsPerTrigger is '1e6'", id="no whole number"),
        pytest.param({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'", id="a limit that never ends"),
        pytest.param({"minOffsetsPerTrigger": "many"}, "minOffsetsPerTrigger is 'many'", id="a minimum"),
        pytest.param({"maxBytesPerTrigger": "1m"}, "maxBytesPerTrigger is '1m'", id="bytes with a unit"),
        pytest.param(
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger is 9, above maxOffsetsPerTrigger, 8",
            id="minimum above maximum",
        ),
        pytest.param({"maxTriggerDelay": "15 minutes"}, "maxTriggerDelay is '15 minutes'", id="a time in words"),
        pytest.param({"maxTriggerDelay": "1.5m"}, "maxTriggerDelay is '1.5m'", id="a fraction"),
        pytest.param({"maxTriggerDelay": "9" * 30 + "d"}, "maxTriggerDelay is '9", id="for ever"),
        pytest.param({"columns": "value,ofset"}, "columns: .*no column 'ofset'.*did you mean 'offset'", id="column"),
        pytest.param({"columns": ""}, "option columns", id="no column"),
        pytest.param(
            {"mode": "lenient"}, "mode is 'lenient'; it must be failfast or dropmalformed or permissive", id="mode"
        ),
        pytest.param({"decode": "avro"}, "decode is 'avro'; it must be offsets or transactions", id="decode"),
        pytest.param({"isolation.level": "serializable"}, "isolation.level is 'serializable'", id="isolation"),
        pytest.param({"kafka.isolation.level": "1"}, "kafka.isolation.level is '1'", id="Kafka's isolation"),
        pytest.param(
            {"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"},
            "kafka.isolation.level and isolation.level differ",
            id="two isolations",
        ),
        pytest.param({"kafka.auto.offset.reset": "earliest"}, "set the option startingOffsets instead", id="reset"),
        pytest.param({"kafka.group.id": " "}, "option kafka.group.id is empty", id="an empty group"),
        pytest.param({"kafka.Enable.Auto.Commit": "true"}, "kafka.enable.auto.commit is not supported", id="commit"),
        pytest.param({"max.decompressed.bytes": "1k"}, "max.decompressed.bytes = '1k': must be", id="bytes of a batch"),
        pytest.param({"max.decompressed.bytes": "9"}, "at least max.message.bytes", id="few bytes of a batch"),
        pytest.param({"path": "s3://me:key@b/logs"}, "credentials are taken from the environment", id="credentials"),
        pytest.param({"path": "hdfs:/logs"}, "a file system that every worker mounts", id="Hadoop with one slash"),
    ],
)
def test_bad_option_is_refused_by_name(change: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        ReadOptions.parse(GIVEN | change)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_stream_has_no_end(name: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"option {name} is not valid in a streaming query"):
        ReadOptions.parse(GIVEN | {name: "latest"}, Use.STREAM)


def test_options_for_brokers_are_accepted_with_one_notice(caplog: pytest.LogCaptureFixture) -> None:
    given = GIVEN | {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.fetch.max.bytes": "1",
        "groupIdPrefix": "p",
        "fetchOffset.numRetries": "5",
    }
    for _ in range(2):
        ReadOptions.parse(given, Use.STREAM).log_notices()
    told = "change nothing here: fetchOffset.numRetries, groupIdPrefix, kafka.bootstrap.servers, kafka.fetch.max.bytes"
    assert [record.getMessage().endswith(told) for record in caplog.records] == [True]


def test_limits_of_a_stream_are_noticed_in_a_batch_read() -> None:
    options = ReadOptions.parse(GIVEN | {"maxOffsetsPerTrigger": "5", "kafka.group.id": "g"})
    assert [notice.split(" ")[1] for notice in options.notices] == ["maxOffsetsPerTrigger", "kafka.group.id"]


@pytest.mark.parametrize("missing", [("path", "option path is missing"), ("subscribe", "exactly one of .* not none")])
def test_missing_required_option_is_named(missing: tuple[str, str]) -> None:
    name, told = missing
    with pytest.raises(InvalidConfigError, match=told):
        ReadOptions.parse({key: value for key, value in GIVEN.items() if key != name})


def test_a_read_without_any_option_may_be_of_a_table_of_the_catalog() -> None:
    with pytest.raises(InvalidConfigError, match=r"path is missing: use .load.*is no table.*CREATE TEMPORARY VIEW"):
        ReadOptions.parse({})


def test_options_that_spark_reads_itself_are_accepted() -> None:
    ReadOptions.parse(GIVEN | {"checkpointLocation": "/checkpoints"})


def test_paths_are_made_absolute_because_workers_run_elsewhere() -> None:
    assert local_directory("logs") == os.path.abspath("logs")
    assert local_directory("file:///data/my%20logs") == "/data/my logs"


ENTRANCES: dict[str, Callable[[str], object]] = {
    "commitlog_sink": lambda path: commitlog_sink(topic="t", log_dir=path),
    "df.write": lambda path: WriteOptions.parse({"path": path, "topic": "t"}),
    "the source": lambda path: ReadOptions.parse(GIVEN | {"path": path}),
    "read_table": lambda path: read_table(path, "t"),
    "tail": lambda path: tail(path, "t"),
    "metrics": DirectoryMetrics,
    "a query's metrics": lambda path: CommitLogMetrics(None, log_dir=path, registry=CollectorRegistry()),
    "a job of maintenance": lambda path: to_run("verify", arguments(None).parse_args(["--log-dir", path])),
}


@pytest.mark.parametrize("enter", ENTRANCES.values(), ids=ENTRANCES)
@pytest.mark.parametrize("path", ["hdfs:/log", "dbfs:/mnt/log"])
def test_an_address_of_another_file_system_is_refused_by(enter: Callable[[str], object], path: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"path {path}: a log lives on a file system that every worker"):
        enter(path)


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    manager = LogManager.open(str(tmp_path / "log"), create=True)
    for name, partitions in [("flights", 2), ("flown", 1), ("__consumer_offsets", 1), ("__share_group_state", 1)]:
        manager.create_topic(name, partitions=partitions)
    return manager


@pytest.mark.parametrize(
    ("option", "text", "read"),
    [
        pytest.param("subscribe", "flown, flights,flown", ["flights-0", "flights-1", "flown-0"], id="a list"),
        pytest.param("subscribe", "__consumer_offsets", ["__consumer_offsets-0"], id="an internal topic by its name"),
        pytest.param("assign", '{"flights": [1]}', ["flights-1"], id="partitions"),
        pytest.param("assign", '{"flights": [], "flown": [0]}', ["flown-0"], id="no partition of one topic"),
        pytest.param("assign", '{"flights": []}', [], id="no partition at all"),
        pytest.param("assign", "{}", [], id="no topic"),
        pytest.param("subscribePattern", "fl.*", ["flights-0", "flights-1", "flown-0"], id="a pattern"),
        pytest.param("subscribePattern", "own", ["flown-0"], id="a pattern found in the middle of a name"),
        pytest.param("subscribePattern", "x.*", [], id="a pattern that no topic matches yet"),
        pytest.param(
            "subscribePattern", ".*", ["flights-0", "flights-1", "flown-0"], id="no internal topics by pattern"
        ),
    ],
)
def test_subscription_names_partitions(manager: LogManager, option: str, text: str, read: list[str]) -> None:
    options = ReadOptions.parse({"path": "/logs", option: text})
    found = options.subscription.partitions(manager)
    assert [str(each) for each in found] == read
    assert all(isinstance(each, TopicPartition) for each in found)


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        pytest.param("assign", '{"flights": 0}', "must have the form", id="not a list"),
        pytest.param("assign", '{"flights": ["0"]}', "must have the form", id="not a number"),
        pytest.param("assign", "flights", "is not", id="not JSON"),
        pytest.param("subscribePattern", "(", "must be a regular expression", id="not a pattern"),
        pytest.param("subscribePattern", "", "is empty", id="an empty pattern"),
    ],
)
def test_invalid_subscription_is_refused(option: str, text: str, told: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"option {option}.*{told}"):
        ReadOptions.parse({"path": "/logs", option: text})


@pytest.mark.parametrize(
    ("how", "text", "told"),
    [
        pytest.param("subscribe", "fligths", "'fligths'.*'flights'", id="a topic, with the nearest name"),
        pytest.param("assign", '{"fligths": [0]}', "'fligths'.*'flights'", id="a topic of an assignment"),
        pytest.param("assign", '{"fligths": []}', "'fligths'.*'flights'", id="a topic without its partitions"),
        pytest.param("assign", '{"flights": [2]}', "flights has no partition 2; it has 0, 1", id="a partition"),
    ],
)
def test_missing_topics_and_partitions_are_refused(manager: LogManager, how: str, text: str, told: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=told):
        Subscription(how, text).partitions(manager)


@pytest.mark.parametrize(
    ("how", "text", "there"),
    [
        pytest.param("subscribe", "flights,gone", ["flights-0", "flights-1"], id="a topic"),
        pytest.param("assign", '{"flights": [1, 2], "gone": [0]}', ["flights-1"], id="partitions"),
    ],
)
def test_deleted_topics_and_partitions_may_be_left_out(
    manager: LogManager, how: str, text: str, there: list[str]
) -> None:
    assert [str(each) for each in Subscription(how, text).partitions_there(manager)] == there
