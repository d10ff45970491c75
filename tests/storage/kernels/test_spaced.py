"""Which batches get an index entry: the compiled choice compared with one that searches for each."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.kernels import scan


def spaced(starts: list[int], after: int, interval: int) -> list[int]:
    rows = []
    row = bisect_right(starts, after)
    while row < len(starts):
        rows.append(row)
        row = bisect_right(starts, starts[row] + interval, row)
    return rows


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(-60, 60), st.integers(0, 100))
def test_each_is_more_than_the_interval_above_the_one_before(sizes: list[int], after: int, interval: int) -> None:
    starts = np.cumsum([0, *sizes])
    rows = np.empty(len(starts), dtype=np.int64)
    found = scan.spaced(starts, after, interval, rows)
    assert rows[:found].tolist() == spaced(starts.tolist(), after, interval)
