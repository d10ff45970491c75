"""Markers: writes the markers that end a transaction, through the logs that the gateway serves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from threading import Lock

from ...storage import (
    Producer,
    TransactionLogValue,
    TransactionState,
    UnknownTopicOrPartitionError,
    ungrouped,
    write_marker,
)
from ..partitions import Appender, LedPartition, NotOpenError, Partitions

Done = Callable[[Exception | None], None]

logger = logging.getLogger(__name__)


class Markers:
    """Writes markers. For any thread."""

    def __init__(self, partitions: Partitions, appender: Appender) -> None:
        self._partitions, self._appender = partitions, appender

    def write(self, decided: TransactionLogValue, coordinator_epoch: int, now_ms: int, done: Done) -> None:
        """Writes the markers that are missing, then calls ``done`` in any thread; they are synced and shown by then.

        A partition that was deleted gets none. With an error, some markers are written; call it again.
        """
        try:
            found = self._partitions.led(ungrouped(decided))
        except NotOpenError as error:
            again = partial(self._again, decided, coordinator_epoch, now_ms, done)
            self._partitions.open_then(error.partitions, again)
            return
        pending = _Pending(done, len(found))
        producer = Producer(decided.producer_id, decided.producer_epoch)
        commit = decided.transaction_status is TransactionState.PREPARE_COMMIT
        for led in found.values():
            if isinstance(led, LedPartition):
                marker = partial(
                    write_marker, producer=producer, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms
                )
                self._appender.change(led, marker, pending.ended)
            elif isinstance(led, UnknownTopicOrPartitionError):
                logger.warning("%s; the transaction ends without a marker in this partition", led)
                pending.ended(None)
            else:
                pending.ended(led)
        if not found:
            done(None)

    def _again(self, decided: TransactionLogValue, coordinator_epoch: int, now_ms: int, done: Done) -> None:
        try:
            self.write(decided, coordinator_epoch, now_ms, done)
        except Exception as error:
            done(error)


class _Pending:
    """Calls ``done`` after so many ends, with the first error."""

    def __init__(self, done: Done, count: int) -> None:
        self._done, self._left = done, count
        self._error: Exception | None = None
        self._lock = Lock()

    def ended(self, error: Exception | None) -> None:
        with self._lock:
            self._left -= 1
            if isinstance(error, UnknownTopicOrPartitionError):  # deleted in the meantime
                error = None
            self._error = self._error or error
            is_last = not self._left
        if is_last:
            self._done(self._error)
