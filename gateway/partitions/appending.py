"""Appending: the batches that handlers pass on, and the interface of the object that appends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ...storage import AppendInfo, CheckedBatch, Log
from .led_partition import LedPartition

Check = Callable[[], object]  # raises RequestError if a batch must not be appended
Done = Callable[[AppendInfo | Exception], None]
Soon = Callable[[Callable[[], None]], None]  # calls a function in a thread that must not wait, after its current task


class Append(NamedTuple):
    """A batch for a partition.

    ``done`` is called once, when the batch is durable or refused: by a thread of the appender, or by the thread of
    ``soon``, which may also append small batches itself if it need not wait. Without ``soon``, ``check`` may wait.
    """

    led: LedPartition
    batch: CheckedBatch
    done: Done
    check: Check | None = None
    transaction: int | None = None  # the producer of the transaction that it belongs to; None: it belongs to none
    soon: Soon | None = None


class Appending(Protocol):
    """Appends for all partitions. For any thread."""

    def start(self) -> None:
        """Starts its threads."""
        ...

    def append(self, append: Append) -> None:
        """Appends a batch, after earlier batches for the partition."""
        ...

    def catch_up(self, led: LedPartition, done: Callable[[Exception | None], None]) -> None:
        """Reads, syncs and shows what others appended, then calls ``done`` with the error, if there is one."""
        ...

    def change(
        self,
        led: LedPartition,
        change: Callable[[Log], object],
        done: Callable[[Exception | None], None],
        soon: Soon | None = None,
    ) -> None:
        """Calls ``change`` under the partition's lock, syncs and shows the result, then calls ``done``.

        ``soon``: runs a function in the thread that calls ``done``, and also ``change`` if it need not wait; then
        ``change`` must append at most one marker.
        """
        ...

    def stop(self) -> None:
        """Completes the queued jobs, refuses those that wait for another process, and ends the threads."""
        ...
