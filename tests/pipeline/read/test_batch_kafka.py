"""One query, two sources: ``format("kafka")`` from a broker, ``format("commitlog")`` from that broker's own directory.

Both get the same options (the broker's address is one of them) and must return the same rows, or an error of the same
kind. Intended differences are explained at their tests.
"""

from __future__ import annotations

import re

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F

from pyspark_commitlog.storage import UnknownTopicOrPartitionError
from tests.pipeline.read.kafka_sources import (
    OUTSIDE,
    UNKNOWN,
    WRONG,
    Options,
    Sources,
    assert_same,
    at,
    offsets,
    times,
)
from tests.support.spark.kafka_source import FIRST_MS

BATCHES: dict[str, Options] = {
    "one topic": {"subscribe": "plain"},
    "two topics, with blanks": {"subscribe": " plain , plain.too"},
    "some partitions of two topics": {"assign": '{"plain": [0, 2], "gap": [1]}'},
    "no partition of a topic": {"assign": '{"plain": [], "gap": [1]}'},
    "no partition at all": {"assign": '{"plain": []}'},
    "topics by a pattern": {"subscribePattern": "plain.*|g.p"},
    "names of options in another case": {"SUBSCRIBE": "plain", "includeheaders": "TRUE", "STARTINGoffsets": "Earliest"},
    "headers": {"subscribe": "plain", "includeHeaders": "true"},
    "an empty topic": {"subscribe": "empty"},
    "times of the broker": {"subscribe": "append-time"},
    "a topic whose first records are deleted": {"subscribe": "gap"},
    "a compacted topic": {"subscribe": "compacted"},
    "the words for both ends": {"subscribe": "plain", "startingOffsets": "earliest", "endingOffsets": "latest"},
    "a start for each partition": {"subscribe": "plain", "startingOffsets": offsets("plain", 17, -2, 5)},
    "an end for each partition": {"subscribe": "plain", "endingOffsets": offsets("plain", 17, -1, 0)},
    "start and end": {
        "subscribe": "plain",
        "startingOffsets": offsets("plain", 17, 39, 2),
        "endingOffsets": offsets("plain", 23, 40, 2),
    },
    "start and end in holes of a compacted topic": {
        "subscribe": "compacted",
        "startingOffsets": offsets("compacted", 13),
        "endingOffsets": offsets("compacted", 100),
    },
    "nothing but holes": {
        "subscribe": "compacted",
        "startingOffsets": offsets("compacted", 13),
        "endingOffsets": offsets("compacted", 15),
    },
    "start and end inside a transaction": {
        "subscribe": "txn",
        "startingOffsets": offsets("txn", 25, 0),
        "endingOffsets": offsets("txn", 50, 0),
    },
    "open and aborted transactions": {"subscribe": "txn", "kafka.isolation.level": "read_uncommitted"},
    "committed transactions": {"subscribe": "txn", "kafka.isolation.level": "read_committed"},
    "committed transactions between offsets": {
        "subscribe": "txn",
        "kafka.isolation.level": "read_committed",
        "startingOffsets": offsets("txn", 15, 0),
        "endingOffsets": offsets("txn", 45, -1),
    },
    "settings of a batch that only a stream heeds": {
        "subscribe": "plain",
        "maxOffsetsPerTrigger": "5",
        "minOffsetsPerTrigger": "2",
        "maxTriggerDelay": "1s",
    },
    "settings that only a network needs": {
        "subscribe": "plain",
        "kafkaConsumer.pollTimeoutMs": "20000",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "5",
        "groupIdPrefix": "tests",
        "kafka.fetch.max.bytes": "1000000",
    },
    "a group": {"subscribe": "plain", "kafka.group.id": "readers"},
    "a start by time": {"subscribe": "plain.too", "startingTimestamp": at(11)},
    "a start by time among times that go back": {"assign": '{"plain": [0]}', "startingTimestamp": at(25)},
    "a start by time between two records": {"subscribe": "plain.too", "startingTimestamp": str(FIRST_MS + 10_500)},
    "an end by time": {"subscribe": "plain.too", "endingTimestamp": at(11)},
    "an end by time among times that go back": {"assign": '{"plain": [0]}', "endingTimestamp": at(25)},
    "an end by time behind all records": {"subscribe": "plain", "endingTimestamp": at(1_000_000)},
    "start and end by time": {"subscribe": "plain.too", "startingTimestamp": at(11), "endingTimestamp": at(20)},
    "a start by time for each partition": {
        "subscribe": "plain",
        "startingOffsetsByTimestamp": times("plain", 25, 3600, 7200),
    },
    "an end by time for each partition": {
        "subscribe": "plain",
        "endingOffsetsByTimestamp": times("plain", 25, 3620, 7200),
    },
    "a start by time before all records": {"subscribe": "gap", "startingTimestamp": "0"},
    "a start by time in a compacted topic": {"subscribe": "compacted", "startingTimestamp": at(100)},
    "a start by time among committed records": {
        "assign": '{"txn": [0]}',
        "kafka.isolation.level": "read_committed",
        "startingTimestamp": at(5),
    },
    "an end by time among committed records": {
        "assign": '{"txn": [0]}',
        "kafka.isolation.level": "read_committed",
        "endingTimestamp": at(15),
    },
    "a start by time that no record has, then the end": {
        "subscribe": "plain",
        "startingTimestamp": at(3605),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "a start by time for all before one for each before offsets": {
        "subscribe": "plain.too",
        "startingTimestamp": at(11),
        "startingOffsetsByTimestamp": times("plain.too", 20),
        "startingOffsets": offsets("plain.too", 25),
    },
    "an end by time for each before offsets": {
        "subscribe": "plain.too",
        "endingOffsetsByTimestamp": times("plain.too", 20),
        "endingOffsets": offsets("plain.too", 25),
    },
    "more tasks than partitions": {"subscribe": "plain", "minPartitions": "10"},
    "fewer tasks than partitions": {"subscribe": "plain", "minPartitions": "1"},
    "tasks of few records": {"subscribe": "plain", "maxRecordsPerPartition": "7"},
    "both bounds of tasks": {"subscribe": "plain", "maxRecordsPerPartition": "25", "minPartitions": "9"},
    "a start before the log start, and no fuss": {
        "subscribe": "gap",
        "startingOffsets": offsets("gap", 3, 0),
        "failOnDataLoss": "false",
    },
}


@pytest.mark.parametrize("options", BATCHES.values(), ids=BATCHES)
def test_batch_read_returns_the_rows_of_sparks_kafka_source(sources: Sources, options: Options) -> None:
    assert_same(sources.commitlog(options), sources.kafka(options))


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param({}, id="none"),
        pytest.param({"minPartitions": "2"}, id="fewer than partitions"),
        pytest.param({"minPartitions": "10"}, id="more than partitions"),
        pytest.param({"minPartitions": "9", "maxRecordsPerPartition": "25"}, id="both"),
    ],
)
def test_tasks_are_those_of_sparks_kafka_source(sources: Sources, bounds: Options) -> None:
    """Compares first offsets and numbers of records."""
    read = {"subscribe": "plain", **bounds}
    assert tasks(sources.commitlog(read)) == tasks(sources.kafka(read))


