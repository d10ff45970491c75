"""Delta's jars as files, for programs that are started again and again: each would ask Ivy for them."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark_commitlog.pipeline.job.session import DELTA_SETTINGS
from tests.support.kafka import kafka_jvm
from tests.support.spark import spark_jvm

ROOT = Path(__file__).parents[3]

# Of what Delta's own list names, Spark has the rest, or nothing here uses it.
_JARS = ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0")
_SETTINGS = spark_jvm.lines(DELTA_SETTINGS | {"spark.databricks.delta.snapshotPartitions": "2"})
_SMALL = spark_jvm.lines({"spark.master": "local[2]"} | spark_jvm.SMALL | spark_jvm.DEFAULTS)


def delta_jars() -> str:
    """Paths with commas, as ``spark.jars`` wants them; fetched on first use. Raises as ``kafka_jvm.jars``."""
    return ",".join(map(str, kafka_jvm.resolved_alone("delta", *_JARS)))


def delta_settings() -> str:
    """Lines for spark-defaults.conf; raises as :func:`delta_jars`."""
    return f"spark.jars {delta_jars()}\n{_SETTINGS}"


def small_conf(directory: Path) -> Path:
    """A copy of conf/, made in ``directory``, with which a program asks no Ivy and cuts little data into few pieces."""
    conf = directory / "conf"
    shutil.copytree(ROOT / "conf", conf)
    defaults = conf / "spark-defaults.conf"
    defaults.write_text("\n".join([defaults.read_text(), delta_settings(), _SMALL]))
    (conf / "delta/delta.conf").write_text(delta_settings())
    return conf
