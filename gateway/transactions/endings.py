"""Endings: write decisions and markers, for clients and for transactions that are late or abandoned."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ...protocol.bodies import ErrorCode
from ...storage import (
    PREPARED,
    LogStoreError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionState,
    UnknownTopicOrPartitionError,
    completed_state,
    prepared_state,
    ungrouped,
)
from ..partitions.open_partitions import BeingDeletedError
from .held import HeldId
from .ids import HeldIds
from .markers import Ends

Done = Callable[[ErrorCode], None]
# Errors that refuse the whole end of a transaction on an object store.
LOST = (ProducerFencedError, TransactionAbortedError, UnknownTopicOrPartitionError)

logger = logging.getLogger(__name__)


class Endings:
    """Ends transactions. Belongs to the coordinator's thread.

    Each step leaves on disk: the decision, synced; the markers, synced; the Complete state, unsynced, because the
    decision implies it. After a crash, the next process that opens the id continues from there, unless
    ``are_forgotten`` (:class:`Ends`).
    """

    def __init__(self, ids: HeldIds, markers: Ends) -> None:
        self._ids, self._markers = ids, markers
        self._is_looking = False  # whether it searches the disk for transactions that were left
        ids.on_opened = self._on_opened
        self.are_forgotten = markers.are_forgotten

    def end(self, held: HeldId, done: Done, *, commit: bool, raise_epoch: bool = False) -> None:
        """Ends the open transaction of an id, and calls ``done`` when its markers are synced in all partitions.

        With ``raise_epoch``, its producer is fenced, and so is the one before. If a marker cannot be written after the
        decision, ``done`` gets COORDINATOR_NOT_AVAILABLE, and the marker is tried again later.
        """
        assert held.value is not None
        decided = prepared_state(
            held.value, ungrouped(held.value), self._ids.clock.now_ms(), commit=commit, raise_epoch=raise_epoch
        )
        if raise_epoch:
            held.previous = None

        def written(error: ErrorCode) -> None:
            if error:
                done(error)
            else:
                self.finish(held, done)

        self._ids.change(held, decided, written, close_gate=True)

    def finish(self, held: HeldId, done: Done) -> None:
        """Writes the markers of a decided transaction, then its Complete state."""
        assert held.value is not None
        held.is_changing = True
        marked = partial(self._marked, held, done)
        self._markers.write(
            held.value,
            held.coordinator_epoch,
            self._ids.clock.now_ms(),
            lambda error: self._ids.home.run(lambda: marked(error)),
        )

    def _marked(self, held: HeldId, done: Done, error: Exception | None) -> None:
        held.is_changing = False
        if isinstance(error, LOST) and not isinstance(error, BeingDeletedError):  # the deletion may still be refused
            logger.warning("the transaction of transactional id %r could not be ended: %s", held.id, error)
            self._ids.give_back(held)
            is_fenced = isinstance(error, ProducerFencedError)
            done(ErrorCode.producer_fenced if is_fenced else ErrorCode.invalid_txn_state)
            return
        if error is not None:
            logger.error(
                "markers of transactional id %r could not be written, and will be tried again: %s", held.id, error
            )
            done(ErrorCode.coordinator_not_available)
            return
        assert held.value is not None
        self._ids.change_unsynced(held, completed_state(held.value, self._ids.clock.now_ms()))
        done(ErrorCode.none)

    def _on_opened(self, held: HeldId) -> None:
        if held.is_in(PREPARED):
            self.finish(held, partial(self._ended, held, "was decided before"))

    # What nobody ends

    def look(self) -> None:
        """Ends late and abandoned transactions, and releases idle ids."""
        now_ms = self._ids.clock.now_ms()
        for held in self._ids.all():
            self._look_at(held)
        if self._is_looking:  # the disk is slow, or there is a lot to read: another check would keep clients waiting
            return
        self._is_looking = True
        failures: list[LogStoreError] = []

        def found(names: list[str]) -> None:
            self._is_looking = False
            for failure in failures:
                logger.warning("transactions of one partition could not be read: %s", failure)
            for name in names:
                if self._ids.find(name) is None:
                    self._ids.use(name, self._look_at_left, lambda _: None)

        def failed(error: Exception) -> None:
            self._is_looking = False
            logger.warning("transactions could not be read: %s", error)

        self._ids.store.ask(lambda states: states.unfinished(now_ms, failures), found, failed)

    def _look_at_left(self, held: HeldId) -> None:
        held.used_ms = 0  # no client uses it: it is released once its transaction has ended
        self._look_at(held)

    def _look_at(self, held: HeldId) -> None:
        now_ms = self._ids.clock.now_ms()
        if held.is_busy:
            return
        if held.is_late(now_ms):
            self.end(held, partial(self._ended, held, "is late"), commit=False, raise_epoch=True)
        elif held.is_in(PREPARED):
            self.finish(held, partial(self._ended, held, "was decided before"))
        elif held.is_idle(now_ms):
            self._ids.give_back(held)

    def _ended(self, held: HeldId, why: str, error: ErrorCode) -> None:
        if error:
            logger.warning(
                "the transaction of transactional id %r, which %s, could not be ended: %s", held.id, why, error.name
            )
            return
        logger.info("ended the transaction of transactional id %r, which %s", held.id, why)
        if held.is_idle(self._ids.clock.now_ms()):
            self._ids.give_back(held)


def is_repeated_end(held: HeldId, *, commit: bool) -> bool:
    """Whether the last transaction of an id has already ended in the way that the request asks for."""
    wanted = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    return held.is_in(frozenset({wanted}))
