"""Fixtures shared by the tests with Spark: one session per worker process, and separate log directories."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.job.session import DELTA_SETTINGS, spark_session
from pyspark_commitlog.pipeline.write import kept_writers
from pyspark_commitlog.storage.bucket.root import open_root
from tests.pipeline.read.kafka_sources import Sources
from tests.support.kafka.broker import Broker
from tests.support.kafka.kafka_jvm import if_fetched
from tests.support.pages import small_demo
from tests.support.spark import spark_jvm
from tests.support.spark.connector import connector_jars
from tests.support.spark.delta_jars import delta_jars
from tests.support.spark.kafka_source import PROMPT, fill
from tests.support.spark.settings import settings
from tests.support.stores.seaweed import SeaweedFS, environment_of_spark, spark_port

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def closed_writers() -> Iterator[None]:
    """Closes the writers in directories that sinks of the test kept: without a query, they would keep their files."""
    yield
    for directory, app_id in list(kept_writers._slots):
        if "://" not in directory:
            kept_writers.release(directory, app_id)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores, with its files in a temporary folder, and with Spark's Kafka source and Delta.

    Its processes can reach the server of ``bucket``.

    Where the jars of one of the two cannot be had, the session is without it: only the tests that use it fail.
    """
    os.environ.update(environment_of_spark())
    warehouse = tmp_path_factory.mktemp("spark") / "warehouse"
    delta = if_fetched(delta_jars)
    jars = {"spark.jars": ",".join(filter(None, (if_fetched(connector_jars), delta)))}
    own = spark_jvm.SMALL | {"spark.sql.warehouse.dir": str(warehouse)} | jars | (DELTA_SETTINGS if delta else {})
    session = spark_session("tests", master="local[2]", settings=own)
    session.sparkContext.setLogLevel("OFF")  # tests that expect a failure would print it
    yield session
    session.stop()


@pytest.fixture(scope="session")
def seaweed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    """An object store that processes of ``spark`` can reach."""
    with SeaweedFS(tmp_path_factory.mktemp("seaweed"), port=spark_port()) as server:
        yield server


@pytest.fixture
def bucket(seaweed: SeaweedFS, request: pytest.FixtureRequest) -> str:
    """The URL of a log of the test's own on ``seaweed``, empty."""
    name = re.sub("[^A-Za-z0-9]", "-", f"{request.path.stem} {request.node.name}")  # modules have tests of one name
    url = f"{seaweed.url}/{name}"
    open_root(url, create=True, check=lambda _: [])
    return url


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with filter push-down for Python data sources."""
    with settings(spark, {"spark.sql.python.filterPushdown.enabled": "true"}):
        yield spark


@pytest.fixture(scope="session")
def sources(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    """A broker with topics (``spark_kafka.fill``), to be read through the broker and from its directory."""
    with Broker(tmp_path_factory.mktemp("broker")).start(props=PROMPT) as broker:
        fill(broker)
        yield Sources(spark, broker)


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A path at which a log directory may be created."""
    return str(tmp_path / "log")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a small copy of what ``make demo`` creates."""
    directory = tmp_path_factory.mktemp("demo")
    small_demo(directory)
    return directory


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a wheel that was built from an sdist, as an installer without the checkout builds it."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out], cwd=ROOT, check=True)
    (sdist,) = out.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out, sdist]
    subprocess.run(pip, check=True)
    (built,) = out.glob("*.whl")
    return built
