"""The JVMs of Spark in tests: there are many, each soon over, so their start is most of what they cost.

Over 13,000 classes are loaded until a first micro-batch is done. Out of an archive, as they lie in memory, that takes a
third less of the processor time of the whole program. Java uses an archive only where the class path begins with that
of the program that made it, so Spark's jars come before the folder with its settings, which comes first otherwise.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark

from tests.support.kafka import kafka_jvm

CLASS_PATH = f"{Path(pyspark.__path__[0], 'jars')}/*"
_ARCHIVE = "classes.jsa"
# A session that lives for minutes compiles more than the 48 MB hold that the first compiler has by itself; then methods
# are thrown out and compiled again, a third of the processor time of whatever comes later. It is taken as it fills.
_ROOM = ("-XX:ReservedCodeCacheSize=256m", "-XX:MetaspaceSize=256m")

# What most tests do: a session, a write, a query with its micro-batches, a read.
_PROGRAM = """
from pyspark.sql import SparkSession
from pyspark_commitlog import commitlog_sink

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
numbers = spark.range(100).selectExpr("cast(id as string) as key", "cast(id as string) as value")
commitlog_sink(topic="t", log_dir="log", txnAppId="first")(numbers, 0)
stream = spark.readStream.format("commitlog").option("subscribe", "t").option("startingOffsets", "earliest").load("log")
writer = stream.writeStream.foreachBatch(commitlog_sink(topic="t", log_dir="log", txnAppId="second"))
writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start().awaitTermination()
assert spark.read.format("commitlog").option("subscribe", "t").load("log").groupBy("partition").count().collect()
spark.stop()
"""


def _recipe() -> str:
    """What the archive depends on. Java is told by its file: it may be missing where no test needs it."""
    java = kafka_jvm.any_java()
    changed = java and java.stat().st_mtime_ns
    return f"{java} {changed} {CLASS_PATH} {pyspark.__version__} {kafka_jvm.QUICK_START} {_PROGRAM}"


def _options() -> str:
    archive = kafka_jvm.cache_place("spark-classes", _recipe()) / _ARCHIVE
    quiet = "-Xlog:disable -Xlog:all=error:stderr"  # of an archive that is not there yet, or not for this program
    return " ".join([*kafka_jvm.QUICK_START, *_ROOM, shlex.quote(f"-XX:SharedArchiveFile={archive}"), quiet])


OPTIONS = _options()

# For programs and daemons, however they are started; what spark-submit starts asks for DEFAULTS besides.
ENVIRONMENT = {
    "SPARK_SUBMIT_OPTS": OPTIONS,
    "SPARK_DAEMON_JAVA_OPTS": OPTIONS,
    "SPARK_DAEMON_CLASSPATH": CLASS_PATH,
    "PYSPARK_SUBMIT_ARGS": f"--driver-class-path {shlex.quote(CLASS_PATH)} pyspark-shell",
}
DEFAULTS = {
    "spark.driver.extraClassPath": CLASS_PATH,
    "spark.executor.extraClassPath": CLASS_PATH,
    "spark.executor.extraJavaOptions": OPTIONS,
}
# For sessions whose tables have some rows, and whose machine does more than this.
SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",  # of 50, which cost more than any table here
    "spark.sql.ui.retainedExecutions": "100000",  # a session has many tests, and some count its executions
    "spark.python.authenticate.socketTimeout": "120s",  # 15 s are not enough where many tests run
}


def lines(settings: Mapping[str, str]) -> str:
    """As spark-defaults.conf has them."""
    return "".join(f"{name} {value}\n" for name, value in settings.items())


# The same as lines of spark-defaults.conf, and as arguments of spark-submit.
DEFAULTS_LINES = lines(DEFAULTS)
DEFAULTS_ARGUMENTS = [argument for name, value in DEFAULTS.items() for argument in ("--conf", f"{name}={value}")]


def archive_classes() -> None:
    """Make the archive, once a user. JVMs that start before it is there do without."""
    kafka_jvm.cached("spark-classes", _recipe(), _archive)


def _archive(target: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        Path(work, "program.py").write_text(_PROGRAM)
        Path(work, "conf").mkdir()  # empty, or Java refuses to archive
        submit = Path(sys.executable).with_name("spark-submit")
        archive = Path(work, _ARCHIVE)
        options = [*kafka_jvm.QUICK_START, f"-XX:ArchiveClassesAtExit={archive}"]
        settings = {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": f"{work}/conf"}
        settings["SPARK_SUBMIT_OPTS"] = " ".join(options)
        done = subprocess.run(
            [submit, "--driver-class-path", CLASS_PATH, "program.py"],
            cwd=work,
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        shutil.copy(archive, target)
