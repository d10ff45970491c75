"""How the costs of a log directory grow with its topics: 100, 1,000 and 10,000 of one partition with ten records.

Commands and gateways run in processes of their own, whose start of half a second to a second counts. What repeats for
each topic is an average of several topics. One round: what counts is how the figures grow.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from confluent_kafka.admin import AdminClient

from benchmarks.comparison import Series, Setting, series_of
from benchmarks.gateway_servers import Gateway
from benchmarks.memory import own_bytes
from benchmarks.rows import records
from benchmarks.scale_logs import make_topics
from benchmarks.timing import Timing, time_call
from pyspark_commitlog.storage import LogManager

TOPICS = (100, 1_000, 10_000)
COMMANDS = {
    "commitlog topics --list": ("topics", "--list"),
    "commitlog offsets": ("offsets",),
    "commitlog retain, nothing to delete": ("retain",),
    "commitlog verify": ("verify",),
}
SAMPLED = 20  # partitions that are opened one after the other
CREATED = 3  # topics
TIMEOUT_S = 300

Figures = dict[float, dict[str, Timing]]


def measure(setting: Setting) -> Iterator[Series]:
    seconds: Figures = {}
    memory: Figures = {}
    for topics in sorted({max(SAMPLED, setting.sized(size)) for size in TOPICS}):
        directory = make_topics(setting.directory / str(topics), topics)
        found = {line: partial(run_command, directory, *command) for line, command in COMMANDS.items()}
        once = {line: time_call(run) for line, run in found.items()}
        with_gateway, own = of_gateway(directory, topics)
        figures = once | in_process(directory) | with_gateway
        seconds[topics] = {line: Timing.of([figure]) for line, figure in figures.items()}
        memory[topics] = {"gateway, after Metadata of all": Timing.of([own])}
    yield from series_of("a directory of many topics", "topics", seconds)
    yield from series_of("memory beside many topics", "topics", memory, unit="bytes")


def run_command(directory: Path, *command: str) -> None:
    program = [sys.executable, "-c", "from pyspark_commitlog.cli import main; main()", *command]
    done = subprocess.run(
        [*program, "--log-dir", str(directory)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr[-2000:]}")


def in_process(directory: Path) -> dict[str, float]:
    """Seconds per partition or topic, in a process that has opened the directory."""
    with LogManager.open(str(directory)) as manager:
        manager.open_log("topic-0", 0)
        opened = _per(SAMPLED, partial(_append, manager))
        closing = time_call(partial(manager.close_logs, [f"topic-{number}" for number in range(SAMPLED)])) / SAMPLED
        created = _per(CREATED, lambda number: manager.create_topic(f"new-{number}", partitions=1))
    return {"open a partition and append": opened, "close it": closing, "create a topic": created}


def _append(manager: LogManager, number: int) -> None:
    manager.open_log(f"topic-{number}", 0).append_records(records(np.arange(1)), sync=False)


def _per(count: int, run: Callable[[int], object]) -> float:
    return time_call(lambda: [run(number) for number in range(count)]) / count


def of_gateway(directory: Path, topics: int) -> tuple[dict[str, float], float]:
    """Seconds of a gateway, and the bytes of memory that it then has."""
    began = time.perf_counter()
    with Gateway(directory) as gateway:
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "log_level": 3})
        _list(admin, topics)
        started = time.perf_counter() - began
        again = time_call(partial(_list, admin, topics))
        own = own_bytes(gateway.pid)
    return {"gateway, from its start to the first Metadata of all": started, "Metadata of all, again": again}, own


def _list(admin: AdminClient, at_least: int) -> None:
    found = len(admin.list_topics(timeout=TIMEOUT_S).topics)
    if found < at_least:
        raise ValueError(f"{found} topics, where {at_least} were expected")
