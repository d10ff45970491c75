"""Compare ``commitlog dump-log`` with ``kafka-dump-log``: the whole command, from its start to its last line.

The commands dump the batches of 1 GB of log, and the records of 120 MB: uncompressed, with 16-byte keys and 100-byte
values in batches of 16 KiB. Kafka's tool has the JVM options of its start script. Both write to a file; the texts are
compared once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import logs
from benchmarks.comparison import Comparison, Setting
from benchmarks.timing import alternate
from tests.support.kafka import kafka_jvm

# kafka-run-class.sh's own.
JVM = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
LOG4J = f"-Dlog4j.configuration={(kafka_jvm.JAVA_SOURCES / 'log4j.properties').as_uri()}"


# Modules are compiled, as those of an installed package are, by the first round, which does not count.
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}


class What(NamedTuple):
    name: str
    flags: tuple[str, ...]
    records: int
    asked: float
    aim: float


DUMPED = (
    What("batches of 1 GB", (), 8_000_000, 1.5, 2),
    What("records, 120 MB", ("--deep-iteration",), 1_000_000, 1.2, 1.5),
)


def measure(setting: Setting) -> Iterator[Comparison]:
    for what in DUMPED:
        directory = setting.directory / str(what.records)
        logs.write(directory, np.arange(setting.sized(what.records)))
        files = ",".join(str(file) for file in sorted(directory.glob("*.log")))
        arguments = ["--files", files, *what.flags]
        outputs = {name: setting.directory / f"{name}.txt" for name in ("ours", "theirs")}
        commands = {"ours": ours(arguments), "theirs": kafkas(arguments)}
        peers = {name: partial(run, command, outputs[name]) for name, command in commands.items()}
        found = alternate(peers, setting.rounds)
        _check_same(outputs["ours"], outputs["theirs"])
        read = logs.log_bytes(directory)
        work = {"crc32c": read, "memcpy": read + outputs["ours"].stat().st_size}
        yield Comparison(f"dump of {what.name}", "kafka-dump-log", **found, asked=what.asked, aim=what.aim, work=work)


def ours(arguments: Sequence[str]) -> list[str]:
    return [str(Path(sys.executable).with_name("commitlog")), "dump-log", *arguments]


def kafkas(arguments: Sequence[str]) -> list[str]:
    jars = os.pathsep.join(map(str, kafka_jvm.jars()))
    return [str(kafka_jvm.java()), *JVM, LOG4J, "-cp", jars, "kafka.tools.DumpLogSegments", *arguments]


def run(command: Sequence[str], output: Path) -> None:
    with output.open("wb") as file:
        subprocess.run(command, stdout=file, check=True, env=ENVIRONMENT)


def _check_same(ours: Path, theirs: Path) -> None:
    """Raise ValueError if the texts differ."""
    if ours.read_bytes() != theirs.read_bytes():
        raise ValueError(f"{ours} and {theirs} differ")
