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
from tests.support.kafka import kafka_jvm
from tests.support.stores.seaweed import SeaweedFS
from tests.support.stores.server import KEY, SECRET, StoreServer
from tests.support.stores.versity import VersityGateway

BUCKET = "logs"
_S3A = """\
<ivy-module version="2.0">
  <info organisation="spark-commitlog" module="s3a-for-benchmarks"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.hadoop" name="hadoop-aws" rev="3.5.0" conf="default->master"/>
    {sdk}
    <dependency org="software.amazon.s3.analyticsaccelerator" name="analyticsaccelerator-s3" rev="1.3.1"
                conf="default->master"/>
  </dependencies>
</ivy-module>
"""
_SDK = ("s3", "s3-transfer-manager", "sts", "apache-client")
_OF_SDK = '<dependency org="software.amazon.awssdk" name="{}" rev="2.35.4" conf="default->default"/>'

SERVERS: dict[str, type[StoreServer]] = {"versitygw": VersityGateway, "SeaweedFS": SeaweedFS}


def reach(port: int) -> None:
    """Lets this process, and those that it starts, reach the store on ``port``; for a process that reached none yet."""
    os.environ.update(StoreServer(Path(), port=port).environment())


@contextmanager
def session_on(port: int) -> Iterator[SparkSession]:
    """A session that reaches the store on ``port`` in both ways; to be called once in a process."""
    reach(port)
    s3a = {
        "endpoint": f"http://127.0.0.1:{port}",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": KEY,
        "secret.key": SECRET,
    }
    settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}
    with closing_session({**settings, "spark.databricks.delta.snapshotPartitions": "2"}, s3a_jars()) as spark:
        yield spark


def s3a_jars() -> list[str]:
    module = _S3A.format(sdk="\n    ".join(map(_OF_SDK.format, _SDK)))
    return [*map(str, kafka_jvm.resolved("s3a", module))]
