"""Assigns rows to partitions, as Kafka's producer does."""

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

    A row with a value in the column ``partition`` goes to that partition; other rows are assigned by the
    ``Partitioner``. ``first`` is the partition at which round robin begins: a different one for each task, so that rows
    are spread evenly.
    """

    def __init__(self, partitioner: Partitioner, count: int, *, first: int) -> None:
        self._partitioner = partitioner
        self._count = count
        self._turn = first

    def choose(self, keys: BinaryColumn, asked: pa.Array | None) -> Partitions:
        """Returns the partition of each row, shape (rows,).

        ``asked`` is the column ``partition``, or None. A partition may be outside the topic's range: :meth:`refused`
        returns these rows.
        """
        rows = len(keys)
        if asked is not None and asked.null_count == 0:
            named: Partitions = asked.to_numpy()
            return named
        chosen = self._chosen(keys, rows)
        if asked is None or asked.null_count == rows:
            return chosen
        return np.where(asked.is_valid().to_numpy(zero_copy_only=False), asked.fill_null(UNKNOWN).to_numpy(), chosen)

    def refused(self, chosen: Partitions) -> list[Refused]:
        """Returns the rows whose partition the topic does not have, each with the reason for the error message."""
        if not len(chosen) or 0 <= chosen.min() <= chosen.max() < self._count:  # the usual case
            return []
        wrong = np.flatnonzero((chosen < 0) | (chosen >= self._count)).tolist()
        return [Refused(row, self._reason(int(chosen[row]))) for row in wrong]

    def move_on(self) -> None:
        """Sends further rows without a key to the next partition: one partition per batch, as Kafka's producer does."""
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
            return "column partition is null, but partitioner.class = column requires a value"
        return f"column partition is {partition}, but the topic has partitions 0 to {self._count - 1}"
