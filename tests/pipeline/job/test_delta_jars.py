"""Delta's jars: asked for once, without Ivy's output, and named to the session as files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark import SparkContext

from pyspark_commitlog.pipeline.job import delta_jars as module
from pyspark_commitlog.pipeline.job.delta_jars import DELTA_SETTINGS, check_reachable, delta_jars
from pyspark_commitlog.pipeline.job.session import _with_delta
from pyspark_commitlog.storage import InvalidConfigError


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that ask Ivy; each finds two jars in ``tmp_path``, and prints what Ivy prints."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        jars = [tmp_path / "delta-spark.jar", tmp_path / "delta-storage.jar"]
        for jar in jars:
            jar.touch()
        found = ",".join(f"file://{jar}" for jar in jars)
        return subprocess.CompletedProcess(command, 0, f":: loading settings\n{found}\n", ":: resolving\n")

    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return commands


def test_ivy_is_asked_once_and_again_when_a_jar_is_gone(
    asked: list[list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = [f"file://{tmp_path}/delta-spark.jar", f"file://{tmp_path}/delta-storage.jar"]
    for _ in range(2):
        assert delta_jars({"spark.jars.repositories": "http://mirror", "spark.app.name": "x"}) == expected
    assert len(asked) == 1
    assert any(each.startswith("spark.jars.packages=io.delta:delta-spark") for each in asked[0])
    assert "spark.jars.repositories=http://mirror" in asked[0]
    assert "spark.app.name=x" not in asked[0]
    (tmp_path / "delta-storage.jar").unlink()
    assert delta_jars({}) == expected
    assert len(asked) == 2
    assert capfd.readouterr() == ("", "")


def test_jars_that_cannot_be_fetched_are_an_error_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "::\n  unresolved dependency: io.delta#delta-spark: not found\n"
    failed = subprocess.CompletedProcess([sys.executable], 1, "", said)
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InvalidConfigError, match=r"unresolved dependency: io\.delta.*spark\.jars.*SPARK_CONF_DIR"):
        delta_jars({})
    assert list(tmp_path.iterdir()) == []


def test_jars_of_the_user_stay(asked: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    found = _with_delta({"spark.jars": "/a.jar"})
    assert found["spark.jars"].split(",")[0] == "/a.jar"
    assert "delta-storage.jar" in found["spark.jars"]
    assert DELTA_SETTINGS.items() <= found.items()
    for own in ({"spark.jars": "/delta-spark_2.13.jar"}, {"spark.jars.packages": "io.delta:delta-spark_2.13:4"}):
        assert _with_delta(own) == DELTA_SETTINGS | own
    assert len(asked) == 1


def test_jars_and_repositories_of_sparks_own_file_stay(
    asked: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    file = tmp_path / "spark-defaults.conf"
    file.write_text("# of the company\nspark.jars.repositories  http://mirror\nspark.jars=/a.jar\n")
    assert _with_delta({})["spark.jars"].startswith("/a.jar,file://")
    assert "spark.jars.repositories=http://mirror" in asked[0]
    file.write_text("spark.jars /jars/delta-spark_4.2_2.13-4.4.0.jar\n")
    assert _with_delta({}) == DELTA_SETTINGS
    assert len(asked) == 1


def test_hadoop_is_asked_once_for_the_file_system_of_a_table() -> None:
    """Each micro-batch has a session of its own."""
    jvm = MagicMock()
    for _ in range(2):
        check_reachable(MagicMock(_jvm=jvm), "s3a://logs/table")
    asked = jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass
    assert [each.args[0] for each in asked.call_args_list] == ["s3a"]
