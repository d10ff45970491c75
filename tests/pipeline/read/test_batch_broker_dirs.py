"""Directories of real brokers through the data source: what Kafka's own consumer returned, at both isolation levels.

Most tests call the reader of the data source directly, task by task; one uses Spark. The directories are read-only
during the tests, and no byte of them may change.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.arrow.columns import READ_TYPES, schema_of
from pyspark_commitlog.pipeline.read.batch import batch_reader
from pyspark_commitlog.pipeline.read.options import ReadOptions
from pyspark_commitlog.storage import CorruptionError, Isolation
from tests.storage.reading.test_reader_broker_dirs import DIFFERENT, NOT_OPENED, STAGES, fingerprint
from tests.storage.reading.test_reader_legacy_dirs import as_dumped, dumped
from tests.support.kafka import broker_dirs
from tests.support.kafka.broker_dirs import TIMESTAMP_TYPES, Row

SCHEMA = schema_of(READ_TYPES)
THROUGH_SPARK = "transactions/final"


def rows_of(directory: Path, partition: str, isolation: Isolation, **options: str) -> list[Row]:
    """Returns all rows of a partition from the batch reader, with several tasks."""
    topic, number = broker_dirs.topic_partition(partition)
    given = {
        "path": str(directory),
        "assign": f'{{"{topic}": [{number}]}}',
        "isolation.level": isolation.value,
        "minPartitions": "3",
        **options,
    }
    reader = batch_reader(ReadOptions.parse(given), SCHEMA)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert all((row["topic"], row["partition"]) == (topic, number) for row in rows)
    return [as_row(row) for row in rows]


def as_row(found: dict[str, Any]) -> Row:
    """Converts a row of an Arrow table to the form of Kafka's consumer."""
    return (
        found["offset"],
        round(found["timestamp"].timestamp() * 1000),
        TIMESTAMP_TYPES[found["timestampType"]],
        found["key"],
        found["value"],
        [(header["key"], header["value"]) for header in found["headers"] or ()],
    )


@pytest.mark.parametrize("stage", STAGES)
def test_rows_are_those_that_kafkas_consumer_returned(stage: str) -> None:
    directory = broker_dirs.stage(stage) / "log"
    before = fingerprint(directory)
    wrong: dict[str, set[str]] = {}
    for name, kafka in broker_dirs.consumed(stage).items():
        if name.startswith("__") and stage != "groups/final":
            continue
        for isolation in Isolation:
            expected = broker_dirs.expected_rows(kafka[isolation.value]["records"])
            try:
                same = rows_of(directory, name, isolation) == expected
            except CorruptionError:
                same = False
            if not same:
                wrong.setdefault(name, set()).add(isolation.value)
    listed = {name: told for (where, name), told in DIFFERENT.items() if where == stage}
    levels = {level.value for level in Isolation}
    expected_wrong = {name: levels if told == NOT_OPENED else told & levels for name, told in listed.items()}
    assert wrong == {name: told for name, told in expected_wrong.items() if told}
    assert fingerprint(directory) == before


def test_a_read_only_directory_reads_the_same_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "log"
    shutil.copytree(broker_dirs.stage(THROUGH_SPARK) / "log", directory)
    for path in [*directory.rglob("*"), directory]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = fingerprint(directory)
    for isolation in Isolation:
        frame = spark.read.format("commitlog").options(**{"subscribePattern": ".*", "isolation.level": isolation.value})
        found = frame.load(str(directory)).select("topic", "partition", "offset", "value").collect()
        expected = [
            (*broker_dirs.topic_partition(name), row[0], row[4])
            for name, kafka in broker_dirs.consumed(THROUGH_SPARK).items()
            if not name.startswith("__")
            for row in broker_dirs.expected_rows(kafka[isolation.value]["records"])
        ]
        assert sorted(map(tuple, found), key=repr) == sorted(expected, key=repr)
    assert fingerprint(directory) == before


def test_directory_with_all_message_formats_reads_through_spark_as_its_brokers_dump_shows(spark: SparkSession) -> None:
    """Magic 0, 1 and 2, and all codecs: from a 2.8.2 broker whose topics were upgraded while it wrote."""
    directory = broker_dirs.legacy() / "log"
    options = {"subscribePattern": ".*", "isolation.level": "read_uncommitted", "includeHeaders": "true"}
    frame = spark.read.format("commitlog").options(**options, minPartitions="30").load(str(directory))
    found: dict[str, list[Row]] = {}
    for row in sorted(frame.toArrow().to_pylist(), key=lambda row: row["offset"]):
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(as_row(row))
    plain = sorted(path.name for path in directory.iterdir() if path.is_dir() and not path.name.startswith("__"))
    assert len(plain) > 3
    for partition in plain:
        assert [as_dumped(row, partition) for row in found.get(partition, [])] == dumped(partition), partition
