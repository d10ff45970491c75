"""Rows to partitions, and to encoded record batches for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_commitlog.storage import BinaryColumn, InvalidConfigError, partitions_of

Partitions = npt.NDArray[np.int32]
NO_KEY = -1  # what partitions_of answers for a null key


class Share(NamedTuple):
    """The rows of a table that go to one partition, in their order."""

    partition: int
    rows: npt.NDArray[np.int64]


def choose(keys: BinaryColumn, asked: pa.Array | None, count: int, *, sticky: int) -> Partitions:
    """The partition of each row: the one ``asked`` for, else murmur2 of its key, else ``sticky``.

    A row without either goes where all such rows of its table go, as Kafka's producer does for a batch: fewer and
    larger batches. Raises InvalidConfigError for a partition the topic does not have.
    """
    chosen = partitions_of(keys, count)
    chosen = np.where(chosen == NO_KEY, np.int32(sticky % count), chosen)
    if asked is None or asked.null_count == len(asked):
        return chosen
    given = asked.fill_null(NO_KEY).to_numpy()
    named = asked.is_valid().to_numpy(zero_copy_only=False)
    wrong = named & ((given < 0) | (given >= count))
    if wrong.any():
        raise InvalidConfigError(
            f"column partition holds {given[wrong][0]}, and the topic has the partitions 0 to {count - 1}"
        )
    return np.where(named, given, chosen).astype(np.int32)


def shares(chosen: Partitions, count: int) -> Iterator[Share]:
    """The rows of each partition that has any."""
    narrow = np.uint16 if count <= 1 << 16 else np.int32  # NumPy sorts 16 bits by radix, four times as fast
    order = np.argsort(chosen.astype(narrow), kind="stable")
    ends = np.cumsum(np.bincount(chosen, minlength=count))
    for partition, (start, end) in enumerate(zip(np.concatenate(([0], ends)), ends, strict=False)):
        if end > start:
            yield Share(partition, order[start:end])
