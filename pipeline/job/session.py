"""A Spark session for Python programs, and the settings in conf/*.toml.

Under ``spark-submit``, Spark's settings come from conf/spark-defaults.conf, and for Delta from conf/delta/delta.conf:
jars set here would be loaded too late.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from os import environ
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ...storage import InvalidConfigError
from .delta_jars import DELTA_SETTINGS, delta_jars
from .frames import hide_frames
from .pythons import run_this_python, warn_of_another_python
from .spark_defaults import spark_defaults
from .stderr import is_submitted

# Saves half the time of a short query with Python (docs/decisions/worker_daemon.md).
WORKER_SETTINGS = {
    "spark.python.daemon.module": "pyspark_commitlog.pipeline.workers.daemon",
    "spark.python.unix.domain.socket.enabled": "true",
}
# Turns off Arrow's checks of bounds, and of nulls that Spark checks already; and makes regions so large that an Arrow
# message is not a large object to the garbage collector (docs/tuning.md).
_JAVA_OPTIONS = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false -XX:G1HeapRegionSize=8m"
)
SETTINGS = WORKER_SETTINGS | {
    "spark.sql.session.timeZone": "UTC",
    # With fewer rows per Arrow batch, a task starts and finishes earlier; the writer combines many batches.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # A table and the tail of its log become one stage; a tail above a megabyte is sent to tasks as Arrow batches.
    "spark.sql.codegen.wholeStage.union.enabled": "true",
    "spark.sql.execution.arrow.localRelationThreshold": "1m",
    # Not extraJavaOptions, which are the user's.
    "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
    "spark.executor.defaultJavaOptions": _JAVA_OPTIONS,
}


def spark_session(
    name: str, *, master: str = "local[*]", settings: Mapping[str, str] | None = None, delta: bool = False
) -> SparkSession:
    """Returns a session whose workers run this Python, with our settings, which ``settings`` override.

    With ``delta``, the session reads and writes Delta tables too: Delta's jars are fetched from Maven Central once,
    unless ``settings`` or Spark's file spark-defaults.conf name them in ``spark.jars`` or ``spark.jars.packages``.
    Raises InvalidConfigError if they cannot be fetched. Logs a warning if ``PYSPARK_PYTHON`` names another Python,
    which does not have this package.
    """
    own = dict(settings or {})
    run_this_python()
    warn_of_another_python()
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in (SETTINGS | (_with_delta(own) if delta else own)).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def job_session(name: str, *, delta: bool = False) -> SparkSession:
    """Returns the session of a job: under spark-submit with its settings, else :func:`spark_session`.

    Where no folder of Spark's settings is named, the session of a command takes that of the package, whose log has
    neither progress bars nor the frames of each failed attempt.
    """
    hide_frames()
    if is_submitted():
        return SparkSession.builder.appName(name).getOrCreate()
    if not environ.keys() & {"SPARK_CONF_DIR", "SPARK_HOME"}:
        environ["SPARK_CONF_DIR"] = str(files("pyspark_commitlog") / "conf")
    return spark_session(name, delta=delta)


def _with_delta(own: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings with Delta's; adds its jars unless they are set or a JVM already runs."""
    given = spark_defaults() | dict(own)
    jars = given.get("spark.jars", "")
    is_there = "delta-spark" in jars + given.get("spark.jars.packages", "")
    if is_there or SparkContext._active_spark_context is not None:
        return DELTA_SETTINGS | dict(own)
    return DELTA_SETTINGS | dict(own) | {"spark.jars": ",".join(filter(None, (jars, *delta_jars(given))))}


@dataclass(frozen=True)
class TopicSettings:
    """The section of a settings file about a topic: partitions, and settings of topic and producer by Kafka's names."""

    partitions: int | None = None
    configs: dict[str, str] = field(default_factory=dict)
    producer: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> TopicSettings:
        """Returns the content of a table ``[topics.<name>]``: ``partitions``, a table ``producer``, and settings."""
        configs = {key: str(value) for key, value in table.items() if key not in ("partitions", "producer")}
        producer = {key: str(value) for key, value in table.get("producer", {}).items()}
        return cls(table.get("partitions"), configs, producer)


@dataclass(frozen=True)
class Settings:
    """The content of a settings file such as conf/local.toml. Its paths are relative to the working directory."""

    log_dir: str
    checkpoints: str
    topics: dict[str, TopicSettings]

    @classmethod
    def load(cls, path: str | Path) -> Settings:
        """Returns the settings in a file. Raises InvalidConfigError if it is missing, is not TOML, or lacks a key."""
        try:
            found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            topics = {name: TopicSettings.parse(table) for name, table in found.get("topics", {}).items()}
            return cls(found["log_dir"], found["checkpoints"], topics)
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise InvalidConfigError(f"settings file {path}: {error}") from None
        except KeyError as error:
            raise InvalidConfigError(f"settings file {path}: the key {error} is missing") from None

    def topic(self, name: str) -> TopicSettings:
        """Returns the settings of a topic; Kafka's defaults if the file does not name the topic."""
        return self.topics.get(name, TopicSettings())
