"""Markers: writes the markers that end a transaction, through the logs that the gateway serves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from ...storage import (
    Producer,
    TransactionLogValue,
    TransactionState,
    UnknownTopicOrPartitionError,
    ungrouped,
    write_marker,
)
from ..partitions.appending import Appending, Soon
from ..partitions.led_partition import LedPartition
from ..partitions.open_partitions import BeingDeletedError, NotOpenError, Partitions
from ..threads.answers import gathering

Done = Callable[[Exception | None], None]

logger = logging.getLogger(__name__)


class Ends(Protocol):
    """Makes the end of a transaction visible.

    ``are_forgotten``: whether a later process cannot know how a transaction of this one has ended.
    """

    are_forgotten: bool

    def write(self, decided: TransactionLogValue, coordinator_epoch: int, now_ms: int, done: Done) -> None:
        """Ends a transaction as it was decided, then calls ``done`` in any thread; with an error, call it again."""
        ...


class Markers:
    """Writes markers. For any thread."""

    are_forgotten = False

    def __init__(self, partitions: Partitions, appender: Appending, soon: Soon | None = None) -> None:
        """``soon``: runs a function in the thread that writes markers which need not wait."""
        self._partitions, self._appender, self._soon = partitions, appender, soon

    def write(self, decided: TransactionLogValue, coordinator_epoch: int, now_ms: int, done: Done) -> None:
        """Writes the missing markers, then calls ``done`` in any thread, when they are synced and shown.

        A deleted partition gets no marker. A partition that is being deleted causes an error, because the deletion may
        still be refused. After an error some markers may be written; call this again.
        """
        again = partial(self._again, decided, coordinator_epoch, now_ms, done)
        try:
            found = self._partitions.led(ungrouped(decided), by_any=True)
        except NotOpenError as error:
            self._partitions.open_then(error.partitions, again)
            return

        def finish(errors: Sequence[Exception | None]) -> None:
            refused = [each for each, error in zip(found, errors, strict=True) if _is_gone(error)]
            if all(_is_gone(self._partitions.look(*each, by_any=True)) for each in refused):
                done(_failure(errors))
            else:
                again()  # a partition was only closed, not lost

        put: Callable[[int, Exception | None], None] = gathering(len(found), finish)
        producer = Producer(decided.producer_id, decided.producer_epoch)
        commit = decided.transaction_status is TransactionState.PREPARE_COMMIT
        for index, led in enumerate(found.values()):
            if isinstance(led, LedPartition):
                marker = partial(
                    write_marker, producer=producer, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms
                )
                self._appender.change(led, marker, partial(put, index), self._soon)
            elif _is_gone(led):
                logger.warning("%s; the transaction ends without a marker in this partition", led)
                put(index, None)
            else:
                put(index, led)

    def _again(self, decided: TransactionLogValue, coordinator_epoch: int, now_ms: int, done: Done) -> None:
        try:
            self.write(decided, coordinator_epoch, now_ms, done)
        except Exception as error:
            done(error)


def _is_gone(found: object) -> bool:
    """Whether an error means that a partition is closed or deleted, not that it is being deleted."""
    return isinstance(found, UnknownTopicOrPartitionError) and not isinstance(found, BeingDeletedError)


def _failure(errors: Sequence[Exception | None]) -> Exception | None:
    """Returns the first error, if any; a partition that was deleted in the meantime does not count."""
    return next((each for each in errors if each and not _is_gone(each)), None)
