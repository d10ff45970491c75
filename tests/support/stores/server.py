"""Servers of object stores that tests start on this machine."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

import pytest

from pyspark_commitlog.storage.bucket.stores import remote
from tests.support.kafka.kafka_jvm import dying_with_us
from tests.support.ports import free_port

KEY, SECRET = "commitlogTests", "notASecretOfAnyone"
START_TIMEOUT_S = 120


class StoreServer:
    """A server of this machine with one bucket, ``logs``. A context manager that ends it.

    ``signed``: whether requests must be signed. If not, proxies in front of it may change them. ``port``: a free one by
    default.
    """

    def __init__(self, home: Path, *, signed: bool = True, port: int | None = None) -> None:
        self.home, self.signed = home, signed
        self.port = port or free_port()
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
        others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}  # keys of clients
        command, environment = dying_with_us(self._command()), {**others, **self._settings()}
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.home, env=environment, stdout=log, stderr=log)
        until = time.monotonic() + START_TIMEOUT_S
        while not self._has_bucket():
            if self._process.poll() is not None or time.monotonic() > until:
                tail = "\n".join((self.home / "server.log").read_text().splitlines()[-30:])
                self.kill()
                raise RuntimeError(f"{type(self).__name__} did not start:\n{tail}")
            time.sleep(0.3)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _settings(self) -> dict[str, str]:
        """What the server reads from its environment."""
        return {}

    def _has_bucket(self) -> bool:
        """Whether the server is up, and has the bucket."""
        raise NotImplementedError


def answers(url: str, method: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
