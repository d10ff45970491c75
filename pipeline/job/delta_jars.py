"""Delta's jars as files: found once, and then named to Spark, so that it fetches and prints nothing at its starts.

``spark.jars.packages`` asks Ivy at every start, which takes seconds and prints sixty lines. So Ivy is asked once, in a
process of its own whose output is kept; the list that it found is in a file under ``$XDG_CACHE_HOME`` or ``~/.cache``,
and is used as long as all its jars exist. For spark-submit, which reads its settings before any Python runs:

    python -m pyspark_commitlog.pipeline.job.delta_jars > delta.conf
    spark-submit --load-spark-defaults --properties-file delta.conf jobs/export.py ...
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ...storage import InvalidConfigError, LocalFileSystem, write_atomically

logger = logging.getLogger(__name__)

DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_PACKAGES = {"s3a": " (org.apache.hadoop:hadoop-aws of the version of Spark's hadoop-client-api)"}
_reachable: set[tuple[Any, str]] = set()  # JVMs and schemes; each micro-batch asks
_FETCH_TIMEOUT_S = 600
# Settings of Ivy, which count when the jars are fetched.
_IVY = ("spark.jars.ivy", "spark.jars.ivySettings", "spark.jars.repositories")
_FETCH = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
print(builder.getOrCreate().sparkContext.getConf().get("spark.jars"))
"""


def delta_jars(settings: Mapping[str, str]) -> list[str]:
    """Returns the addresses of the jars that the installed Delta needs; the first time, fetches them.

    ``settings`` may have those of Ivy (``spark.jars.repositories`` and the like). Raises InvalidConfigError if the jars
    cannot be fetched.
    """
    packages = _packages()
    known = _known(packages)
    jars = known.read_text(encoding="utf-8").split() if known.exists() else []
    if not jars or not all(Path(urlsplit(jar).path).exists() for jar in jars):
        jars = _fetched(packages, settings)
        known.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(LocalFileSystem(), str(known), "\n".join(jars).encode())
    return jars


def check_delta(session: SparkSession) -> None:
    """Raises InvalidConfigError if the session of this process lacks Delta's jar."""
    jvm = getattr(session, "_jvm", None)  # Spark Connect has none
    if jvm is not None and _lacks_delta(jvm):
        raise InvalidConfigError(
            "Delta's jar is not in this session: create it with spark_session(name, delta=True), or give spark-submit "
            "the settings that python -m pyspark_commitlog.pipeline.job.delta_jars prints"
        )


def check_reachable(session: SparkSession, path: str) -> None:
    """Raises InvalidConfigError if a session of this process has no file system for a table at ``path``, a URL."""
    jvm, scheme = getattr(session, "_jvm", None), urlsplit(path).scheme
    if jvm is None or not scheme or (jvm, scheme) in _reachable:
        return
    conf = session._jsparkSession.sessionState().newHadoopConf()
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, conf)
    except Py4JJavaError:
        hint = (
            f"write {path.replace(scheme, 's3a', 1)}, the name that Hadoop has for it"
            if scheme == "s3"
            else f"give it Hadoop's jar for {scheme}, in spark.jars.packages{_PACKAGES.get(scheme, '')}"
        )
        raise InvalidConfigError(f"table {path}: this Spark session has no file system for {scheme}:; {hint}") from None
    _reachable.add((jvm, scheme))


@lru_cache(maxsize=1)  # each micro-batch asks
def _lacks_delta(jvm: Any) -> bool:
    return isinstance(jvm.io.delta.tables.DeltaTable, JavaPackage)


def _packages() -> str:
    """Returns the Maven coordinates for the installed versions of Delta and Spark."""
    from delta import configure_spark_with_delta_pip  # noqa: PLC0415  only sessions with Delta need it

    builder = configure_spark_with_delta_pip(SparkSession.Builder())
    return str(builder._options["spark.jars.packages"])


def _known(packages: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "spark-commitlog", f"{packages.replace(':', '_')}.jars")


def _fetched(packages: str, settings: Mapping[str, str]) -> list[str]:
    logger.info("fetching the jars of %s", packages)
    given = {"spark.jars.packages": packages, **{name: settings[name] for name in _IVY if name in settings}}
    command = [sys.executable, "-c", _FETCH, *(f"{name}={value}" for name, value in given.items())]
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=_FETCH_TIMEOUT_S
    )
    if done.returncode:
        why = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "unresolved dependency" in line]
        raise InvalidConfigError(
            f"the jars of {packages} could not be fetched from Maven Central: {(why or [done.stderr[-300:]])[0]}. Set "
            "spark.jars.repositories to a repository that can be reached, or get the jars and name them in spark.jars; "
            "commands read both from spark-defaults.conf in the folder that SPARK_CONF_DIR names"
        )
    return done.stdout.split()[-1].split(",")


if __name__ == "__main__":
    for name, value in ({"spark.jars": ",".join(delta_jars({}))} | DELTA_SETTINGS).items():
        print(name, value)
