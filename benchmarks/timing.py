"""Peers side by side: alternating rounds, medians, and how far the rounds lie apart."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Timing(NamedTuple):
    """Seconds of one peer."""

    median: float
    fastest: float
    slowest: float


def alternate(peers: dict[str, Callable[[], object]], rounds: int = 7) -> dict[str, Timing]:
    """Time the peers in turn, round after round, so that what slows the machine slows all of them.

    One round before the first warms up (caches, compilation) and does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    for counted in [False, *[True] * rounds]:
        for name, run in peers.items():
            start = time.perf_counter()
            run()
            if counted:
                seconds[name].append(time.perf_counter() - start)
    return {name: Timing(statistics.median(all_), min(all_), max(all_)) for name, all_ in seconds.items()}
