"""HeldIds: opens the transactional ids that clients use, with their locks, changes them, and releases them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from ...protocol.bodies import ErrorCode
from ...protocol.errors import code_of
from ...storage import Clock, Producer, ProducerFencedError, TransactionLogValue
from ..cluster.homes import Homes
from ..threads.disk import Home
from .gate import Gate
from .held import HeldId, Opened
from .store import TransactionStore

_UNAVAILABLE = frozenset(
    {
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.corrupt_message,
        ErrorCode.request_timed_out,  # Java's producer treats this as final at its start
    }
)

_AGAIN_S = 0.05

logger = logging.getLogger(__name__)


def coordinator_code(error: Exception) -> ErrorCode:
    """Returns the code for a client if a state could not be read or written; clients retry after most of them."""
    if isinstance(error, ProducerFencedError):  # another process has written a state, which is read again
        return ErrorCode.not_coordinator
    code = code_of(error)
    return ErrorCode.coordinator_not_available if code in _UNAVAILABLE else code


class _Waiter(NamedTuple):
    then: Callable[[HeldId], None]
    refuse: Callable[[ErrorCode], None]
    create: bool


class HeldIds:
    """The ids whose locks are held. Belongs to the coordinator's thread."""

    def __init__(
        self, clock: Clock, home: Home, store: TransactionStore, gate: Gate, homes: Homes | None = None
    ) -> None:
        """``homes``: which ids this node coordinates; None: all."""
        self.clock, self.home, self.store, self.gate = clock, home, store, gate
        self.homes = homes or Homes()
        self.on_opened: Callable[[HeldId], None] = lambda _: None
        self._held: dict[str, HeldId] = {}
        self._opening: dict[str, list[_Waiter]] = {}

    def all(self) -> Collection[HeldId]:
        """Returns all ids whose locks are held."""
        return list(self._held.values())

    def find(self, transactional_id: str) -> HeldId | None:
        """Returns an id, if its lock is held."""
        return self._held.get(transactional_id)

    def use(
        self,
        transactional_id: str,
        then: Callable[[HeldId], None],
        refuse: Callable[[ErrorCode], None],
        *,
        create: bool = False,
    ) -> None:
        """Calls ``then`` with an id, after opening it if necessary. While another process has its lock, the id is busy.

        Calls ``refuse`` if another node coordinates the id, if its state cannot be read, or if it has no state and
        ``create`` is False.
        """
        if not self.homes.has(transactional_id):
            refuse(ErrorCode.not_coordinator)
            return
        held = self._held.get(transactional_id)
        if held is not None:
            held.used_ms = self.clock.now_ms()
            then(held)
            return
        waiters = self._opening.setdefault(transactional_id, [])
        waiters.append(_Waiter(then, refuse, create))
        if len(waiters) == 1:
            self.store.ask(
                lambda states: states.open(transactional_id, create=create),
                partial(self._opened, transactional_id),
                partial(self._failed, transactional_id),
            )

    def _opened(self, transactional_id: str, opened: Opened | None) -> None:
        waiters = self._opening.pop(transactional_id)
        if opened is None:
            for waiter in waiters:
                if waiter.create:
                    self.use(transactional_id, waiter.then, waiter.refuse, create=True)
                else:
                    waiter.refuse(ErrorCode.invalid_producer_id_mapping)
        elif self.homes.has(transactional_id):
            self._use_opened(HeldId(transactional_id, *opened, used_ms=self.clock.now_ms()), waiters)
        else:  # it moved in the meantime, and its new coordinator needs the lock
            if opened.lock is not None:
                self._release(transactional_id, opened.lock)
            for waiter in waiters:
                waiter.refuse(ErrorCode.not_coordinator)

    def _use_opened(self, held: HeldId, waiters: Collection[_Waiter]) -> None:
        if held.lock is not None:
            self._held[held.id] = held
            self.gate.show(held.id, held.value)
            self.on_opened(held)
        for waiter in waiters:
            waiter.then(held)

    def _failed(self, transactional_id: str, error: Exception) -> None:
        code = coordinator_code(error)
        if code is ErrorCode.unknown_server_error:
            logger.error("transactional id %r could not be opened", transactional_id, exc_info=error)
        else:
            logger.warning("transactional id %r could not be opened: %s", transactional_id, error)
        for waiter in self._opening.pop(transactional_id):
            waiter.refuse(code)

    def change(
        self,
        held: HeldId,
        value: TransactionLogValue,
        done: Callable[[ErrorCode], None],
        *,
        close_gate: bool = False,
        after: Producer | None = None,
    ) -> None:
        """Writes the next state of an id durably, then calls ``done``; until then the id is busy.

        With ``close_gate``, the gate applies the new state at once, before it is written. ``after``: as in
        :meth:`TransactionStore.write`.
        """
        held.is_changing = True
        if close_gate:
            self.gate.show(held.id, value)

        def written(error: Exception | None) -> None:
            held.is_changing = False
            if error is None:
                held.value = value
                self.gate.show(held.id, value)
                done(ErrorCode.none)
                return
            logger.warning(
                "the state of transactional id %r could not be written, so it will be read again: %s", held.id, error
            )
            self.give_back(held)
            done(coordinator_code(error))

        self.store.write(held.id, held.value, value, written, after=after)

    def change_unsynced(self, held: HeldId, value: TransactionLogValue) -> None:
        """Writes a state that an earlier one implies, without a sync; requests for the id need not wait for it."""
        before, held.value = held.value, value
        self.gate.show(held.id, value)

        def written(error: Exception | None) -> None:
            if error is not None:  # the next change finds the previous state, and opens the id again
                logger.warning("the state of transactional id %r could not be written: %s", held.id, error)

        self.store.write(held.id, before, value, written, sync=False)

    def give_back_others(self) -> None:
        """Releases the ids that other nodes coordinate now, each after its pending writes.

        A marker written after the release could end the producer's next transaction.
        """
        others = [held for held in self.all() if not self.homes.has(held.id)]
        for held in others:
            if not held.is_changing:
                self.give_back(held)
        if any(held.is_changing for held in others):
            self.home.later(_AGAIN_S, self.give_back_others)

    def give_back(self, held: HeldId) -> None:
        """Forgets an id and releases its lock after the pending writes. The next request opens it again."""
        if self._held.get(held.id) is not held or held.lock is None:
            return
        del self._held[held.id]
        self.gate.show(held.id, None)
        lock, held.lock = held.lock, None
        self._release(held.id, lock)

    def _release(self, transactional_id: str, lock: object) -> None:
        self.store.ask(lambda states: states.release(lock), lambda _: None, partial(_log_release, transactional_id))


def _log_release(transactional_id: str, error: Exception) -> None:
    logger.warning("the lock of transactional id %r could not be released: %s", transactional_id, error)
