from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_commitlog.pipeline.write.partitioners.own import Destination, LeastBytesPartitioner


def destination(partitions: int = 3, seed: int = 1) -> Destination:
    return Destination("t", partitions, 0, np.random.default_rng(seed))


def rows(*sizes: int, headers: list[list[dict[str, object]] | None] | None = None) -> pa.RecordBatch:
    """Rows of these sizes in bytes, of which a key has one."""
    columns = {
        "key": pa.array([b"k" if size else None for size in sizes], pa.binary()),
        "value": pa.array([bytes(size - 1) if size else None for size in sizes], pa.binary()),
    }
    if headers is not None:
        pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
        columns["headers"] = pa.array(headers, pa.list_(pair))
    return pa.RecordBatch.from_pydict(columns)


def test_row_goes_where_the_fewest_bytes_are() -> None:
    sizes = np.random.default_rng(7).integers(1, 5000, size=1000).tolist()
    mine, there, placed = LeastBytesPartitioner(), destination(), np.zeros(3, np.int64)
    for first in range(0, 1000, 100):
        part = sizes[first : first + 100]
        for size, partition in zip(part, mine.place(rows(*part), there), strict=True):
            assert placed[partition] == placed.min()
            placed[partition] += size + 7
    assert placed.max() - placed.min() <= 5007


def test_rows_without_bytes_are_spread_too() -> None:
    assert sorted(LeastBytesPartitioner().place(rows(0, 0, 0, 0, 0, 0), destination())) == [0, 0, 1, 1, 2, 2]


def test_headers_count() -> None:
    header: list[dict[str, object]] = [{"key": "k" * 500, "value": bytes(500)}, {"key": "k", "value": None}]
    given = rows(1, *[100] * 9, headers=[header, None, [], *[None] * 7])
    first, *others = LeastBytesPartitioner().place(given, destination())
    assert first not in others


def test_first_partition_differs_from_write_to_write() -> None:
    """Otherwise a query with a row in each micro-batch would write to one partition."""
    firsts = {LeastBytesPartitioner().place(rows(9), destination(seed=seed))[0] for seed in range(50)}
    assert firsts == {0, 1, 2}
