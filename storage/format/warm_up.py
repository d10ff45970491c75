"""Loads the kernels in advance: for a process that others are forked from, or one that must answer at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import format as formats
from ..kernels import canonical, murmur2, scan
from ..kernels.arrays import frozen
from ..kernels.loading import Start, compile_beside
from . import v2
from .tables import Records


def load_kernels() -> None:
    """Load the kernels that reading and writing use, by running each once on one record; a kernel takes 5 to 10 ms.

    A kernel that is not compiled yet is compiled here, which takes seconds.
    """
    records = Records.to_append([b"key"], [b"value"], 0, [(b"name", b"value")])
    assert records.keys is not None  # given above
    murmur2.partitions_of(records.keys, 1)
    buffer = v2.encode_batches(records, v2.BatchFields(), batch_bytes_max=1 << 10).buffer
    found = formats.scan(buffer).headers
    formats.decode(buffer, found)
    numbers, results = frozen(found.table["position"]), np.zeros(len(found), np.int64)
    scan.spaced(found.table["position"].astype(np.int64), 0, 1, results)
    scan.running_largest(numbers, numbers, 0, 0, results, results.copy())
    canonical.survey(frozen(buffer), v2.LAYOUT.itemsize, len(buffer), 0, 1, 0)


def load_kernels_beside(compile_all: Callable[[], None], start: Start | None = None) -> None:
    """Runs kernels as plain Python until ``compile_all`` has filled numba's cache, then loads them; all in a thread.

    ``compile_all`` calls :func:`load_kernels` in another process. Only the first call in a process does anything.
    ``start`` starts the thread, as for :func:`compile_beside`.
    """
    compile_beside(compile_all, load_kernels, start)
