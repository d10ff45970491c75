"""Batches of magic 2 again, with some of their records: many at a time, each with a base offset of its own."""

from __future__ import annotations

import numpy as np

from pyspark_commitlog.storage.kernels import Bytes, frozen, jit
from pyspark_commitlog.storage.kernels.writing import (
    BATCH_FIELDS,
    END,
    START,
    Bools,
    Int32s,
    Int64s,
    Source,
    _write_batches,
)

# Columns of the table of batches to write.
FIRST_ROW = 0  # place in ``rows`` of the batch's first record
STOP_ROW = 1  # behind its last one, which is above FIRST_ROW
BASE_OFFSET = 2
BASE_TIMESTAMP = 3  # or writing.OF_FIRST
PLAN_FIELDS = 4

_NO_LIMIT = 2**62


def rebuild_batches(source: Source, rows: Int64s, plan: Int64s, header_bytes: int, target: Bytes) -> Int64s:
    """Write the rows of each batch of ``plan``, shape (n, PLAN_FIELDS), behind room for a header.

    ``target`` has room for everything. Returns the batches written, shape (n, writing.BATCH_FIELDS).
    """
    batches = np.zeros((len(plan), BATCH_FIELDS), dtype=np.int64)
    _rebuild_batches(*source, frozen(rows), plan, header_bytes, target, batches)
    return batches


# The arrays are arguments of their own for the reason that records.py gives.
@jit
def _rebuild_batches(
    offsets: Int64s,
    timestamps: Int64s,
    key_data: Bytes,
    key_offsets: Int32s,
    key_valid: Bools,
    value_data: Bytes,
    value_offsets: Int32s,
    value_valid: Bools,
    header_offsets: Int32s,
    header_key_data: Bytes,
    header_key_offsets: Int32s,
    header_value_data: Bytes,
    header_value_offsets: Int32s,
    header_value_valid: Bools,
    rows: Int64s,
    plan: Int64s,
    header_bytes: int,
    target: Bytes,
    batches: Int64s,
) -> None:
    at = np.int64(0)
    for b in range(len(plan)):
        _write_batches(
            offsets,
            timestamps,
            key_data,
            key_offsets,
            key_valid,
            value_data,
            value_offsets,
            value_valid,
            header_offsets,
            header_key_data,
            header_key_offsets,
            header_value_data,
            header_value_offsets,
            header_value_valid,
            rows[plan[b, FIRST_ROW] : plan[b, STOP_ROW]],
            plan[b, BASE_OFFSET],
            plan[b, BASE_TIMESTAMP],
            header_bytes,
            _NO_LIMIT,
            target[at:],
            batches[b : b + 1],
        )
        batches[b, START] += at
        batches[b, END] += at
        at = batches[b, END]
