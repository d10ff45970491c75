"""The largest timestamp so far, batch by batch: the compiled walk compared with one that looks back each time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.kernels import scan
from pyspark_commitlog.storage.kernels.arrays import frozen


def running_largest(batches: list[tuple[int, int]], before: tuple[int, int]) -> list[tuple[int, int]]:
    seen = [before, *batches]
    return [max(seen[: end + 1], key=lambda each: each[0]) for end in range(1, len(seen))]  # of equal ones the first


@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 2**62))), st.integers(-1, 5))
def test_each_batch_gets_the_first_with_the_largest_timestamp_so_far(
    batches: list[tuple[int, int]], largest: int
) -> None:
    timestamps, offsets = np.array(batches, dtype=np.int64).reshape(-1, 2).T
    running, reached = np.empty(len(batches), dtype=np.int64), np.empty(len(batches), dtype=np.int64)
    scan.running_largest(frozen(timestamps), frozen(offsets), largest, 7, running, reached)
    assert [*zip(running.tolist(), reached.tolist(), strict=True)] == running_largest(batches, (largest, 7))
