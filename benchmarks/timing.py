"""Timing of peers in alternating rounds: medians, fastest and slowest rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

Seconds = dict[str, list[float]]  # of each peer, by round


class Timing(NamedTuple):
    """Seconds of one peer over the counted rounds; or bytes, if the comparison has that unit."""

    median: float
    fastest: float
    slowest: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Timing:
        each = [*seconds]
        return cls(statistics.median(each), min(each), max(each))


def alternate(peers: Mapping[str, Callable[[], object]], rounds: int = 5, warm_up: int = 1) -> dict[str, Timing]:
    """Time the peers in turn, round after round (A B A B), so that a slow machine slows all of them.

    The first ``warm_up`` rounds (for caches and compilation) do not count.
    """
    return alternate_told({name: partial(time_call, run) for name, run in peers.items()}, rounds, warm_up)


def alternate_told(peers: Mapping[str, Callable[[], float]], rounds: int = 5, warm_up: int = 1) -> dict[str, Timing]:
    """Like :func:`alternate`, for peers that return their seconds, without what they prepare and check."""
    return {name: Timing.of(each) for name, each in seconds_in_turn(peers, rounds, warm_up).items()}


def seconds_in_turn(peers: Mapping[str, Callable[[], float]], rounds: int, warm_up: int = 1) -> Seconds:
    """Like :func:`alternate_told`, but returns the seconds of each counted round."""
    seconds: Seconds = {name: [] for name in peers}
    for _ in range(warm_up + rounds):
        for name, run in peers.items():
            seconds[name].append(run())
    return {name: each[warm_up:] for name, each in seconds.items()}


def run_often(runs: Iterable[Callable[[], object]], times: int) -> None:
    """Run small queries in turn, before the timed ones.

    The JVM keeps compiling the code that plans queries for hundreds of queries, and occupies a core for up to half a
    second each time.
    """
    for run in [*runs] * times:
        run()


def time_second_call(run: Callable[[], object]) -> float:
    """Seconds of a call that follows another of the same kind, so that it only inherits that kind's garbage."""
    run()
    return time_call(run)


def time_call(run: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
