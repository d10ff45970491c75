"""Object stores on this machine for measurements: versitygw (with Go) and SeaweedFS; and a session that reaches one.

Delta gets to the store through Hadoop's S3A, whose jars come from Maven Central once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.sessions import closing_session
from tests.support.kafka import kafka_jvm
from tests.support.kafka.broker import free_port
from tests.support.stores.proxies import Proxy
from tests.support.stores.seaweed import KEY, SECRET, SeaweedFS

BUCKET = "logs"
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
START_TIMEOUT_S = 60
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

Server = Callable[[Path], AbstractContextManager[int]]
"""Starts a server with an empty bucket in a directory; its context is the port."""


@contextmanager
def versitygw(home: Path) -> Iterator[int]:
    """Starts versitygw over the files in ``home``; its context is the port."""
    (home / BUCKET).mkdir(parents=True)
    port = free_port()
    keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    command = [str(_program()), "--quiet", "--port", f"127.0.0.1:{port}", "posix", str(home)]
    process = subprocess.Popen(kafka_jvm.dying_with_us(command), env=os.environ | keys, stdout=subprocess.DEVNULL)
    try:
        _wait(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def seaweedfs(home: Path) -> Iterator[int]:
    """Starts SeaweedFS; its context is the port."""
    with SeaweedFS(home) as server:
        yield server.port


SERVERS: dict[str, Server] = {"versitygw": versitygw, "SeaweedFS": seaweedfs}


@contextmanager
def session_on(port: int) -> Iterator[SparkSession]:
    """A session that reaches the store on ``port`` in both ways; to be called once in a process."""
    os.environ.update(SeaweedFS(Path(), port=port).environment())
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


@contextmanager
def counting(port: int) -> Iterator[Proxy]:
    """A proxy before the store that notes each request."""
    with Proxy(port) as proxy:
        yield proxy


def _program() -> Path:
    """versitygw: the one on the path, or built by Go once."""
    if found := shutil.which("versitygw"):
        return Path(found)
    return kafka_jvm.cached("versitygw", VERSITYGW, _build) / "versitygw"


def _build(directory: Path) -> None:
    go = shutil.which("go") or "/usr/local/go/bin/go"
    subprocess.run([go, "install", VERSITYGW], env=os.environ | {"GOBIN": str(directory)}, check=True)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("versitygw did not start")
        time.sleep(0.1)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{BUCKET}/none", timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
