"""A table and its tail where the table is Parquet files, and where the log is on an object store."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_commitlog import table_sink, topic_table
from pyspark_commitlog.pipeline.delta.command.arguments import parser
from pyspark_commitlog.pipeline.delta.export import load
from pyspark_commitlog.storage import InvalidConfigError
from tests.pipeline.delta.table_and_tail.exported import FLIGHT, Exported, counted, flight
from tests.pipeline.delta.table_and_tail.placed import Case, in_own_process
from tests.pipeline.delta.table_topics import run
from tests.support.stores.seaweed import SeaweedFS

pytestmark = pytest.mark.only_all


class Files(Exported):
    """A topic that is loaded into Parquet files."""

    def export(self) -> None:
        where = ["--log-dir", self.log_dir, "--topic", "t", "--table", self.table, "--table-format", "parquet"]
        values = ["--format", "json", "--schema", "carrier string, delay int"]
        load(self.spark, parser("").parse_args(["to-table", *where, *values]))


def test_parquet_files_and_their_tail(spark: SparkSession, tmp_path: Path) -> None:
    topic = Files(spark, tmp_path)
    topic.append([(b"a", flight("UA", 1)), (b"b", None)])
    topic.export()
    topic.append([(b"c", flight("AA", 3))], partition=1)
    before, expected = topic.both(), topic.expected()
    assert counted(before) == expected
    topic.export()
    topic.append([(b"d", flight("DL", 4))])
    assert counted(before) == expected
    assert counted(topic.both()) == topic.expected()


def test_parquet_files_of_an_older_version_need_a_serde(spark: SparkSession, tmp_path: Path) -> None:
    topic = Files(spark, tmp_path)
    topic.append([(b"a", flight("UA", 1))])
    topic.export()
    (Path(topic.table) / "current" / "_serde.json").unlink()
    topic.append([(b"b", flight("UA", 2))])
    with pytest.raises(InvalidConfigError, match="does not say how its values were decoded"):
        topic.both()
    assert counted(topic.both(serde=FLIGHT)) == topic.expected()


CASES = [Case("append", True, True), Case("upsert", True, True), Case("append", False, True)]


def test_table_on_an_object_store(tmp_path: Path, seaweed: SeaweedFS) -> None:
    """Through S3A, an export, OPTIMIZE and VACUUM; a stream goes over both. The log is there too, or a directory."""
    for case, found in in_own_process(seaweed.port, tmp_path, CASES).items():
        assert found.both == found.expected, case
        if case.mode == "append":
            assert [carrier for _, carrier in found.streamed] == ["UA", "AA", None, "DL", "UA", None, "B6"], case
            assert [offset for offset, _ in found.streamed] == sorted(offset for offset, _ in found.streamed), case


def test_table_on_a_store_that_the_session_has_no_jar_for_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    topic = Exported(spark, tmp_path)
    for url, hint in {"s3a://logs/table": "hadoop-aws", "s3://logs/table": "write s3a://logs/table"}.items():
        topic.table = url
        with pytest.raises(InvalidConfigError, match=f"no file system for s3a?:; .*{hint}"):
            topic.both()
        topic.append([(b"a", flight("UA", 1))])
        with pytest.raises(PySparkException, match=hint):
            topic.export()


def test_log_on_an_object_store(spark: SparkSession, tmp_path: Path, bucket: str) -> None:
    def write(*values: bytes) -> None:
        rows = spark.createDataFrame([(value,) for value in values], "value binary")
        rows.write.format("commitlog").mode("append").option("topic", "t").save(bucket)

    table = str(tmp_path / "table")
    write(flight("UA", 1), flight("AA", 2))
    stream = spark.readStream.format("commitlog").option("subscribe", "t").option("startingOffsets", "earliest")
    run(stream.option("includeHeaders", "true").load(bucket), table_sink(path=table, serde=FLIGHT), tmp_path / "c")
    write(flight("DL", 3))
    both = topic_table(spark, bucket, "t", table)
    assert sorted((row["_offset"], row.carrier) for row in both.collect())[-1][1] == "DL"
    assert both.count() == 3
