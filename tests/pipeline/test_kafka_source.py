"""One query, two sources: ``format("kafka")`` from a broker, ``format("commitlog")`` from that broker's own directory.

Both get the very same options (the broker's address is one of them) and must answer the same rows, or an error of the
same kind. Where the two differ on purpose stands beside the test of the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from tests.support.kafka import Broker
from tests.support.spark_kafka import FIRST_MS, PROMPT, fill

Options = dict[str, str]


@dataclass(frozen=True)
class Sources:
    """The two sources over one broker."""

    spark: SparkSession
    broker: Broker

    def kafka(self, options: Options) -> DataFrame:
        return self.spark.read.format("kafka").options(**self._given(options)).load()

    def commitlog(self, options: Options) -> DataFrame:
        return self.spark.read.format("commitlog").options(**self._given(options)).load(str(self.broker.log_dir))

    def _given(self, options: Options) -> Options:
        return {"kafka.bootstrap.servers": self.broker.bootstrap, "kafka.isolation.level": "read_uncommitted"} | options


@pytest.fixture(scope="module")
def sources(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    with Broker(tmp_path_factory.mktemp("broker")).start(props=PROMPT) as broker:
        fill(broker)
        yield Sources(spark, broker)


def offsets(topic: str, *of_partitions: int) -> str:
    """The JSON of Spark's offset options (and, with times, of those by timestamp)."""
    return json.dumps({topic: {str(number): offset for number, offset in enumerate(of_partitions)}})


def at(seconds: int) -> str:
    return str(FIRST_MS + seconds * 1000)


def times(topic: str, *seconds: int) -> str:
    return offsets(topic, *[FIRST_MS + each * 1000 for each in seconds])


BATCHES: dict[str, Options] = {
    "one topic": {"subscribe": "plain"},
    "two topics, with blanks": {"subscribe": " plain , plain.too"},
    "some partitions of two topics": {"assign": '{"plain": [0, 2], "gap": [1]}'},
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
def test_batch_read_gives_the_rows_that_sparks_kafka_source_gives(sources: Sources, options: Options) -> None:
    order = ["topic", "partition", "offset"]
    assert_df_equality(sources.commitlog(options).orderBy(*order), sources.kafka(options).orderBy(*order))
