"""Assigns rows to partitions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...storage import BinaryColumn, Refused, partitions_of
from .targets import Partitioner

Partitions = npt.NDArray[np.int32]
UNKNOWN = -1  # returned by partitions_of for a null key; also stands for a row that names no partition


class Chooser:
    """Chooses the partitions of one topic for rows that arrive in batches.

    A row's column ``partition`` has precedence over any partitioner; other rows are assigned by the ``Partitioner``.
    Tasks begin at different partitions, so that round robin spreads rows evenly.
    """

    def __init__(self, partitioner: Partitioner, count: int, *, first: int) -> None:
        self._partitioner = partitioner
        self._count = count
        self._turn = first

    def choose(self, keys: BinaryColumn, asked: pa.Array | None) -> Partitions:
        """Returns the partition of each row; a row to be :meth:`refused` has one outside the topic's range."""
        rows = len(keys)
        if asked is not None and asked.null_count == 0:
            named: Partitions = asked.to_numpy()
            return named
        chosen = self._chosen(keys, rows)
        if asked is None or asked.null_count == rows:
            return chosen
        return np.where(asked.is_valid().to_numpy(zero_copy_only=False), asked.fill_null(UNKNOWN).to_numpy(), chosen)

    def refused(self, chosen: Partitions) -> list[Refused]:
        """Returns the rows whose partition the topic does not have."""
        if not len(chosen) or 0 <= chosen.min() <= chosen.max() < self._count:  # the usual case
            return []
        wrong = np.flatnonzero((chosen < 0) | (chosen >= self._count)).tolist()
        return [Refused(row, self._reason(int(chosen[row]))) for row in wrong]

    def move_on(self) -> None:
        """Moves to the next partition for rows without a key, which share one per batch, as in Kafka's producer."""
        if self._partitioner is Partitioner.DEFAULT:
            self._turn += 1

    def _chosen(self, keys: BinaryColumn, rows: int) -> Partitions:
        if self._partitioner is Partitioner.COLUMN:
            return np.full(rows, UNKNOWN, dtype=np.int32)
        if self._partitioner is Partitioner.ROUND_ROBIN:
            turns = (self._turn + np.arange(rows)) % self._count
            self._turn = (self._turn + rows) % self._count
            return turns.astype(np.int32)
        chosen = partitions_of(keys, self._count)
        if keys.valid is not None:
            chosen[chosen == UNKNOWN] = self._turn % self._count
        return chosen

    def _reason(self, partition: int) -> str:
        if partition == UNKNOWN and self._partitioner is Partitioner.COLUMN:
            return "column partition is null, but partitioner.class = column needs it"
        return f"column partition is {partition}, but the topic has partitions 0 to {self._count - 1}"
