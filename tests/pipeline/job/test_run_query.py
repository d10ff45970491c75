"""What a program that ran queries leaves to the JVM at its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark import spark_jvm

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, sys
from pyspark_commitlog.pipeline.job.run_query import on_jvm_shutdown
from pyspark_commitlog.pipeline.job.session import spark_session

spark = spark_session("ends", master="local[1]", settings=json.loads(sys.argv[1]))
on_jvm_shutdown(spark.sparkContext, lambda: print("called"))
spark.stop()
"""


def ended(conf: Path | None) -> subprocess.CompletedProcess[str]:
    """Runs PROGRAM to its end and that of the JVM, which writes to the same stderr, with a folder of settings."""
    given = {"SPARK_CONF_DIR": str(conf)} if conf else {}
    env = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"} | given
    command = [sys.executable, "-c", PROGRAM, json.dumps(spark_jvm.SMALL)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_the_jvm_calls_nothing_in_a_program_that_has_ended() -> None:
    done = ended(None)  # the log4j2 of our conf/ would not show it
    assert (done.returncode, done.stdout) == (0, "")
    assert "Exception" not in done.stderr


@pytest.mark.slow
def test_with_the_settings_of_the_package_spark_logs_only_errors() -> None:
    lines = ended(ROOT / "conf").stderr.splitlines()
    assert [line for line in lines if "incubator" not in line and not line.startswith("Picked up")] == []
