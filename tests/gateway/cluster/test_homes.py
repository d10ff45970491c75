"""Homes: the partition of an internal topic that a name belongs to."""

from __future__ import annotations

import tracemalloc

from pyspark_commitlog.gateway.cluster.homes import Homes
from pyspark_commitlog.storage import positive_hash


def test_long_names_of_clients_are_not_kept() -> None:
    homes = Homes(lambda: 50)
    tracemalloc.start()
    try:
        for number in range(300):
            name = f"{number:04}" + "x" * 32_000
            assert homes.home_of(name) == positive_hash(name) % 50
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20
