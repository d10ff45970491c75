"""Rows that reach a task as Spark messages, each with one Arrow batch.

Tasks import this module, and not ``write.arrow_messages``, which is the driver's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from ...arrow.batches import longest

T = TypeVar("T")


@dataclass(frozen=True)
class OverMessages(Generic[T]):
    """Applies ``function``, in a task, to the Arrow batches in messages, each of which has one batch of ``schema``.

    Returns the result of ``function``, or [None] if a string has more bytes than ``limits`` allow for its column.
    """

    function: Callable[[Iterator[pa.RecordBatch]], Iterable[T]]
    schema: pa.Schema
    limits: Mapping[str, int]

    def __call__(self, messages: Iterable[bytes]) -> Iterable[T | None]:
        buffers = map(pa.py_buffer, messages)  # nothing is copied
        batches = (pa.ipc.read_record_batch(buffer, self.schema) for buffer in buffers)
        try:
            return self.function(short_only(batches, self.limits))
        except LongRowError:
            return [None]


class LongRowError(Exception):
    """A row has more bytes than a row in an Arrow message to a task may have."""


def short_only(batches: Iterable[pa.RecordBatch], limits: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
    """Yields the batches. Raises LongRowError at a batch with a string longer than its column's limit in bytes."""
    for batch in batches:
        for name, limit in limits.items():
            if longest(batch.column(name)) > limit:
                raise LongRowError(f"column {name!r} has more than {limit} bytes in one row")
        yield batch
