"""A real ZooKeeper server for tests: 3.8.4, which comes with Kafka 3.9.1's jars."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.support.kafka import kafka_jvm
from tests.support.ports import free_port

_START_TIMEOUT_S = 60
_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"


class ZooKeeper:
    """A server on a port of its own; also a context manager that starts and kills it."""

    def __init__(self, home: Path, *, tick_ms: int = 100) -> None:
        """``tick_ms``: sessions may last 2 to 20 ticks, unless a client asks for less or more."""
        self._home, self._tick_ms = home, tick_ms
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def connect(self) -> str:
        """The address, as ``zookeeper.connect`` has it."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Starts the server, also again with what it had; returns once it answers."""
        self._home.mkdir(parents=True, exist_ok=True)
        config = self._home / "zoo.cfg"
        settings = {
            "tickTime": self._tick_ms,
            "maxSessionTimeout": 60_000,
            "dataDir": self._home / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "conf",
            "maxClientCnxns": 0,
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        # Without the collector's and the beans' start it answers in a second.
        options = ["-Dzookeeper.jmx.log4j.disable=true", "-Dcommitlog.level=WARN", "-Dzookeeper.forceSync=no"]
        log = (self._home / "server.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [*kafka_jvm.broker_jvm(*options), _MAIN, str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._await_answer(self._process)
        return self

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"ZooKeeper did not start:\n{(self._home / 'server.log').read_text()[-4000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(b"conf")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
                return str(self._home).encode() in answer  # another server may have taken the port
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL, and wait."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Stops the process (SIGSTOP) until :meth:`go_on`."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets the process continue."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.kill()
