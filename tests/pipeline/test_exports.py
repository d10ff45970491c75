"""The command line of the job that exports: what it refuses, and which values it reads."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from unittest.mock import create_autospec

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.exports import parser, query
from pyspark_commitlog.pipeline.tables import TableSink
from pyspark_commitlog.storage import InvalidConfigError, LogManager

COMMON = ["--log-dir", "log", "--topic", "t", "--table", "table", "--checkpoint", "checkpoint"]


def given(direction: str, *more: str) -> argparse.Namespace:
    return parser("").parse_args([direction, *COMMON, *more])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["to-table"], "--checkpoint"),
        (["to-table", *COMMON, "--mode", "replace"], "append"),
        (["to-lake", *COMMON], "to-topic"),
        (["to-topic", *COMMON, "--partitions", "many"], "--partitions"),
    ],
)
def test_wrong_use_ends_with_1_and_says_what_is_expected(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser("").parse_args(arguments)
    assert ended.value.code == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--format", "json"], "--format json needs --schema"),
        (["--format", "avro", "--schema", "nowhere.avsc"], "nowhere.avsc.*the path of a file"),
    ],
)
def test_values_without_a_schema_are_refused_before_anything_is_read(more: list[str], told: str) -> None:
    session = create_autospec(SparkSession)
    with pytest.raises(InvalidConfigError, match=told):
        query(session, given("to-table", *more))
    assert session.mock_calls == []


def test_avro_values_are_written_with_the_header_that_was_asked_for(tmp_path: Path, log_dir: str) -> None:
    schema = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
    (tmp_path / "flight.avsc").write_text(json.dumps(schema))
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "7.avsc").write_text(json.dumps(schema))
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=1)
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)  # so that no table is looked at
    places = [
        "--log-dir",
        log_dir,
        "--checkpoint",
        str(tmp_path / "checkpoint"),
        "--schema",
        str(tmp_path / "flight.avsc"),
    ]
    for folder, begins in (
        ([], b"\xc3\x01"),
        (["--schema-folder", str(tmp_path / "schemas")], b"\x00\x00\x00\x00\x07"),
    ):
        _, sink = query(create_autospec(SparkSession), given("to-table", "--format", "avro", *places, *folder))
        assert isinstance(sink, TableSink)
        assert sink.serde is not None
        (value,) = sink.serde.encode(pa.array([{"carrier": "UA"}], sink.serde.type)).to_pylist()
        assert value.startswith(begins)
