"""TransactionCoordinator: answers transactional producers, as Kafka 3.9.1's ``TransactionCoordinator`` does.

It runs in one thread and knows no sockets. A state is synced before it is answered. Clients use the classic protocol: a
producer keeps its epoch until the next InitProducerId, through the ends of its transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from ...protocol.bodies import ErrorCode
from ...storage import (
    PREPARED,
    UNDECIDED,
    LogStoreError,
    Producer,
    TopicPartition,
    TransactionLogValue,
    TransactionState,
    empty_state,
    extended_state,
    is_of_driver,
    ungrouped,
)
from ..config import GatewayConfig
from .endings import Endings, is_repeated_end
from .held import EPOCH_MAX, HeldId
from .ids import HeldIds, coordinator_code
from .markers import Ends

Done = Callable[[ErrorCode], None]
Initialised = Callable[[ErrorCode, Producer | None], None]
NO_TIME = -1


class _Asked(NamedTuple):
    """The request of a client that begins."""

    timeout_ms: int
    own: Producer | None  # the client's current producer, if it asks for the next epoch
    done: Initialised


class TransactionCoordinator:
    """The coordinator of the transactional ids that this node leads. Only for one thread."""

    def __init__(self, config: GatewayConfig, ids: HeldIds, markers: Ends) -> None:
        self._config = config
        self._ids = ids
        self._endings = Endings(ids, markers)
        self._is_stopped = False

    def look(self) -> None:
        """Ends late and abandoned transactions, now and at regular intervals."""
        if not self._is_stopped:
            self._endings.look()
        interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._ids.home.later(interval_ms / 1000, self.look)

    def reassign(self) -> None:
        """Releases the ids that other nodes coordinate now, and ends abandoned transactions of its own ids."""
        self._ids.give_back_others()
        if not self._is_stopped:
            self._endings.look()

    def stop(self) -> None:
        """Answers all later requests with COORDINATOR_NOT_AVAILABLE."""
        self._is_stopped = True

    def _use(
        self,
        transactional_id: str,
        then: Callable[[HeldId], None],
        refuse: Done,
        *,
        create: bool = False,
    ) -> None:
        if self._is_stopped:
            refuse(ErrorCode.coordinator_not_available)
        elif not transactional_id:
            refuse(ErrorCode.invalid_request)
        else:
            self._ids.use(transactional_id, then, refuse, create=create)

    def load(self, transactional_id: str, done: Done) -> None:
        """Loads the state of an id into the gate, then calls ``done``.

        An error means that its producer may not append.
        """

        def then(held: HeldId) -> None:
            done(ErrorCode.none if held.lock is not None else held.refusal_while_locked)

        self._use(transactional_id, then, done)

    # A producer begins

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, done: Initialised
    ) -> None:
        """Ends the open transaction of the id's last producer, fences that producer, and calls ``done`` with the next.

        ``expected``: the client's current producer, if the client asks for the next epoch. Within its own transaction,
        ``done`` gets CONCURRENT_TRANSACTIONS once that is aborted, which fences the producer, as Kafka does.
        """
        if not transactional_id:
            done(ErrorCode.invalid_request, None)
            return
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            done(ErrorCode.invalid_transaction_timeout, None)
            return
        asked = _Asked(timeout_ms, expected, done)
        self._use(
            transactional_id,
            lambda held: self._init(held, asked),
            lambda error: done(error, None),
            create=True,
        )

    def _init(self, held: HeldId, asked: _Asked) -> None:
        current, own, done = held.producer, asked.own, asked.done
        if held.is_busy or held.is_in(PREPARED):
            done(ErrorCode.concurrent_transactions, None)
        elif current is None:
            self._init_new(held, asked, None)
        elif own is not None and own == held.previous and not held.is_in(UNDECIDED):
            done(ErrorCode.none, current)  # asked again
        elif own is not None and (own != current or is_of_driver(own.id)):
            done(ErrorCode.producer_fenced, None)
        elif held.is_in(UNDECIDED):
            self._endings.end(held, partial(self._init_after_abort, held, asked), commit=False, raise_epoch=True)
        elif current.epoch >= EPOCH_MAX or is_of_driver(current.id):
            self._init_new(held, asked, own)
        else:
            self._init_as(held, Producer(current.id, current.epoch + 1), asked, own)

    def _init_after_abort(self, held: HeldId, asked: _Asked, error: ErrorCode) -> None:
        if not error and asked.own is not None:  # the abort has raised the epoch
            error = ErrorCode.concurrent_transactions
        if error:
            asked.done(error, None)
        else:
            self._init(held, asked)

    def _init_new(self, held: HeldId, asked: _Asked, previous: Producer | None) -> None:
        held.is_changing = True

        def failed(error: Exception) -> None:
            held.is_changing = False
            asked.done(coordinator_code(error), None)

        self._ids.store.ask(
            lambda states: states.new_producer_id(),
            lambda found: self._init_as(held, Producer(found, 0), asked, previous),
            failed,
        )

    def _init_as(self, held: HeldId, producer: Producer, asked: _Asked, previous: Producer | None) -> None:
        def written(error: ErrorCode) -> None:
            held.previous = previous  # lost with a restart, as in a broker
            asked.done(error, None if error else producer)

        value = empty_state(producer, asked.timeout_ms, self._ids.clock.now_ms())
        self._ids.change(held, value, written, after=asked.own)

    # A transaction

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], done: Done
    ) -> None:
        """Adds partitions to a producer's transaction; begins one if none is open."""

        def then(held: HeldId) -> None:
            error = held.check_producer(producer)
            if not error and held.is_in(PREPARED):
                error = ErrorCode.concurrent_transactions
            if error or held.value is None:
                done(error)
            elif held.is_in(frozenset({TransactionState.ONGOING})) and {*partitions} <= {*ungrouped(held.value)}:
                done(ErrorCode.none)
            else:
                self._ids.change(held, extended_state(held.value, partitions, self._ids.clock.now_ms()), done)

        self._use(transactional_id, then, done)

    def add_group(self, transactional_id: str, producer: Producer, group: str, done: Done) -> None:
        """Adds the partition of ``__consumer_offsets`` that holds a group's offsets."""
        self._ids.store.ask(
            lambda states: states.offsets_partition(group),
            lambda found: self.add_partitions(transactional_id, producer, [found], done),
            lambda error: done(coordinator_code(error)),
        )

    def find_group(
        self, transactional_id: str, group: str, done: Callable[[ErrorCode, TopicPartition | None], None]
    ) -> None:
        """Like :meth:`load`, but calls ``done`` with the error and the partition that holds a group's offsets."""

        def loaded(error: ErrorCode) -> None:
            if error:
                is_new = error is ErrorCode.not_enough_replicas  # clients know it from Produce only
                done(ErrorCode.coordinator_not_available if is_new else error, None)
                return
            self._ids.store.ask(
                lambda states: states.offsets_partition(group),
                lambda found: done(ErrorCode.none, found),
                lambda failure: done(coordinator_code(failure), None),
            )

        self.load(transactional_id, loaded)

    def end(self, transactional_id: str, producer: Producer, done: Done, *, commit: bool) -> None:
        """Commits or aborts a producer's transaction; a repeated request gets the same answer."""

        def refuse(error: ErrorCode) -> None:
            if self._endings.are_forgotten and error is ErrorCode.invalid_producer_id_mapping:
                # An open transaction was aborted. But it may also have been committed, and clients take this error for
                # an abort.
                error = ErrorCode.producer_fenced if commit else ErrorCode.none
            done(error)

        def then(held: HeldId) -> None:
            error = held.check_producer(producer)
            if error or held.value is None:
                refuse(error)
            elif held.is_in(UNDECIDED):
                self._endings.end(held, done, commit=commit)
            elif held.is_in(PREPARED):
                is_same = commit == (held.value.transaction_status is TransactionState.PREPARE_COMMIT)
                if is_same:  # its markers could not be written
                    self._endings.finish(held, done)
                else:
                    done(ErrorCode.invalid_txn_state)
            else:
                done(ErrorCode.none if is_repeated_end(held, commit=commit) else ErrorCode.invalid_txn_state)

        self._use(transactional_id, then, refuse)

    # Asking about transactions

    def describe(self, transactional_id: str, done: Callable[[ErrorCode, TransactionLogValue | None], None]) -> None:
        """Calls ``done`` with the newest state of an id, or with TRANSACTIONAL_ID_NOT_FOUND."""
        if not transactional_id:
            done(ErrorCode.invalid_request, None)
            return
        if not self._ids.homes.has(transactional_id):
            done(ErrorCode.not_coordinator, None)
            return

        def found(value: TransactionLogValue | None) -> None:
            if value is None or value.transaction_status is TransactionState.DEAD:
                done(ErrorCode.transactional_id_not_found, None)
            else:
                done(ErrorCode.none, value)

        self._ids.store.look(
            lambda states: states.newest(transactional_id), found, lambda error: done(coordinator_code(error), None)
        )

    def list(
        self,
        done: Callable[[ErrorCode, Collection[tuple[str, TransactionLogValue]]], None],
        *,
        states: Collection[TransactionState] = (),
        producer_ids: Collection[int] = (),
        older_than_ms: int = NO_TIME,
    ) -> None:
        """Calls ``done`` with the ids and states that match the filters, including those of Spark's sinks.

        Default: all.
        """
        now_ms = self._ids.clock.now_ms()
        failures: list[LogStoreError] = []

        def fits(value: TransactionLogValue) -> bool:
            begun_ms = value.transaction_start_timestamp_ms
            return (
                value.transaction_status is not TransactionState.DEAD
                and (not states or value.transaction_status in states)
                and (not producer_ids or value.producer_id in producer_ids)
                and (older_than_ms < 0 or now_ms - begun_ms > older_than_ms)  # -1: no transaction has begun
            )

        def found(all_ids: Collection[tuple[str, TransactionLogValue]]) -> None:
            shown = [(name, value) for name, value in all_ids if fits(value) and self._ids.homes.has(name)]
            done(coordinator_code(failures[0]) if failures else ErrorCode.none, shown)

        self._ids.store.ask(lambda stored: stored.all(failures), found, lambda error: done(coordinator_code(error), ()))
