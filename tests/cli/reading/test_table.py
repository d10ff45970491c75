"""``commitlog table``: what is read from an exported table, and what from its log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.delta.parquet_folder import ParquetFolder
from pyspark_commitlog.pipeline.rows.topic_ids import KnownOffsets
from pyspark_commitlog.storage import LogManager, TopicPartition
from tests.cli.in_process import commitlog
from tests.support.delta_log import ADDED, commit, exported
from tests.support.logs.building import append


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Five records in partition 0, and none in partition 1."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=2)
        append(manager.open_log("t", 0), b"a", b"b", b"c", b"d", b"e")
    return tmp_path / "log"


def test_offsets_of_table_and_log_are_printed(log_dir: Path, tmp_path: Path) -> None:
    exported(tmp_path / "table", "t", p0=3, p1=0)
    done = commitlog("table", "--log-dir", log_dir, "-t", "t", "--table", tmp_path / "table")
    assert done.code == 0, done.stderr
    first, _, header, *lines = done.stdout.splitlines()
    assert first == f"{tmp_path / 'table'}: Delta, version 0"
    assert header.split() == ["PARTITION", "TABLE-BELOW", "LOG-START-OFFSET", "LOG-FROM", "LOG-BELOW", "TAIL"]
    assert [line.split() for line in lines] == [["t-0", "3", "0", "3", "5", "2"], ["t-1", "0", "0", "-", "-", "0"]]


def test_parquet_files_with_their_offsets(log_dir: Path, tmp_path: Path) -> None:
    folder = ParquetFolder(str(tmp_path / "table"))
    known = KnownOffsets({TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}, {})
    with folder.locked():
        folder.publish(known, lambda path: Path(path).mkdir(), [])
    done = commitlog("table", "--log-dir", log_dir, "-t", "t", "--table", tmp_path / "table", "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"topic": "t", "partition": 0, "table_below": 5, "log_start_offset": 0, "log_below": 5, "tail": 0},
        {"topic": "t", "partition": 1, "table_below": 0, "log_start_offset": 0, "log_below": 0, "tail": 0},
    ]


def test_offsets_in_neither_are_named_and_the_code_is_1(log_dir: Path, tmp_path: Path) -> None:
    exported(tmp_path / "table", "t", p0=1, p1=0)
    with LogManager.open(str(log_dir)) as manager:
        manager.open_log("t", 0).delete_records(4)
    done = commitlog("table", "--log-dir", log_dir, "-t", "t", "--table", tmp_path / "table")
    assert (done.code, done.stdout) == (1, "")
    assert "offsets 1 to 3 are in neither" in done.stderr


def test_table_on_an_object_store_is_refused(log_dir: Path) -> None:
    done = commitlog("table", "--log-dir", log_dir, "-t", "t", "--table", "s3://bucket/table")
    assert done.code == 1
    assert "table s3://bucket/table: only tables on a local file system" in done.stderr


@pytest.mark.parametrize("has_rows", [False, True], ids=["no table", "rows by a program without a checkpoint"])
def test_table_without_known_offsets_is_refused(log_dir: Path, tmp_path: Path, has_rows: bool) -> None:
    if has_rows:
        commit(tmp_path / "table", ADDED)
    done = commitlog("table", "--log-dir", log_dir, "-t", "t", "--table", tmp_path / "table")
    assert done.code == 1
    assert ("does not record" if has_rows else "has no Delta table") in done.stderr
