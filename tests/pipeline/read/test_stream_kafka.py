"""Streams with ``format("kafka")`` and with ``format("commitlog")`` from one broker: the same micro-batches."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path
from typing import ClassVar

import pytest
from kafka.admin import KafkaAdminClient, NewPartitions  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import SourceProgress
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_commitlog.storage import GroupOffsets, InvalidConfigError, LogManager
from tests.pipeline.read.kafka_sources import Batches, Options, Sources, at, in_order, offsets, times
from tests.pipeline.read.plain_offsets import plain
from tests.support.kafka.broker import Broker, ProducerRecord, Topic, create_topics, java_produce
from tests.support.spark.kafka_source import FIRST_MS, delete_records
from tests.support.waiting import soon

NAMES = ("kafka", "commitlog")
EARLIEST = {"startingOffsets": "earliest"}
# Kafka's client asks on for a minute where a topic goes while it is asked for: here it ends, and Spark asks again.
ASKS_AGAIN = {
    "fetchOffset.numRetries": "3",
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "5000",
}
STREAMS: dict[str, Options] = {
    "all from the beginning, few records at a time and a task": {
        "subscribe": "plain",
        **EARLIEST,
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": "40",
        "maxRecordsPerPartition": "9",
        "minPartitions": "7",
    },
    "from the end, unless it is said": {"subscribe": "plain"},
    "partitions of two topics, each from somewhere else": {
        "assign": '{"plain": [0, 1], "gap": [0]}',
        "startingOffsets": '{"plain": {"0": 17, "1": -1}, "gap": {"0": -2}}',
    },
    "a pattern, from a time, proportionally": {
        "subscribePattern": "plain.*",
        "startingTimestamp": at(11),
        "maxOffsetsPerTrigger": "60",
    },
    "from a time in each partition": {
        "subscribe": "plain",
        "startingOffsetsByTimestamp": times("plain", 25, 3600, 9000),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "committed transactions": {"subscribe": "txn", **EARLIEST, "kafka.isolation.level": "read_committed"},
    "below the minimum, whose delay is over at once": {
        "subscribe": "plain",
        **EARLIEST,
        "minOffsetsPerTrigger": "50",
        "maxOffsetsPerTrigger": "60",
        "maxTriggerDelay": "0ms",
    },
    "all transactions, and a topic with holes": {
        "subscribe": "txn,compacted",
        **EARLIEST,
        "maxOffsetsPerTrigger": "150",
    },
    "from before the log start, and no fuss": {
        "subscribe": "gap",
        "startingOffsets": offsets("gap", 3, 0),
        "failOnDataLoss": "false",
    },
}


@pytest.mark.parametrize("options", STREAMS.values(), ids=STREAMS)
def test_micro_batches_are_those_of_sparks_kafka_source(sources: Sources, options: Options, tmp_path: Path) -> None:
    kafkas, ours = Batches(), Batches()
    theirs = kafkas.run(sources.stream("kafka", options), tmp_path / "kafka")
    mine = ours.run(sources.stream("commitlog", options), tmp_path / "commitlog")
    assert ours.rows == kafkas.rows
    if options.get("kafka.isolation.level") != "read_committed":  # whose ends lie before trailing markers
        assert ends(mine) == ends(theirs)


@pytest.mark.only_all
def test_trigger_once_reads_all_whatever_the_limit(sources: Sources, tmp_path: Path) -> None:
    options = {"subscribe": "plain", **EARLIEST, "maxOffsetsPerTrigger": "5"}
    found = {name: Batches() for name in NAMES}
    for name, batches in found.items():
        batches.run(sources.stream(name, options), tmp_path / name, once=True)
    assert found["commitlog"].rows == found["kafka"].rows
    assert [len(rows) for rows in found["commitlog"].rows] == [105]


class TestMinimum:
    OPTIONS: ClassVar = {
        "subscribe": "plain",
        **EARLIEST,
        "minOffsetsPerTrigger": "50",
        "maxOffsetsPerTrigger": "60",
        "maxTriggerDelay": "1h",
    }

    def test_query_waits_for_it(self, sources: Sources, tmp_path: Path) -> None:
        found = {name: Batches() for name in NAMES}
        for name, batches in found.items():
            stream = sources.stream(name, self.OPTIONS)
            query = batches.start(stream, tmp_path / name, processingTime="0 seconds")
            query.processAllAvailable()
            query.stop()
        assert found["commitlog"].rows == found["kafka"].rows
        assert sum(len(rows) for rows in found["commitlog"].rows) in range(50, 70)  # of 105

    def test_available_now_reads_all_though_sparks_kafka_source_leaves_what_is_below_it(
        self, sources: Sources, tmp_path: Path
    ) -> None:
        """On purpose: the trigger promises it."""
        found = {name: Batches() for name in NAMES}
        for name, batches in found.items():
            batches.run(sources.stream(name, self.OPTIONS), tmp_path / name)
        assert found["commitlog"].rows[:1] == found["kafka"].rows
        assert sum(len(rows) for rows in found["commitlog"].rows) == 105


def test_group_id_changes_no_row_and_is_committed_in_the_log_directory(sources: Sources, tmp_path: Path) -> None:
    """In a copy of the directory, because nobody else may write beside a running broker."""
    options = {"subscribe": "plain", **EARLIEST, "maxOffsetsPerTrigger": "40", "kafka.group.id": "readers"}
    copy = sources.broker.copy_log_dir(tmp_path / "copy")
    kafkas, ours = Batches(), Batches()
    theirs = kafkas.run(sources.stream("kafka", options), tmp_path / "kafka")
    mine = ours.run(sources.spark.readStream.format("commitlog").options(**options).load(str(copy)), tmp_path / "ours")
    assert ours.rows == kafkas.rows
    assert ends(mine) == ends(theirs)
    with LogManager.open(str(copy)) as manager:
        found = GroupOffsets(manager).fetch("readers")
    committed = {str(number): offset.offset for (_, number), offset in found.items()}
    assert committed == ends(mine)[-1]["plain"]


def test_tasks_of_a_micro_batch_are_those_of_sparks_kafka_source(sources: Sources, tmp_path: Path) -> None:
    """In any order."""
    options = {"subscribe": "plain", **EARLIEST, "maxRecordsPerPartition": "7"}
    tasks: dict[str, list[list[tuple[int, int]]]] = {}
    for name in NAMES:
        batches = Batches()
        batches.run(sources.stream(name, options).withColumn("task", F.spark_partition_id()), tmp_path / name)
        of_tasks: dict[int, list[tuple[int, int]]] = {}
        for row in chain(*batches.rows):
            of_tasks.setdefault(row.task, []).append((row.partition, row.offset))
        tasks[name] = sorted(of_tasks.values())
    assert tasks["commitlog"] == tasks["kafka"]
    assert max(map(len, tasks["commitlog"])) == 7


def test_lag_that_progress_shows_is_that_of_sparks_kafka_source(sources: Sources, tmp_path: Path) -> None:
    """Spark accepts no metrics from a Python source, so the offsets they are computed from are compared."""
    options = {"subscribe": "plain", **EARLIEST, "maxOffsetsPerTrigger": "40"}
    found = {}
    for name in NAMES:
        shown = Batches().run(sources.stream(name, options), tmp_path / name).recentProgress
        found[name] = [progress.sources[0] for progress in shown if progress.numInputRows]
    theirs, ours = found["kafka"], found["commitlog"]
    assert [json.loads(each.latestOffset) for each in ours] == [json.loads(each.latestOffset) for each in theirs]
    lags = [lags_of(each) for each in ours]
    assert [sum(each) for each in lags] == [67, 29, 0]
    assert [{name: float(each.metrics[name]) for name in BEHIND} for each in theirs] == [
        dict(zip(BEHIND, (min(each), max(each), round(sum(each) / len(each), 1)), strict=True)) for each in lags
    ]


BEHIND = ("minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest")


def lags_of(source: SourceProgress) -> list[int]:
    """Returns the number of offsets per partition of ``plain`` that a micro-batch did not read."""
    end, latest = json.loads(source.endOffset)["plain"], json.loads(source.latestOffset)["plain"]
    return [latest[partition] - end[partition] for partition in sorted(latest)]


@pytest.mark.only_all
def test_limit_in_bytes_gives_the_same_rows_in_parts_where_sparks_kafka_source_has_no_such_limit(
    sources: Sources, tmp_path: Path
) -> None:
    options = {"subscribe": "plain", **EARLIEST, "maxBytesPerTrigger": "1000"}
    found = {name: Batches() for name in NAMES}
    for name, batches in found.items():
        batches.run(sources.stream(name, options), tmp_path / name)
    rows = {name: sorted(chain(*batches.rows), key=in_order) for name, batches in found.items()}
    assert rows["commitlog"] == rows["kafka"]
    assert (len(found["commitlog"].rows) > 3, len(found["kafka"].rows)) == (True, 1)


def ends(query: StreamingQuery) -> list[dict[str, dict[str, int]]]:
    """Returns the end offsets of the micro-batches that had rows, as Spark shows them, without our ids of topics."""
    shown = [progress.sources[0] for progress in query.recentProgress if progress.numInputRows]
    return [plain(json.loads(source.endOffset)) for source in shown]


class TestWhileTheTopicChanges:
    """Each test has its own topics."""

    def make(self, broker: Broker, topic: str, partitions: int = 1) -> None:
        create_topics(broker.bootstrap, {topic: Topic(partitions, {"retention.ms": "-1"})})

    def write(self, broker: Broker, topic: str, *values: bytes, partition: int = 0) -> None:
        records = [ProducerRecord(value, partition=partition, timestamp_ms=FIRST_MS) for value in values]
        java_produce(broker.bootstrap, topic, records)

    def test_running_query_finds_what_is_appended_new_partitions_and_new_topics(
        self, sources: Sources, tmp_path: Path
    ) -> None:
        broker = sources.broker
        self.make(broker, "stream.grows.a")
        self.write(broker, "stream.grows.a", b"1", b"2")
        found = {name: Batches() for name in NAMES}
        options = {"subscribePattern": "stream.grows.*", **EARLIEST}
        queries = {
            name: batches.start(sources.stream(name, options), tmp_path / name, processingTime="0 seconds")
            for name, batches in found.items()
        }
        try:
            drain(queries)
            self.write(broker, "stream.grows.a", b"3")
            drain(queries)
            admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
            admin.create_partitions({"stream.grows.a": NewPartitions(2)})
            admin.close()
            self.make(broker, "stream.grows.b")
            self.write(broker, "stream.grows.a", b"4", b"5", partition=1)
            self.write(broker, "stream.grows.b", b"6")
            drain(queries)
            shown = {name: query.lastProgress for name, query in queries.items()}
        finally:
            for query in queries.values():
                query.stop()
        rows = {name: [row for batch in batches.rows for row in batch] for name, batches in found.items()}
        assert sorted(rows["commitlog"], key=in_order) == sorted(rows["kafka"], key=in_order)
        assert sorted(row.value for row in rows["commitlog"]) == [b"1", b"2", b"3", b"4", b"5", b"6"]
        sums = {name: progress and plain(json.loads(progress.sources[0].endOffset)) for name, progress in shown.items()}
        assert sums["commitlog"] == sums["kafka"] == {"stream.grows.a": {"0": 3, "1": 2}, "stream.grows.b": {"0": 1}}

    def test_query_resumes_from_its_checkpoint_and_from_that_of_the_other_source(
        self, sources: Sources, tmp_path: Path
    ) -> None:
        broker, options = sources.broker, {"subscribe": "restarts", **EARLIEST}
        self.make(broker, "restarts")
        batches = Batches()
        for number, name in enumerate(("kafka", "commitlog", "commitlog", "kafka")):
            self.write(broker, "restarts", b"%d" % number)
            batches.run(sources.stream(name, options), tmp_path / "one checkpoint")
        assert [[row.value for row in rows] for rows in batches.rows] == [[b"0"], [b"1"], [b"2"], [b"3"]]

    def test_records_deleted_after_the_checkpoint_fail_the_query_or_are_skipped(
        self, sources: Sources, tmp_path: Path
    ) -> None:
        broker = sources.broker
        self.make(broker, "loses")
        self.write(broker, "loses", *[b"%d" % number for number in range(5)])
        options = {"subscribe": "loses", **EARLIEST}
        for name in NAMES:
            Batches().run(sources.stream(name, options), tmp_path / name)
        self.write(broker, "loses", *[b"%d" % number for number in range(5, 12)])
        delete_records(broker, "loses", 0, before=8)
        found = {}
        for name, told in [
            ("kafka", "OffsetOutOfRange|may have been missed|data loss"),
            ("commitlog", "OffsetOutOfRangeError.*loses-0"),
        ]:
            with pytest.raises(StreamingQueryException) as failure:
                Batches().run(sources.stream(name, options), tmp_path / name)
            assert re.search(told, str(failure.value), re.DOTALL | re.IGNORECASE)
            found[name] = Batches()
            found[name].run(sources.stream(name, options | {"failOnDataLoss": "false"}), tmp_path / name)
        values = {name: [row.value for rows in batches.rows for row in rows] for name, batches in found.items()}
        assert values["commitlog"] == values["kafka"] == [b"8", b"9", b"10", b"11"]

    @pytest.mark.parametrize("count", [3, pytest.param(7, marks=pytest.mark.only_all)])
    def test_topic_made_again_is_refused_or_read_from_its_start_though_spark_skips_records(
        self, sources: Sources, tmp_path: Path, count: int
    ) -> None:
        """On purpose: they are other records than those that were read. Spark fails only if there are fewer."""
        topic, new = f"again-{count}", [b"new %d" % number for number in range(count)]
        broker, options = sources.broker, {"subscribe": topic, **EARLIEST}
        self.make(broker, topic)
        self.write(broker, topic, *[b"%d" % number for number in range(5)])
        found = {name: Batches() for name in NAMES}
        for name, batches in found.items():
            batches.run(sources.stream(name, options), tmp_path / name)
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.delete_topics([topic])
        admin.close()
        soon(lambda: not list(broker.log_dir.glob(f"{topic}-0")))
        self.make(broker, topic)
        self.write(broker, topic, *new)
        for name, batches in found.items():
            if name == "commitlog" or count < 5:
                with pytest.raises(StreamingQueryException):
                    batches.run(sources.stream(name, options), tmp_path / name)
            batches.run(sources.stream(name, options | {"failOnDataLoss": "false"}), tmp_path / name)
        values = {name: [row.value for rows in batches.rows[1:] for row in rows] for name, batches in found.items()}
        assert values == {"kafka": new[5:], "commitlog": new}

    def test_topic_that_vanishes_while_a_query_runs_ends_it(self, sources: Sources, tmp_path: Path) -> None:
        broker = sources.broker
        self.make(broker, "vanishes")
        self.write(broker, "vanishes", b"1")
        options = {"subscribe": "vanishes", **EARLIEST, **ASKS_AGAIN}
        queries = {
            name: Batches().start(sources.stream(name, options), tmp_path / name, processingTime="0 seconds")
            for name in NAMES
        }
        try:
            drain(queries)
            admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
            admin.delete_topics(["vanishes"])
            admin.close()
            for name, told in [("kafka", "UnknownTopicOrPartition"), ("commitlog", "UnknownTopicOrPartitionError")]:
                with pytest.raises(StreamingQueryException, match=told):
                    queries[name].awaitTermination(60)
        finally:
            for query in queries.values():
                query.stop()


def drain(queries: dict[str, StreamingQuery]) -> None:
    for query in queries.values():
        query.processAllAvailable()


REFUSED: dict[str, tuple[Options, str, str]] = {
    "an end": (
        {"endingOffsets": offsets("plain", 1, 1, 1)},
        "ending offset not valid in streaming queries",
        "endingOffsets is not valid in a streaming query",
    ),
    "an end by time": (
        {"endingOffsetsByTimestamp": times("plain", 1, 1, 1)},
        "ending timestamp not valid in streaming queries",
        "endingOffsetsByTimestamp is not valid in a streaming query",
    ),
    "a minimum above the maximum": (
        {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
        "minOffsetPerTrigger.* is higher than the maxOffsetsPerTrigger",
        "minOffsetsPerTrigger is 10, above",
    ),
    "a limit that is no number": (
        {"maxOffsetsPerTrigger": "some"},
        'For input string: "some"',
        "maxOffsetsPerTrigger is 'some'",
    ),
    "a delay that is no time": (
        {"minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"},
        "Failed to parse time string: soon",
        "maxTriggerDelay is 'soon'",
    ),
    "offsets for some partitions": (
        {"startingOffsets": offsets("plain", 1, 1)},
        "you must specify all TopicPartitions",
        "startingOffsets has no value for plain-2",
    ),
    "a time that no record has": (
        {"startingTimestamp": at(10**6)},
        "No offset matched from request",
        "startingTimestamp: no record of plain-0",
    ),
}


@pytest.mark.parametrize(("options", "kafkas", "ours"), REFUSED.values(), ids=REFUSED)
def test_stream_fails_where_that_of_sparks_kafka_source_fails_and_says_why(
    sources: Sources, options: Options, kafkas: str, ours: str, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException, match=kafkas):
        Batches().run(sources.stream("kafka", {"subscribe": "plain", **options}), tmp_path / "kafka")
    with pytest.raises(InvalidConfigError, match=ours):
        sources.plan_commitlog_stream({"subscribe": "plain", **options})


def test_end_by_time_is_refused_though_sparks_kafka_source_ignores_it(sources: Sources, tmp_path: Path) -> None:
    options, kafkas = {"subscribe": "plain", **EARLIEST, "endingTimestamp": at(1)}, Batches()
    kafkas.run(sources.stream("kafka", options), tmp_path)
    assert sum(map(len, kafkas.rows)) == 105  # all there is
    with pytest.raises(InvalidConfigError, match="endingTimestamp is not valid in a streaming query"):
        sources.plan_commitlog_stream(options)
