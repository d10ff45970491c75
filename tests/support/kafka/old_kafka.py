"""Kafka of the time of ZooKeeper, for tests: brokers, tools and clients, from Maven's coordinates."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.kafka import kafka_jvm
from tests.support.ports import free_port

CLIENTS = ("0.8.2.2", "0.10.2.2")  # the releases whose clients are tested

# What Kafka of a release comes with: its Scala, and what else it needs: a logger, what Java has not had since 11.
_COORDINATES = {
    "0.8.2.2": ("kafka_2.11", 'org="org.slf4j" name="slf4j-log4j12" rev="1.7.6"'),
    "0.10.2.2": ("kafka_2.11", 'org="javax.xml.bind" name="jaxb-api" rev="2.3.1"'),
    "2.8.2": ("kafka_2.13", 'org="org.slf4j" name="slf4j-log4j12" rev="1.7.30"'),
}
_IVY_MODULE = """\
<ivy-module version="2.0">
  <info organisation="spark-commitlog" module="kafka-{release}-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="{kafka}" rev="{release}" conf="default->default"/>
    <dependency {more} conf="default->default"/>
    <exclude org="com.sun.jmx"/><exclude org="com.sun.jdmk"/><exclude org="javax.jms"/>
  </dependencies>
</ivy-module>
"""
_START_TIMEOUT_S = 120


def jars(release: str = "2.8.2") -> list[Path]:
    """The jars of a release and what they need; fetched on first use. Raises as :func:`kafka_jvm.resolved`."""
    kafka, more = _COORDINATES[release]
    return kafka_jvm.resolved(f"jars-{release}", _IVY_MODULE.format(release=release, kafka=kafka, more=more))


def jvm(release: str) -> list[str]:
    """The start of a command line: the JVM with a release on its class path; the main class comes next."""
    return _command(release, f"-Dlog4j.configuration={(kafka_jvm.JAVA_SOURCES / 'log4j.properties').as_uri()}")


def _command(release: str, *arguments: str) -> list[str]:
    class_path = os.pathsep.join(map(str, jars(release)))
    return kafka_jvm.dying_with_us([str(kafka_jvm.java()), *kafka_jvm.QUICK, "-cp", class_path, *arguments])


def run_tool(main: str, *arguments: str, release: str = "2.8.2") -> str:
    """Runs a tool to its end; returns what it printed. Raises RuntimeError if it fails."""
    done = subprocess.run(_command(release, main, *arguments), capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{main} {arguments}:\n{done.stdout}\n{done.stderr[-4000:]}")
    return done.stdout


class OldBroker:
    """A broker that is registered in a ZooKeeper; a context manager that starts and kills it."""

    def __init__(
        self, home: Path, connect: str, *, broker: int = 0, release: str = "2.8.2", settings: Mapping[str, object] = {}
    ) -> None:
        """``connect``: as ``zookeeper.connect``. ``settings``: more of them, by Kafka's names."""
        self._home, self._release, self.port = home, release, free_port()
        self._settings = {
            "broker.id": broker,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "offsets.topic.replication.factor": 1,
            "log.dirs": home / "log",
            "zookeeper.connect": connect,
            **({"port": self.port, "host.name": "127.0.0.1"} if release == "0.8.2.2" else {}),
            **settings,
        }

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True)
        config, log = self._home / "server.properties", self._home / "server.log"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*jvm(self._release), "-Dcommitlog.level=INFO", "kafka.Kafka", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while "started (kafka.server.KafkaServer)" not in log.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"Kafka {self._release} did not start:\n{log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.05)
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
