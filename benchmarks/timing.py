"""Peers side by side: alternating rounds, medians, and how far the rounds lie apart."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

Seconds = dict[str, list[float]]  # of each peer, round by round


class Timing(NamedTuple):
    """Seconds of one peer, over the rounds that count; or bytes, where a comparison says so."""

    median: float
    fastest: float
    slowest: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Timing:
        each = [*seconds]
        return cls(statistics.median(each), min(each), max(each))


def alternate(peers: Mapping[str, Callable[[], object]], rounds: int = 5, warm_up: int = 1) -> dict[str, Timing]:
    """Time the peers in turn, round after round (A B A B), so that what slows the machine slows all of them.

    ``warm_up`` rounds before the first (caches, compilation) do not count.
    """
    return alternate_told({name: partial(time_call, run) for name, run in peers.items()}, rounds, warm_up)


def alternate_told(peers: Mapping[str, Callable[[], float]], rounds: int = 5, warm_up: int = 1) -> dict[str, Timing]:
    """As :func:`alternate`, of peers that tell their seconds themselves: what they prepare and check does not count."""
    return {name: Timing.of(each) for name, each in seconds_in_turn(peers, rounds, warm_up).items()}


def seconds_in_turn(peers: Mapping[str, Callable[[], float]], rounds: int, warm_up: int = 1) -> Seconds:
    """As :func:`alternate_told`: the rounds that count, each by itself."""
    seconds: Seconds = {name: [] for name in peers}
    for _ in range(warm_up + rounds):
        for name, run in peers.items():
            seconds[name].append(run())
    return {name: each[warm_up:] for name, each in seconds.items()}


def run_often(runs: Iterable[Callable[[], object]], times: int) -> None:
    """Small queries, in turn, before those that are timed: the JVM compiles what plans a query for hundreds of queries,
    and takes a core for up to half a second each time.
    """
    for run in [*runs] * times:
        run()


def time_second_call(run: Callable[[], object]) -> float:
    """Seconds of a call behind another: what it finds, garbage above all, is what its own kind has left."""
    run()
    return time_call(run)


def time_call(run: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
