"""What every test may ask for: one Spark session a worker process, and log directories of their own."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.session import spark_session

# Workers run the Python that runs the tests, whatever the machine's own is.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores that keeps its own files in a temporary folder."""
    warehouse = tmp_path_factory.mktemp("spark")
    with (Path(tempfile.gettempdir()) / "spark-commitlog-tests.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)  # two sessions that fetch the same jar at once spoil each other's cache
        session = spark_session(
            "tests",
            master="local[2]",
            settings={
                "spark.ui.enabled": "false",
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "1g",
                "spark.sql.warehouse.dir": str(warehouse / "warehouse"),
            },
        )
    yield session
    session.stop()
