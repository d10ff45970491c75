"""Runs the same work on our gateway and on Kafka in turn, and measures time and the server's CPU time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks import gateway_clients
from benchmarks.comparison import Comparison, Ratio
from benchmarks.gateway_servers import UNSYNCED, Gateway, Kafka, Server
from benchmarks.timing import Timing

Work = Callable[[str, str], float]  # bootstrap servers, topic; returns seconds

AGAINST = "Kafka"
GB = 1e9
WARM_UP_CLIENTS, WARM_UP_RECORDS = 3, 150_000  # records of each
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}  # of both: the time of 3 s would hide what a server takes


class Side(NamedTuple):
    """A server, and the settings of the topics that it gets."""

    server: Server
    configs: Mapping[str, str] = {}


class Measured(NamedTuple):
    """The figures of one side over the counted rounds."""

    seconds: Timing
    cpu_s: Timing  # of the server


@contextmanager
def servers(directory: Path) -> Iterator[dict[str, Side]]:
    """Kafka, and ours with topics that are synced before an answer and with topics that are not. Both are warm."""
    with Kafka(directory / "kafka", SETTINGS) as kafka, Gateway(directory / "ours", SETTINGS) as ours:
        for server in (kafka, ours):
            _warm_up(server)
        yield {"kafka": Side(kafka), "synced": Side(ours), "unsynced": Side(ours, UNSYNCED)}


def _warm_up(server: Server) -> None:
    """Let a JVM compile what it runs often: 30,000 small requests to write, then as many bytes to read."""
    server.create("warm-up", WARM_UP_CLIENTS)
    gateway_clients.produce(server.bootstrap, "warm-up", 2**14, WARM_UP_RECORDS, clients=WARM_UP_CLIENTS)
    gateway_clients.consume(server.bootstrap, "warm-up", WARM_UP_RECORDS, clients=WARM_UP_CLIENTS)
    server.delete("warm-up")


def in_turn(
    sides: Mapping[str, Side], work: Work, rounds: int, *, name: str, partitions: int = 1
) -> dict[str, Measured]:
    """Measure ``work`` on each side in turn, each time on a new topic; the first round does not count."""
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, (server, configs) in sides.items():
            topic = f"{name}-{number}-{side}"
            server.create(topic, partitions, configs)
            found[side].append(measured(server, topic, work))
            server.delete(topic)
    return {side: of_rounds(each[1:]) for side, each in found.items()}


def of_topic(sides: Mapping[str, Side], work: Work, rounds: int, topic: str) -> dict[str, Measured]:
    """As :func:`in_turn`, on a topic that is there."""
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for _ in range(rounds + 1):
        for side, (server, _) in sides.items():
            found[side].append(measured(server, topic, work))
    return {side: of_rounds(each[1:]) for side, each in found.items()}


def measured(server: Server, topic: str, work: Work) -> tuple[float, float]:
    """Seconds, and CPU seconds of the server. What others wrote is on disk before."""
    os.sync()
    before_s = server.cpu_s()
    seconds = work(server.bootstrap, topic)
    return seconds, server.cpu_s() - before_s


def of_rounds(rounds: list[tuple[float, float]]) -> Measured:
    return Measured(*(Timing.of(each) for each in zip(*rounds, strict=True)))


def time_row(
    operation: str, ours: Measured, theirs: Measured, asked: float | None = None, aim: float | None = None
) -> Comparison:
    return Comparison(operation, AGAINST, ours.seconds, theirs.seconds, asked, aim)


def cpu_row(
    operation: str, size: float, ours: Measured, theirs: Measured, asked: float | None = None, aim: float | None = None
) -> Comparison:
    """The server's CPU time for each GB, where ``size`` bytes were sent."""
    each = [Timing(*(seconds * GB / size for seconds in side.cpu_s)) for side in (ours, theirs)]
    return Comparison(f"CPU of a GB: {operation}", AGAINST, *each, asked, aim, ratio=Ratio.SLOWER)
