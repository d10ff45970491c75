"""Which Python Spark runs, and what is said about one without this package."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from pyspark_commitlog.pipeline.job.pythons import _has_package, warn_of_another_python
from pyspark_commitlog.storage import LogManager
from tests.support.logs.building import records
from tests.support.logs.directories import directory_with_internal_topics

READ = """
import sys
from pyspark_commitlog import spark_session
spark = spark_session("read", master="local[1]", settings={"spark.ui.enabled": "false"})
print(spark.read.format("commitlog").option("subscribe", "t").load(sys.argv[1]).count())
"""


@pytest.fixture
def another(tmp_path: Path) -> str:
    """A Python that has no package of ours, nor any other."""
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho no module >&2\nexit 1\n")
    python.chmod(0o755)
    return str(python)


def said(python: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> str:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    caplog.clear()
    if python is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    else:
        monkeypatch.setenv("PYSPARK_PYTHON", python)
    with caplog.at_level(logging.WARNING):
        warn_of_another_python()
    return caplog.text


def test_a_python_without_the_package_is_named_with_what_to_set(
    another: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = said(another, monkeypatch, caplog)
    assert f"Spark runs {another}, which does not have spark-commitlog" in told
    assert "DATA_SOURCE_NOT_FOUND" in told
    assert f"PYSPARK_PYTHON={sys.executable}" in told
    _has_package.cache_clear()
    monkeypatch.setenv("PATH", str(Path(another).parent))
    assert "Spark runs python3, " in said(None, monkeypatch, caplog)
    _has_package.cache_clear()


def test_nothing_is_said_of_this_python_or_of_one_on_other_machines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for python in (sys.executable, "./environment/bin/python"):
        assert said(python, monkeypatch, caplog) == ""


@pytest.mark.slow
@pytest.mark.only_all
def test_a_session_finds_the_data_source_whatever_python_is_on_the_path(another: str, tmp_path: Path) -> None:
    log_dir = directory_with_internal_topics(tmp_path / "log")
    with LogManager.open(log_dir) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append_records(records([b"a", b"b"]))
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment |= {"PATH": f"{Path(another).parent}:{os.environ['PATH']}", "PYSPARK_DRIVER_PYTHON": another}
    command = [sys.executable, "-c", READ, log_dir]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
