"""The interface for a user's own partitioners, and ready-made ones."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # a mirror has the settings of a producer, and no pyarrow
    import pyarrow as pa

RECORD_BYTES = 7  # the least that a record of magic 2 has besides key, value and headers


@dataclass(frozen=True)
class Destination:
    """The destination of rows. There is one for each Spark task and topic."""

    topic: str
    partitions: int  # the topic has the partitions 0 to partitions - 1
    task: int  # the number of the Spark task, from 0
    random: np.random.Generator = field(compare=False)  # a second attempt to write the same rows draws the same numbers


class Partitioner(Protocol):
    """Chooses partitions for rows. Any object with this method is a partitioner.

    The producer setting ``partitioner.class=package.module:Class`` names the class, and ``partitioner.option.NAME`` a
    keyword argument, in lower case. A Spark task creates one object for each topic that it writes to.
    """

    def place(
        self, rows: pa.RecordBatch, destination: Destination
    ) -> Sequence[int] | npt.NDArray[np.integer] | pa.Array:
        """Returns the number of a partition for each row, as a sequence or array of whole numbers.

        ``rows`` has at least one row, and the columns ``key`` and ``value`` (binary; null where a row has none). If the
        DataFrame has them, it also has ``timestamp`` and ``headers``. Rows that name their partition are left out. Rows
        arrive in the order in which they are written, but how many at once differs from run to run.
        """
        ...


class RowPartitioner(ABC):
    """Adapts a function of a single key. Rows without a key are placed at random, and are not passed to it."""

    @abstractmethod
    def partition(self, key: bytes, partitions: int) -> int:
        """Returns the partition for a key, from 0 to ``partitions - 1``."""

    def place(self, rows: pa.RecordBatch, destination: Destination) -> Sequence[int]:
        keys, count = rows.column("key"), destination.partitions
        drawn = iter(destination.random.integers(count, size=keys.null_count).tolist())
        return [next(drawn) if key is None else self.partition(key, count) for key in keys.to_pylist()]


class LeastBytesPartitioner:
    """Places each row, whatever its key, in the partition where this task has placed the fewest bytes so far.

    The bytes of a row are those of its key, value and headers, and 7 for the rest of the record. A task begins with
    nothing placed, and in a random order of partitions.
    """

    def __init__(self) -> None:
        self._placed: list[tuple[int, int, int]] = []  # a heap: bytes, place in the random order, partition

    def place(self, rows: pa.RecordBatch, destination: Destination) -> Sequence[int]:
        if not self._placed:
            order = destination.random.permutation(destination.partitions).tolist()
            self._placed = list(zip(repeat(0), range(destination.partitions), order))
        return [self._next(size) for size in _sizes(rows).tolist()]

    def _next(self, size: int) -> int:
        placed, place, partition = self._placed[0]
        heapq.heapreplace(self._placed, (placed + size, place, partition))
        return partition


def _sizes(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Returns the bytes of each row, shape (rows,)."""
    import pyarrow.compute as pc  # noqa: PLC0415  as above

    sizes = _lengths(rows.column("key")) + _lengths(rows.column("value")) + RECORD_BYTES
    if "headers" not in rows.schema.names:
        return sizes
    headers = rows.column("headers")
    pairs = headers.flatten()
    bytes_before = _sums(_lengths(pairs.field("key")) + _lengths(pairs.field("value")))
    pairs_before = _sums(pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False))
    return sizes + np.diff(bytes_before[pairs_before])


def _sums(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the sum of the numbers before each one, and of all; shape (numbers + 1,)."""
    return np.concatenate([[0], np.cumsum(numbers, dtype=np.int64)])


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    import pyarrow.compute as pc  # noqa: PLC0415  as above

    lengths: npt.NDArray[np.int32] = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)
