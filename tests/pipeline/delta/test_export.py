"""The command line of the export job: what it refuses, and which values it reads."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from unittest.mock import create_autospec

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.arrow.values.avro.serde import Confluent
from pyspark_commitlog.arrow.values.schema_stores import SchemaRegistry
from pyspark_commitlog.pipeline.delta import export
from pyspark_commitlog.pipeline.delta.command.arguments import parser
from pyspark_commitlog.pipeline.delta.export import each_topic, query
from pyspark_commitlog.pipeline.delta.tables import TableSink
from pyspark_commitlog.pipeline.delta.value_serde import serde_of
from pyspark_commitlog.storage import InvalidConfigError, LogManager

COMMON = ["--log-dir", "log", "--topic", "t", "--table", "table", "--checkpoint", "checkpoint"]
JSON = ["--schema", "v string"]


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
def test_wrong_usage_exits_with_2_and_says_what_is_expected(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser("").parse_args(arguments)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--format", "json"], "--format json needs --schema"),
        (["--format", "avro", "--schema", "nowhere.avsc"], "nowhere.avsc.*the path of a file"),
        (["--format", "json", *JSON, "--registry", "http://h"], "takes no --registry; .*--confluent-header"),
        (["--format", "json", *JSON, "--schema-folder", "d"], "takes no --schema-folder; .*--confluent-header"),
        (["--format", "json", *JSON, "--registry-headers", "f"], "takes no --registry-headers"),
        (["--format", "raw", "--registry", "http://h", "--schema-folder", "d"], "no --registry, --schema-folder"),
        (["--schema", "v string"], "--format raw takes no --schema; columns need --format json or avro"),
        (["--confluent-header"], "--format raw takes no --confluent-header"),
        (["--format", "avro", "--schema", "f", "--confluent-header"], "--format avro takes no --confluent-header"),
        (
            ["--format", "avro", "--schema", "f", "--registry", "http://h", "--schema-folder", "d"],
            "give only one of them",
        ),
        (["--format", "avro", "--schema", "f", "--registry-headers", "f"], "--registry-headers needs --registry"),
        (["--serde-mode", "permissive"], "--format raw takes no --serde-mode"),
    ],
)
def test_values_without_a_schema_are_refused_before_anything_is_read(more: list[str], told: str) -> None:
    session = create_autospec(SparkSession)
    with pytest.raises(InvalidConfigError, match=told):
        query(session, given("to-table", *more))
    assert session.mock_calls == []


def test_confluents_header_before_json_is_skipped_only_when_reading(spark: SparkSession) -> None:
    more = ["--format", "json", *JSON, "--confluent-header"]
    serde = serde_of(given("to-table", *more))
    assert serde is not None
    assert serde.decode(pa.array([b'\0\0\0\0\7{"v":"1"}', b'{"v":"2"}'])).to_pylist() == [{"v": "1"}, {"v": "2"}]
    with pytest.raises(InvalidConfigError, match="to-topic writes JSON without a header"):
        serde_of(given("to-topic", *more))


def test_credentials_in_a_file_are_found_from_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.avsc").write_text('{"type": "record", "name": "R", "fields": [{"name": "v", "type": "string"}]}')
    more = ["--registry", "http://h", "--registry-headers", "secrets/registry"]
    (store,) = {
        each.store
        for each in vars(serde_of(given("to-table", "--format", "avro", "--schema", "s.avsc", *more))).values()
        if isinstance(each, Confluent)
    }
    assert store == SchemaRegistry("http://h", headers_file=str(tmp_path / "secrets" / "registry"))


def test_avro_values_are_written_with_the_header_that_was_asked_for(
    tmp_path: Path, log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
    (tmp_path / "flight.avsc").write_text(json.dumps(schema))
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "7.avsc").write_text(json.dumps(schema))
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=1)
    monkeypatch.setattr(export, "starting_offsets", lambda *_: "{}")  # no table is read
    required = [
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
        sink = query(create_autospec(SparkSession), given("to-table", "--format", "avro", *required, *folder)).write
        assert isinstance(sink, TableSink)
        assert sink.serde is not None
        (value,) = sink.serde.encode(pa.array([{"carrier": "UA"}], sink.serde.type)).to_pylist()
        assert value.startswith(begins)


class TestManyTopics:
    @pytest.fixture
    def log(self, log_dir: str) -> str:
        with LogManager.open(log_dir, create=True) as manager:
            for name in ("flights", "weather-a", "weather-b", "__consumer_offsets"):
                manager.create_topic(name, partitions=1)
        return log_dir

    def of(self, log: str, *flags: str) -> list[argparse.Namespace]:
        return each_topic(parser("").parse_args(["to-table", "--log-dir", log, *flags]))

    def test_each_has_its_own_paths(self, log: str) -> None:
        paths = ("--table", "data/{topic}", "--checkpoint", "{topic}/c", "--schema", "{topic}.avsc")
        found = self.of(log, "--topic", "flights", "-t", "weather.*,flights", *paths)
        assert [(each.topic, each.table, each.checkpoint, each.schema) for each in found] == [
            (name, f"data/{name}", f"{name}/c", f"{name}.avsc") for name in ("flights", "weather-a", "weather-b")
        ]
        assert [each.topic for each in self.of(log, "--topics", ".*", *paths)] == [each.topic for each in found]

    def test_paths_that_they_would_share_and_offsets_of_others_are_refused(self, log: str) -> None:
        own = ("--table", "{topic}")
        for flags, told in (
            (("--table", "data"), "--table data: each topic needs its own; write {topic}"),
            ((*own, "--checkpoint", "c"), "--checkpoint c/{topic}"),
            ((*own, "--bad-records", "b"), "--bad-records b: each topic"),
            (
                (*own, "--from-offsets", '{"other": {"0": 1}}'),
                "--from-offsets names topics that are not exported: other",
            ),
        ):
            with pytest.raises(InvalidConfigError, match=re.escape(told)):
                self.of(log, "--topic", "weather.*", *flags)

    def test_a_query_without_a_checkpoint_is_refused(self, log: str) -> None:
        (options,) = self.of(log, "--topic", "flights", "--table", "t")
        with pytest.raises(InvalidConfigError, match="--checkpoint is missing"):
            query(create_autospec(SparkSession), options)
