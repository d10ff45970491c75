"""Starts a server, gateway or Kafka, runs a command against it, and ends with the command's status.

``python -m tests.gateway.suites gateway|kafka [NAME=VALUE ...] -- COMMAND ...``: both servers get the same settings.
The command finds ``host:port`` in the variable BROKERS and for ``{}`` in its arguments, and in KAFKA_PATH a folder with
the scripts of Kafka that suites call.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.kafka import kafka_jvm
from tests.support.kafka.broker import Broker
from tests.torture.gateway.server import Server

# What clients' projects give their brokers, where it is not the default.
SETTINGS = {"auto.create.topics.enable": "true", "num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-acls.sh": "kafka.admin.AclCommand",
}


@contextmanager
def kafka(home: Path, settings: Mapping[str, str]) -> Iterator[str]:
    with Broker(home) as broker:
        broker.start(props={"num.network.threads": "3", "num.io.threads": "8", **settings})
        yield broker.bootstrap


@contextmanager
def gateway(home: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """In a process of its own, as Kafka is."""
    server = Server(home, **settings)
    server.start()
    try:
        yield server.bootstrap
    finally:
        server.kill()


def write_scripts(directory: Path) -> None:
    directory.mkdir(parents=True)
    java = [str(kafka_jvm.java()), *kafka_jvm.QUICK, "-cp", kafka_jvm.classpath()]
    for name, main in SCRIPTS.items():
        script = directory / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join([*java, main])} "$@"\n')
        script.chmod(0o755)


def parsed(arguments: Sequence[str]) -> dict[str, str]:
    return dict(each.split("=", 1) for each in arguments)


def main(arguments: Sequence[str]) -> int:
    end = arguments.index("--")
    server = {"kafka": kafka, "gateway": gateway}[arguments[0]]
    with tempfile.TemporaryDirectory() as home:
        write_scripts(Path(home, "kafka", "bin"))
        with server(Path(home, "server"), {**SETTINGS, **parsed(arguments[1:end])}) as address:
            variables = {**os.environ, "BROKERS": address, "KAFKA_PATH": str(Path(home, "kafka"))}
            command = [each.replace("{}", address) for each in arguments[end + 1 :]]
            return subprocess.run(command, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
