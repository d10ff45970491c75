"""Appending: what handlers give to be appended, and the interface of what appends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ...storage import AppendInfo, CheckedBatch, Log
from .led_partition import LedPartition

Check = Callable[[], object]  # raises RequestError if a batch must not be appended
Done = Callable[[AppendInfo | Exception], None]
Soon = Callable[[Callable[[], None]], None]  # calls a function in a thread that must not wait, after what it is doing


class Append(NamedTuple):
    """A batch for a partition.

    ``done`` is called once, when the batch is durable or refused: by a thread of the appender, or by the one of
    ``soon``, which may also append what is small and waits for nothing. Without ``soon``, ``check`` may wait.
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
        """Appends a batch, after those that were given before for the partition."""
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
        """Calls ``change`` under the partition's lock, syncs and shows the result; then as :meth:`catch_up`.

        ``soon``: of the thread that calls ``done``, and ``change`` too if that waits for nothing; then ``change`` must
        append at most one marker.
        """
        ...

    def stop(self) -> None:
        """Does what was given, refuses what waits for another process, and ends the threads."""
        ...
