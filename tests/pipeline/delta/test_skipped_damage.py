"""Exports around damage: the last line counts what the tables lack, and the exit code is 3."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.delta import runs
from pyspark_commitlog.pipeline.delta.command.arguments import parser
from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.format import scan
from tests.pipeline.delta.table_topics import Topic
from tests.support.logs.directories import directory_with_internal_topics

BATCHES, SIZE = 6, 4
SKIPPED = "Skipped 1 damaged batch, {} bytes, 4 offsets: 8 to 11 of t-0."


class Unstopped:
    """A session that a job cannot stop."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        pass


class Damaged:
    """A topic of six batches of which the third is damaged."""

    def __init__(self, spark: SparkSession, log_dir: str) -> None:
        topic = Topic(spark, log_dir, partitions=1)
        for _ in range(BATCHES):
            topic.append([(b"k", b"%d" % each) for each in range(SIZE)])
        with LogManager.open(log_dir) as manager:
            manager.open_log("t", 0).close()
        path = Path(log_dir, "t-0", f"{0:020}.log")
        data = bytearray(path.read_bytes())
        table = scan(np.frombuffer(bytes(data), dtype=np.uint8)).headers.table
        self.size = int(table["size"][2])
        data[int(table["position"][2]) + self.size - 2] ^= 1
        path.write_bytes(data)
        self.log_dir = log_dir


@pytest.fixture
def damaged(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Damaged:
    monkeypatch.setattr(runs, "job_session", lambda *_, **__: Unstopped(spark))
    return Damaged(spark, directory_with_internal_topics(tmp_path / "log"))


class LostStart:
    """A topic whose first segment, with offsets 0 to 3, was lost."""

    def __init__(self, spark: SparkSession, log_dir: str) -> None:
        topic = Topic(spark, log_dir, partitions=1)
        for _ in range(2):
            topic.append([(b"k", b"%d" % each) for each in range(SIZE)])
            with LogManager.open(log_dir) as manager:
                manager.open_log("t", 0).roll()
        Path(log_dir, "t-0", f"{0:020}.log").unlink()
        self.log_dir = log_dir


@pytest.fixture
def lost_start(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LostStart:
    monkeypatch.setattr(runs, "job_session", lambda *_, **__: Unstopped(spark))
    return LostStart(spark, directory_with_internal_topics(tmp_path / "log"))


def export(damaged: Damaged | LostStart, tmp_path: Path, *flags: str) -> int:
    given = ["--log-dir", damaged.log_dir, "--topic", "t", "--read-mode", "dropmalformed", *flags]
    return runs.ExportRun(parser("").parse_args(["to-table", "--table", str(tmp_path / "table"), *given])).run()


def offsets(spark: SparkSession, format: str, path: Path) -> list[int]:
    return sorted(row._offset for row in spark.read.format(format).load(str(path)).collect())


def test_a_folder_of_parquet_files_loaded_around_damage(
    damaged: Damaged, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(damaged, tmp_path, "--table-format", "parquet") == 3
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"{SKIPPED.format(damaged.size)} Everything else was copied."
    there = offsets(spark, "parquet", tmp_path / "table" / "current")
    assert there == [each for each in range(BATCHES * SIZE) if not 8 <= each <= 11]
    assert export(damaged, tmp_path, "--table-format", "parquet") == 0  # nothing new, so nothing was skipped
    assert capsys.readouterr().out.splitlines()[-1] == "Everything new was copied."  # what is missing is missing still


@pytest.mark.only_all
def test_a_query_whose_micro_batches_end_inside_damage_counts_it_once(
    damaged: Damaged, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = ("--checkpoint", str(tmp_path / "checkpoint"), "--max-offsets-per-trigger", "10")
    assert export(damaged, tmp_path, *query) == 3
    lines = capsys.readouterr().out.splitlines()
    assert sum(bool(re.search("micro-batch . written", line)) for line in lines) >= 3
    assert lines[-1] == f"{SKIPPED.format(damaged.size)} Everything else was copied."
    there = offsets(spark, "delta", tmp_path / "table")
    assert there == [each for each in range(BATCHES * SIZE) if not 8 <= each <= 11]
    assert export(damaged, tmp_path, *query) == 0
    assert capsys.readouterr().out == "Everything new was copied.\n"
    again = ("--checkpoint", str(tmp_path / "new"), "--from-offsets", '{"t": {"0": 4}}')
    assert export(damaged, tmp_path, *again) == 3  # the rows are as in the log, which still lacks them
    assert SKIPPED.format(damaged.size) in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("as_parquet", [True, False], ids=["parquet", "delta"])
def test_lost_first_segments_end_an_export_or_are_counted(
    as_parquet: bool, lost_start: LostStart, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--table-format", "parquet") if as_parquet else ("--checkpoint", str(tmp_path / "checkpoint"))
    assert export(lost_start, tmp_path, *flags, "--read-mode", "failfast") == 3
    told = capsys.readouterr().err
    assert "t-0: records 0 to 3 are gone" in told
    assert "use --read-mode dropmalformed" in told
    assert export(lost_start, tmp_path, *flags) == 3
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "Skipped 0 damaged batches, 0 bytes, 4 offsets: 0 to 3 of t-0. Everything else was copied."
    form, path = ("parquet", tmp_path / "table" / "current") if as_parquet else ("delta", tmp_path / "table")
    assert offsets(spark, form, path) == [4, 5, 6, 7]
    assert export(lost_start, tmp_path, *flags) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Everything new was copied."


def test_a_damaged_batch_ends_an_export_with_3_and_another_error_with_1(damaged: Damaged, tmp_path: Path) -> None:
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"))
    assert export(damaged, tmp_path, *checkpoint, "--read-mode", "failfast") == 3
    assert export(damaged, tmp_path, "--read-mode", "failfast") == 1  # no checkpoint


def test_a_table_that_has_rows_is_not_said_to_have_everything_whatever_its_checkpoint(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "job_session", lambda *_, **__: Unstopped(spark))
    topic = Topic(spark, directory_with_internal_topics(tmp_path / "log"), partitions=1)
    said = []
    for each in range(2):
        topic.append([(b"k", b"%d" % each)])
        given = ["--table", str(tmp_path / "table"), "--checkpoint", str(tmp_path / f"checkpoint {each}")]
        options = parser("").parse_args(["to-table", "--log-dir", topic.log_dir, "--topic", "t", *given])
        assert runs.ExportRun(options).run() == 0
        said.append(capsys.readouterr().out.splitlines()[-1])
    assert said == ["Everything was copied.", "Everything new was copied."]