def tasks(frame: DataFrame) -> list[tuple[int, ...]]:
    each = frame.groupBy(F.spark_partition_id(), "partition").agg(F.min("offset"), F.count("*"))
    return sorted(tuple(row)[1:] for row in each.collect())


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("partition = 1", id="partition"),
        pytest.param("offset >= 7 and offset < 9", id="offset"),
        pytest.param(f"timestamp > timestamp_millis({at(20)})", id="timestamp"),
        pytest.param("partition < 2 and offset in (3, 50) or value is null", id="what cannot be pushed, too"),
    ],
)
def test_pushed_filters_select_the_same_rows_as_with_sparks_kafka_source(
    sources: Sources, condition: str, pushing: SparkSession
) -> None:
    ours = sources.commitlog({**PLAIN, "pushFilters": "true"}).where(condition)
    assert_same(ours, sources.kafka(PLAIN).where(condition))


def test_chosen_columns_are_those_of_sparks_kafka_source(sources: Sources) -> None:
    names = ["offset", "topic", "partition", "value", "headers"]
    kafkas = sources.kafka({**PLAIN, "includeHeaders": "true"})
    assert_same(sources.commitlog({**PLAIN, "columns": ", ".join(names)}), kafkas.select(*names))


Kind = tuple[str, type[Exception]]
PLAIN = {"subscribe": "plain"}
TOO = {"subscribe": "plain.too"}
ERRORS: dict[str, tuple[Options, Kind, str]] = {
    "two ways to say what to read": ({**PLAIN, "assign": '{"plain": [0]}'}, WRONG, "not subscribe and assign"),
    "no way to say what to read": ({}, WRONG, "subscribe, assign, subscribePattern must be given, not none"),
    "no topic": ({"subscribe": " , "}, WRONG, "subscribe names no topic"),
    "an empty pattern": ({"subscribePattern": " "}, WRONG, "subscribePattern is empty"),
    "an invalid pattern": ({"subscribePattern": "*"}, WRONG, "subscribePattern is .* must be a regular expression"),
    "assign without JSON": ({"assign": "plain"}, WRONG, "assign: 'plain' is not"),
    "assign with other JSON": ({"assign": '{"plain": 0}'}, WRONG, "assign is .* must have the form"),
    "a topic that is not there": ({"subscribe": "plane"}, UNKNOWN, "no topic 'plane'.*did you mean 'plain'"),
    "a start at the end": ({**PLAIN, "startingOffsets": "latest"}, WRONG, "startingOffsets .*cannot be latest"),
    "a start at the end of one partition": (
        {**PLAIN, "startingOffsets": offsets("plain", -1, 0, 0)},
        WRONG,
        "startingOffsets .*cannot be latest",
    ),
    "an end at the start": ({**PLAIN, "endingOffsets": "earliest"}, WRONG, "endingOffsets .*cannot be earliest"),
    "an end at the start of one partition": (
        {**PLAIN, "endingOffsets": offsets("plain", -2, 1, 1)},
        WRONG,
        "endingOffsets .*cannot be earliest",
    ),
    "a word that is no offset": ({**PLAIN, "startingOffsets": "sometime"}, WRONG, "startingOffsets: 'sometime' is not"),
    "offsets without partitions": ({**PLAIN, "endingOffsets": '{"plain": 3}'}, WRONG, "endingOffsets: topic 'plain'"),
    "an offset below zero": ({**PLAIN, "startingOffsets": offsets("plain", -3, 0, 0)}, WRONG, "startingOffsets: .*-3"),
    "offsets for some partitions": (
        {**PLAIN, "startingOffsets": offsets("plain", 0, 0)},
        WRONG,
        "startingOffsets has no value for plain-2",
    ),
    "offsets for partitions that are not there": (
        {**PLAIN, "endingOffsets": offsets("plain", 1, 1, 1, 1)},
        WRONG,
        "endingOffsets names partitions that are not read: plain-3",
    ),
    "offsets for another topic": (
        {**PLAIN, "startingOffsets": offsets("gap", 0, 0)},
        WRONG,
        "names partitions .* gap-0",
    ),
    "start and end for different partitions": (
        {**PLAIN, "startingOffsets": offsets("plain", 0, 0, 0), "endingOffsets": offsets("plain", 1, 1)},
        WRONG,
        "startingOffsets and endingOffsets name different partitions",
    ),
    "a start behind the end": (
        {**PLAIN, "startingOffsets": offsets("plain", 9, 0, 0), "endingOffsets": offsets("plain", 5, 1, 1)},
        WRONG,
        "startingOffsets is after endingOffsets in plain-0: 9 and 5",
    ),
    "a start behind an end by time": (
        {**PLAIN, "startingOffsets": offsets("plain", 30, 0, 0), "endingTimestamp": at(0)},
        WRONG,
        "startingOffsets is after endingTimestamp in plain-0: 30 and 0",
    ),
    "a start before the log start": (
        {"subscribe": "gap", "startingOffsets": offsets("gap", 3, 0)},
        OUTSIDE,
        "offset 3 of gap-0 is outside the log, which begins at 25",
    ),
    "a start behind the log end": (
        {**TOO, "startingOffsets": offsets("plain.too", 33)},
        OUTSIDE,
        "offset 33 of plain.too-0 is outside the log.* ends before 30",
    ),
    "a start by time that no record has": (
        {**PLAIN, "startingTimestamp": at(10**6)},
        WRONG,
        "startingTimestamp: no record",
    ),
    "a start by time that no record of one partition has": (
        {**PLAIN, "startingOffsetsByTimestamp": times("plain", 0, 10**6, 0)},
        WRONG,
        "startingOffsetsByTimestamp: no record of plain-1",
    ),
    "a time that is no number": (
        {**PLAIN, "startingTimestamp": "noon"},
        WRONG,
        "startingTimestamp: 'noon' is neither ISO 8601",
    ),
    "times that are no JSON object": (
        {**PLAIN, "startingOffsetsByTimestamp": "[]"},
        WRONG,
        "startingOffsetsByTimestamp: '\\[\\]'",
    ),
    "start times for some partitions": (
        {**PLAIN, "startingOffsetsByTimestamp": times("plain", 0)},
        WRONG,
        "startingOffsetsByTimestamp has no value for plain-1, plain-2",
    ),
    "end times for some partitions": (
        {**PLAIN, "endingOffsetsByTimestamp": times("plain", 0)},
        WRONG,
        "endingOffsetsByTimestamp has no value for plain-1, plain-2",
    ),
    "a start by time behind the end by time": (
        {**TOO, "startingTimestamp": at(20), "endingTimestamp": at(10)},
        WRONG,
        "startingTimestamp is after endingTimestamp",
    ),
    "the same for each partition": (
        {
            **TOO,
            "startingOffsetsByTimestamp": times("plain.too", 20),
            "endingOffsetsByTimestamp": times("plain.too", 10),
        },
        WRONG,
        "startingOffsetsByTimestamp is after endingOffsetsByTimestamp",
    ),
    "an unknown strategy": (
        {**PLAIN, "startingOffsetsByTimestampStrategy": "nearest"},
        WRONG,
        "startingOffsetsByTimestampStrategy is 'nearest'",
    ),
    "no tasks": ({**PLAIN, "minPartitions": "0"}, WRONG, "minPartitions is '0'"),
    "a number of tasks that is a word": ({**PLAIN, "minPartitions": "many"}, WRONG, "minPartitions is 'many'"),
    "tasks of no records": ({**PLAIN, "maxRecordsPerPartition": "0"}, WRONG, "maxRecordsPerPartition is '0'"),
    "perhaps data loss": ({**PLAIN, "failOnDataLoss": "perhaps"}, WRONG, "failOnDataLoss is 'perhaps'"),
    "perhaps headers": ({**PLAIN, "includeHeaders": "perhaps"}, WRONG, "includeHeaders is 'perhaps'"),
    "a minimum above the maximum": (
        {**PLAIN, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
        WRONG,
        "minOffsetsPerTrigger is 10, above maxOffsetsPerTrigger",
    ),
    "an unknown isolation level": ({**PLAIN, "kafka.isolation.level": "serializable"}, WRONG, "'serializable'"),
    **{
        f"the consumer's {name}": ({**PLAIN, f"kafka.{name}": "earliest"}, WRONG, f"kafka.{name} is not supported")
        for name in (
            "auto.offset.reset",
            "key.deserializer",
            "value.deserializer",
            "enable.auto.commit",
            "interceptor.classes",
        )
    },
}


@pytest.mark.parametrize(("options", "kind", "told"), ERRORS.values(), ids=ERRORS)
def test_batch_read_fails_where_sparks_kafka_source_fails_and_says_why(
    sources: Sources, options: Options, kind: Kind, told: str
) -> None:
    kafkas, ours = kind
    with pytest.raises((PySparkException, Py4JJavaError)) as failure:
        sources.kafka(options).collect()
    assert re.search(kafkas, f"{failure.typename}: {failure.value}")
    with pytest.raises(ours, match=told):
        sources.plan_commitlog(options)


def test_error_in_planning_reaches_the_caller(sources: Sources) -> None:
    with pytest.raises(PySparkException, match="UnknownTopicOrPartitionError: no topic 'plane'"):
        sources.commitlog({"subscribe": "plane"}).collect()


class TestDifferencesOnPurpose:
    def test_missing_partition_is_an_error_though_spark_reads_nothing(self, sources: Sources) -> None:
        nowhere = {"assign": '{"plain": [7]}'}
        prompt = {"kafka.default.api.timeout.ms": "1000", "kafka.request.timeout.ms": "1000"}
        assert sources.kafka({**nowhere, **prompt}).count() == 0
        with pytest.raises(UnknownTopicOrPartitionError, match="topic plain has no partition 7; it has 0, 1, 2"):
            sources.plan_commitlog(nowhere)

    def test_start_after_the_log_end_reads_nothing_if_data_loss_is_allowed_though_spark_fails(
        self, sources: Sources
    ) -> None:
        behind = {**TOO, "startingOffsets": offsets("plain.too", 33), "failOnDataLoss": "false"}
        with pytest.raises(Py4JJavaError, match="KafkaIllegalStateException"):
            sources.kafka(behind).collect()
        assert sources.commitlog(behind).count() == 0

    def test_max_records_alone_splits_a_batch_read_which_spark_does_only_in_streams(self, sources: Sources) -> None:
        few = {**TOO, "maxRecordsPerPartition": "10"}
        assert tasks(sources.commitlog(few)) == [(0, 0, 10), (0, 10, 10), (0, 20, 10)]
        assert tasks(sources.kafka(few)) == [(0, 0, 30)]

    def test_end_before_the_log_start_reads_nothing_if_data_loss_is_allowed_though_spark_fails(
        self, sources: Sources
    ) -> None:
        before = {"subscribe": "gap", "endingOffsets": offsets("gap", 10, 20), "failOnDataLoss": "false"}
        with pytest.raises((PySparkException, Py4JJavaError)):
            sources.kafka(before).collect()
        assert {row.partition for row in sources.commitlog(before).collect()} == {1}

    def test_few_tasks_are_fewer_than_those_of_spark_if_partitions_are_empty(self, sources: Sources) -> None:
        """Spark divides if minPartitions is above the number of partitions, empty ones too; we leave these out."""
        few = {"assign": '{"plain": [0], "empty": [0]}', "minPartitions": "2"}
        assert tasks(sources.kafka(few)) == [(0, 0, 60)]
        assert tasks(sources.commitlog(few)) == [(0, 0, 30), (0, 30, 30)]

    def test_isolation_level_is_read_committed_by_default(self, sources: Sources) -> None:
        committed = sources.commitlog({"subscribe": "txn", "kafka.isolation.level": "read_committed"})
        reader = sources.spark.read.format("commitlog").option("subscribe", "txn")
        plain = reader.load(str(sources.broker.log_dir))
        assert_same(plain, committed)
        assert (plain.count(), sources.kafka({"subscribe": "txn"}).count()) == (40, 65)
        asked = reader.option("isolation.level", "read_uncommitted").load(str(sources.broker.log_dir))
        assert_same(asked, sources.kafka({"subscribe": "txn"}))
