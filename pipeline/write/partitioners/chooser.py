"""Assigns rows to partitions, as Kafka's producer or a user's class does."""

from __future__ import annotations

import traceback
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....arrow.batches import as_binary
from ....storage import BinaryColumn, InvalidConfigError, Refused, partitions_of
from .own import Destination, Partitioner
from .setting import KafkasPartitioner, OwnPartitioner

Partitions = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]  # indexes of rows
UNKNOWN = -1  # returned by partitions_of for a null key; also stands for a row that names no partition


class PartitionerError(InvalidConfigError):
    """A user's partitioner cannot be created in a task, fails, or does not return partitions."""


class Source(NamedTuple):
    """The rows of an Arrow batch for which partitions are chosen."""

    keys: BinaryColumn  # of the whole batch
    batch: pa.RecordBatch | None  # the columns of ``WriteColumns``; None: not for a user's partitioner
    mine: Rows | None  # the rows of the topic; None: all

    @property
    def asked(self) -> pa.Array | None:
        """The column ``partition``."""
        if self.batch is None or "partition" not in self.batch.schema.names:
            return None
        return self.batch.column("partition")


class Chooser:
    """Chooses the partitions of one topic for rows that arrive in batches.

    A row with a value in the column ``partition`` goes to that partition; other rows are assigned by the partitioner.
    Round robin begins at the partition with the number of the task, so that rows are spread evenly. ``write`` names the
    write: together with topic and task, it seeds random choices, so that a second attempt to write the same rows places
    them like the first one.
    """

    def __init__(
        self, partitioner: KafkasPartitioner | OwnPartitioner, topic: str, count: int, *, task: int = 0, write: str = ""
    ) -> None:
        """Raises PartitionerError if a user's class cannot be created here."""
        self._partitioner = partitioner
        self._count = count
        self._turn = task
        random = np.random.default_rng([crc32(write.encode()), crc32(topic.encode()), task])
        self._destination = Destination(topic, count, task, random)
        self._own = _created(partitioner) if isinstance(partitioner, OwnPartitioner) else None

    def choose(self, source: Source) -> Partitions:
        """Returns the partition of each row of the batch, shape (rows,); any number for rows of other topics.

        A partition that a row names may be outside the topic's range: :meth:`refused` returns these rows. Raises
        PartitionerError if a user's partitioner fails, or does not return a partition for each row.
        """
        asked, rows = source.asked, len(source.keys)
        if asked is not None and asked.null_count == 0:
            named: Partitions = asked.to_numpy()
            return named
        chosen = self._chosen(source.keys, rows) if self._own is None else self._placed(source)
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
        if self._partitioner is KafkasPartitioner.DEFAULT:
            self._turn += 1

    def _chosen(self, keys: BinaryColumn, rows: int) -> Partitions:
        """Chooses by one of Kafka's rules."""
        match self._partitioner:
            case KafkasPartitioner.COLUMN:
                return np.full(rows, UNKNOWN, dtype=np.int32)
            case KafkasPartitioner.RANDOM:
                return self._at_random(rows)
            case KafkasPartitioner.ROUND_ROBIN:
                turns = (self._turn + np.arange(rows)) % self._count
                self._turn = (self._turn + rows) % self._count
                return turns.astype(np.int32)
        chosen = partitions_of(keys, self._count)
        if keys.valid is not None:
            is_random = self._partitioner is KafkasPartitioner.MURMUR2_RANDOM
            missing = chosen == UNKNOWN
            chosen[missing] = self._at_random(int(missing.sum())) if is_random else self._turn % self._count
        return chosen

    def _at_random(self, rows: int) -> Partitions:
        return self._destination.random.integers(self._count, size=rows, dtype=np.int32)

    def _placed(self, source: Source) -> Partitions:
        """Chooses by a user's partitioner, which gets the rows of the topic that name no partition."""
        assert source.batch is not None
        wanted = (
            np.ones(len(source.keys), np.bool_)
            if source.asked is None
            else source.asked.is_null().to_numpy(zero_copy_only=False)
        )
        if source.mine is not None:
            wanted = wanted & np.isin(np.arange(len(wanted)), source.mine)
        placed = np.zeros(len(wanted), np.int32)
        if wanted.any():
            rows = _columns(source.batch if wanted.all() else source.batch.filter(pa.array(wanted)))
            placed[wanted] = self._checked(self._returned(rows), rows.num_rows)
        return placed

    def _returned(self, rows: pa.RecordBatch) -> object:
        """Calls the user's partitioner; its errors name the line that failed."""
        assert self._own is not None
        try:
            return self._own.place(rows, self._destination)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno})"
            raise PartitionerError(f"{self._partitioner}: failed for topic {self._topic}: {what}") from error

    def _checked(self, returned: object, rows: int) -> Partitions:
        """Returns the result of a user's partitioner as an array. Raises PartitionerError if it is invalid."""
        try:
            found = _as_array(returned)
        except Exception as error:
            raise self._wrong(
                f"returned {type(returned).__name__}, which is no sequence of numbers: {error}"
            ) from error
        if found.ndim != 1 or len(found) != rows:
            what = f"{type(returned).__name__} of shape {found.shape}" if found.ndim != 1 else f"{len(found)} numbers"
            raise self._wrong(f"returned {what} for {rows} rows; it must return the number of a partition for each row")
        if found.dtype.kind not in "iu":
            raise self._wrong(f"returned values of type {found.dtype}, which are no whole numbers")
        outside = (found < 0) | (found >= self._count)
        if outside.any():
            first = int(outside.argmax())
            raise self._wrong(
                f"returned partition {found[first]} for row {first} of {rows}, but topic {self._topic} has partitions "
                f"0 to {self._count - 1}"
            )
        return found.astype(np.int32)

    @property
    def _topic(self) -> str:
        return self._destination.topic

    def _wrong(self, what: str) -> PartitionerError:
        return PartitionerError(f"{self._partitioner}: {what}")

    def _reason(self, partition: int) -> str:
        if partition == UNKNOWN and self._partitioner is KafkasPartitioner.COLUMN:
            return "column partition is null, but partitioner.class = column requires a value"
        return f"column partition is {partition}, but the topic has partitions 0 to {self._count - 1}"


def _created(partitioner: OwnPartitioner) -> Partitioner:
    try:
        return partitioner.create()
    except InvalidConfigError as error:
        raise PartitionerError(str(error)) from error


def _columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows as :class:`Partitioner` gets them."""
    there = dict(zip(batch.schema.names, batch.columns, strict=True))
    key = there.get("key", pa.nulls(batch.num_rows, pa.binary()))
    columns = {"key": as_binary(key), "value": as_binary(there["value"])}
    return pa.RecordBatch.from_pydict(
        columns | {name: there[name] for name in ("timestamp", "headers") if name in there}
    )


def _as_array(returned: object) -> npt.NDArray[np.int64]:
    """Returns an array of any type and shape; :meth:`Chooser._checked` checks them."""
    if isinstance(returned, pa.ChunkedArray):
        returned = returned.combine_chunks()
    if isinstance(returned, pa.Array):
        returned = returned.to_numpy(zero_copy_only=False)
    return np.asarray(returned)
