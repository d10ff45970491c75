"""Object stores on this machine for measurements: versitygw (with Go) and SeaweedFS; and a session that reaches one.

Delta gets to the store through Hadoop's S3A, whose jars come from Maven Central once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.sessions import closing_session
from tests.support.spark.s3a import s3a_jars, s3a_settings
from tests.support.stores.seaweed import SeaweedFS
from tests.support.stores.server import StoreServer
from tests.support.stores.versity import VersityGateway

BUCKET = "logs"

SERVERS: dict[str, type[StoreServer]] = {"versitygw": VersityGateway, "SeaweedFS": SeaweedFS}


def reach(port: int) -> None:
    """Lets this process, and those that it starts, reach the store on ``port``; for a process that reached none yet."""
    os.environ.update(StoreServer(Path(), port=port).environment())


@contextmanager
def session_on(port: int) -> Iterator[SparkSession]:
    """A session that reaches the store on ``port`` in both ways; to be called once in a process."""
    reach(port)
    settings = {**s3a_settings(port), "spark.databricks.delta.snapshotPartitions": "2"}
    with closing_session(settings, s3a_jars()) as spark:
        yield spark
