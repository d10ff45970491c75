"""HeldId: the state of a transactional id whose lock the coordinator holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.bodies import ErrorCode
from ...storage import PREPARED, UNDECIDED, Producer, TransactionLogValue, TransactionState, is_of_driver

EPOCH_MAX = 32766  # the last epoch with which a producer begins; then a new producer id follows (``isEpochExhausted``)


class Opened(NamedTuple):
    """The result of opening a transactional id in the store; ``lock`` is None if another process holds it."""

    lock: object | None
    value: TransactionLogValue | None
    coordinator_epoch: int


@dataclass(eq=False)
class HeldId:
    """A transactional id. Belongs to the coordinator's thread."""

    id: str
    lock: object | None  # None: another process has it, so nothing is done for clients
    value: TransactionLogValue | None  # the newest state in the log; None: there is none
    coordinator_epoch: int
    used_ms: int  # when a client last asked
    is_changing: bool = False  # a state or markers are being written
    previous: Producer | None = None  # the producer that the last InitProducerId replaced; a repeated request names it

    @property
    def is_busy(self) -> bool:
        """Whether the id is being changed, so that a client must try again later."""
        return self.is_changing or self.lock is None

    @property
    def producer(self) -> Producer | None:
        """The producer of the newest state."""
        return None if self.value is None else Producer(self.value.producer_id, self.value.producer_epoch)

    def is_in(self, states: frozenset[TransactionState]) -> bool:
        """Whether the newest state is one of ``states``."""
        return self.value is not None and self.value.transaction_status in states

    @property
    def refusal_while_locked(self) -> ErrorCode:
        """The error for batches while another process has the lock.

        A client's transaction is still open: its batches are sent again, because the process is an earlier coordinator,
        or retention, and releases the lock soon.
        """
        producer = self.producer
        is_of_client = producer is not None and not is_of_driver(producer.id)
        is_open = is_of_client and self.is_in(frozenset({TransactionState.ONGOING}))
        return ErrorCode.not_enough_replicas if is_open else ErrorCode.invalid_producer_epoch

    def check_producer(self, producer: Producer) -> ErrorCode:
        """Returns the error for a producer's request that must be refused, else ``ErrorCode.none``."""
        if self.value is None or self.value.producer_id != producer.id or is_of_driver(producer.id):
            return ErrorCode.invalid_producer_id_mapping
        if self.value.producer_epoch != producer.epoch:
            return ErrorCode.producer_fenced
        return ErrorCode.concurrent_transactions if self.is_busy else ErrorCode.none

    def is_late(self, now_ms: int) -> bool:
        """Whether its transaction has been open for longer than its timeout."""
        value = self.value
        return value is not None and value.transaction_status in UNDECIDED and is_late(value, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether no transaction is open, and the last request is older than the transaction timeout."""
        if self.is_changing or self.is_in(UNDECIDED | PREPARED):
            return False
        return self.value is None or now_ms - self.used_ms >= self.value.transaction_timeout_ms


def is_late(value: TransactionLogValue, now_ms: int) -> bool:
    """Whether a transaction's timeout has passed."""
    return now_ms >= value.transaction_start_timestamp_ms + value.transaction_timeout_ms
