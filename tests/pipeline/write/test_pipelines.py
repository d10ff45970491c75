"""Declarative Pipelines: ``spark-pipelines run`` writes to a log on an object store through ``create_sink``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.spark import spark_jvm
from tests.support.stores import content
from tests.support.stores.seaweed import SeaweedFS

SPECIFICATION = """
name: test
storage: file://{home}/storage
libraries:
  - glob:
      include: transformations/**
"""
TRANSFORMATIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("log", "commitlog", {{"path": "{url}", "topic": "lines", "partitions": "2", "txnAppId": "pipeline"}})

@dp.append_flow(target="log")
def lines():
    return spark.readStream.option("maxFilesPerTrigger", 1).text("file://{home}/input")
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SeaweedFS]:
    with SeaweedFS(tmp_path / "seaweed") as server:
        server.reach(monkeypatch)
        open_root(server.url, create=True, check=lambda _: [])
        yield server


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the pipeline; its settings have no master, which Pipelines refuse."""
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf" / "spark-defaults.conf").write_text(f"spark.ui.enabled false\n{spark_jvm.DEFAULTS_LINES}")
    program = Path(sys.executable).with_name("spark-pipelines")
    found = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_CONF_DIR": str(home / "conf")}
    env = os.environ | found | {"PYSPARK_PYTHON": sys.executable}
    return subprocess.run([program, "run", *arguments], cwd=home, env=env, capture_output=True, text=True, check=False)


def values(url: str) -> list[str]:
    found = content.values(open_root(url), "lines")
    return sorted((value or b"").decode() for each in found.values() for value in each)


@pytest.mark.only_all
def test_a_pipeline_writes_each_row_once_and_a_full_refresh_under_its_name_is_refused(
    server: SeaweedFS, tmp_path: Path
) -> None:
    home = tmp_path / "pipeline"
    for folder in ("input", "transformations"):
        (home / folder).mkdir(parents=True)
    (home / "spark-pipeline.yml").write_text(SPECIFICATION.format(home=home))
    (home / "transformations" / "flows.py").write_text(TRANSFORMATIONS.format(home=home, url=server.url))
    for number in range(3):
        (home / "input" / str(number)).write_text(f"{number}\n")
    first = run(home)
    assert first.returncode == 0, first.stderr
    assert values(server.url) == ["0", "1", "2"]
    (home / "input" / "3").write_text("3\n")
    second = run(home)
    assert second.returncode == 0, second.stderr
    assert values(server.url) == ["0", "1", "2", "3"]
    refreshed = run(home, "--full-refresh-all")
    assert "a new checkpoint with an old txnAppId" in refreshed.stdout + refreshed.stderr
    assert values(server.url) == ["0", "1", "2", "3"]
