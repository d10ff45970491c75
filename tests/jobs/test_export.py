"""jobs/export.py under spark-submit with many topics: each has its own table, and one that fails stops no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pyspark_commitlog.storage import LogManager
from tests.support.logs.building import records
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.spark import spark_jvm

ROOT = Path(__file__).parents[2]
TOPICS = {"flights": [b'{"v":1}', b'{"v":2}'], "weather-a": [b'{"v":3}'], "weather-b": [b"no JSON"], "other": [b"x"]}
pytestmark = pytest.mark.slow


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    directory = directory_with_internal_topics(tmp_path / "log")
    with LogManager.open(directory) as manager:
        for name, values in TOPICS.items():
            manager.create_topic(name, partitions=1)
            manager.open_log(name, 0).append_records(records(values))
    return directory


def export(log_dir: str, *options: object, delta: bool = False) -> subprocess.CompletedProcess[str]:
    submit = [Path(sys.executable).with_name("spark-submit"), *spark_jvm.DEFAULTS_ARGUMENTS]
    if delta:
        submit += ["--load-spark-defaults", "--properties-file", ROOT / "conf" / "delta" / "delta.conf"]
    submit += [ROOT / "jobs" / "export.py", "to-table"]
    given = ["--log-dir", log_dir, "--topic", "flights,weather.*", "--format", "json", "--schema", "v int", *options]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(ROOT / "conf")}
    command = [str(each) for each in (*submit, *given)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def values(folder: Path) -> list[int]:
    return sorted(v for file in folder.glob("part-*.parquet") for v in pq.read_table(file)["v"].to_pylist())


@pytest.mark.only_all
def test_each_topic_has_its_table_and_one_that_fails_stops_no_other(log_dir: str, tmp_path: Path) -> None:
    paths = ("--table", tmp_path / "{topic}", "--checkpoint", tmp_path / "checkpoints" / "{topic}")
    done = export(log_dir, *paths, delta=True)
    assert done.returncode == 1, done.stderr
    assert "export: weather-b: " in done.stderr
    assert "--bad-records PATH" in done.stderr
    assert not [line for line in done.stderr.splitlines() if line.startswith(("\tat ", "Traceback"))]
    assert "flights: micro-batch 0 written" in done.stdout
    found = {topic: values(tmp_path / topic) for topic in TOPICS}
    assert found == {"flights": [1, 2], "weather-a": [3], "weather-b": [], "other": []}


@pytest.mark.only_all
def test_parquet_needs_no_delta_and_no_checkpoint(log_dir: str, tmp_path: Path) -> None:
    table = ("--table-format", "parquet", "--table", tmp_path / "{topic}", "--serde-mode", "permissive")
    for told in ("weather-a: loaded: offsets 0 to 0 of partition 0", "weather-a: loaded: nothing new"):
        done = export(log_dir, *table)
        assert (done.returncode, told in done.stdout) == (0, True), done.stderr
    assert values(tmp_path / "flights" / "current") == [1, 2]
    offsets = json.loads((tmp_path / "flights" / "current" / "_offsets.json").read_text())
    assert offsets.pop("flights") == {"0": 2}
    assert list(offsets.values()) == [{}]  # the topic's id
    assert values(tmp_path / "weather-a" / "current") == [3]
