"""Hadoop's S3A, by which Delta reaches an object store: its jars, fetched from Maven Central once, and its settings."""

from __future__ import annotations

from tests.support.kafka import kafka_jvm
from tests.support.stores.server import KEY, SECRET

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


def s3a_jars() -> list[str]:
    """Returns the paths of the jars. Raises as ``kafka_jvm.resolved``."""
    module = _S3A.format(sdk="\n    ".join(map(_OF_SDK.format, _SDK)))
    return [*map(str, kafka_jvm.resolved("s3a", module))]


def s3a_settings(port: int) -> dict[str, str]:
    """Returns what a session needs to reach the store on ``port`` of this machine."""
    settings = {
        "endpoint": f"http://127.0.0.1:{port}",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": KEY,
        "secret.key": SECRET,
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}
