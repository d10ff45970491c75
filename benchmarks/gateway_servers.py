"""The two servers of the gateway's benchmark, each in a process of its own: ours, and a broker of Kafka 3.9.1.

Both have the number of threads that they have by default; the broker runs with the JVM options of its start script.
Each listens on an address without a login, and on others if they are given, by their protocols.
"""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.compaction import WarmBroker

READY_S = 60
ADMIN_S = 60
UNSYNCED = {"flush.messages": str(2**62)}  # of a topic: appends are answered without a sync, as a broker does
# What a broker has by default, where the tests' broker has less.
DEFAULTS = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "log.cleaner.dedupe.buffer.size": str(128 << 20),
    "log.segment.delete.delay.ms": "1000",  # so that deleted topics do not fill the disk
}
PROTOCOLS = ",".join(  # of a broker's listeners, by their names
    ("CONTROLLER:PLAINTEXT", *(f"{each}:{each}" for each in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")))
)
SCRAM_ITERATIONS = 4096


class Server(ABC):
    """A server that runs. A context manager that ends it."""

    bootstrap: str
    """Where clients connect."""

    pid: int

    @abstractmethod
    def stop(self) -> None:
        """End it, and wait for that."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic, and wait for it."""
        new = NewTopic(topic, partitions, 1, config=dict(configs or {}))
        admin = self._admin()
        admin.create_topics([new])[topic].result(ADMIN_S)

    def delete(self, topic: str) -> None:
        admin = self._admin()
        admin.delete_topics([topic])[topic].result(ADMIN_S)

    def cpu_s(self) -> float:
        """The CPU seconds of the process so far, with those of the kernel for it."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 3})


class AtListener(Server):
    """A server as clients of another listener find it; topics are still created without a login."""

    def __init__(self, server: Server, address: str) -> None:
        self.bootstrap, self.pid, self._server = address, server.pid, server

    def stop(self) -> None:
        """The server ends, not its listener."""

    def _admin(self) -> AdminClient:
        return self._server._admin()


class Gateway(Server):
    """``commitlog gateway`` on an empty directory."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, listeners: Mapping[str, str] | None = None
    ) -> None:
        options = [f"--config={name}={value}" for name, value in (settings or {}).items()]
        command = [sys.executable, "-c", "from pyspark_commitlog.cli import main; main()", "gateway"]
        command += ["--log-dir", str(directory), "--listen", _listed("PLAINTEXT://127.0.0.1:0", listeners), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the gateway did not start: it printed {line!r}")
        self.bootstrap, self.pid = line.split()[2].rstrip(","), self._process.pid

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(READY_S)


def _listed(first: str, listeners: Mapping[str, str] | None) -> str:
    return ",".join([first, *(f"{protocol}://{address}" for protocol, address in (listeners or {}).items())])


class _Broker(WarmBroker):
    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid


class Kafka(Server):
    """A broker with an empty directory."""

    def __init__(
        self, home: Path, settings: Mapping[str, str] | None = None, listeners: Mapping[str, str] | None = None
    ) -> None:
        self._broker = _Broker(home)
        own = {"listeners": _listed(self._broker.own_listeners, listeners), "listener.security.protocol.map": PROTOCOLS}
        self._broker.start(props={**DEFAULTS, **own, **(settings or {})})
        self.bootstrap, self.pid = self._broker.bootstrap, self._broker.pid

    def add_user(self, name: str, password: str) -> None:
        """Let a user log in by SCRAM-SHA-512, with as many iterations as ours has by default."""
        hashed = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, SCRAM_ITERATIONS)
        user = UserScramCredentialUpsertion(name, hashed, password.encode())
        admin = self._admin()
        admin.alter_user_scram_credentials([user])[name].result(ADMIN_S)

    def stop(self) -> None:
        self._broker.kill()
