"""Gate: which batches of transactional producers may be appended, asked under the lock of the batch's partition.

The coordinator closes the gate before it writes a decision. So no batch can follow the marker of its transaction.
"""

from __future__ import annotations

from typing import NamedTuple

from ...storage import PREPARED, Producer, TopicPartition, TransactionLogValue, TransactionState, ungrouped
from ..protocol import ErrorCode, RequestError


class _Shown(NamedTuple):
    """What producers may do with a transactional id."""

    producer: Producer
    partitions: frozenset[TopicPartition]  # of the open transaction
    is_ending: bool


class Gate:
    """The open transactions. For any thread."""

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}

    def show(self, transactional_id: str, value: TransactionLogValue | None) -> None:
        """Shows the state of a transactional id; None: nobody may append by this id."""
        if value is None:
            self._shown.pop(transactional_id, None)
            return
        is_open = value.transaction_status is TransactionState.ONGOING
        self._shown[transactional_id] = _Shown(
            Producer(value.producer_id, value.producer_epoch),
            frozenset(ungrouped(value)) if is_open else frozenset(),
            value.transaction_status in PREPARED,
        )

    def knows(self, transactional_id: str) -> bool:
        """Whether the state of a transactional id is shown; if it is not, the coordinator must be asked first."""
        return transactional_id in self._shown

    def check(self, transactional_id: str | None, producer: Producer, partition: TopicPartition) -> None:
        """Raises RequestError if a batch of ``producer`` may not be appended to ``partition``.

        The codes are those of Kafka 3.9.1 (``handleVerifyPartitionsInTransaction``, ``AddPartitionsToTxnManager``), for
        clients that know TRANSACTION_ABORTABLE.
        """
        shown = None if transactional_id is None else self._shown.get(transactional_id)
        if shown is None:
            raise RequestError(ErrorCode.invalid_txn_state, "no transaction is open for this producer")
        if shown.producer.id != producer.id:
            raise RequestError(
                ErrorCode.invalid_producer_id_mapping,
                f"transactional id {transactional_id!r} has producer {shown.producer.id}, not {producer.id}",
            )
        if shown.producer.epoch != producer.epoch:
            raise RequestError(
                ErrorCode.invalid_producer_epoch,
                f"transactional id {transactional_id!r} has epoch {shown.producer.epoch}, not {producer.epoch}",
            )
        if shown.is_ending:
            raise RequestError(ErrorCode.not_enough_replicas, "the transaction is being ended; try again")
        if partition not in shown.partitions:
            raise RequestError(
                ErrorCode.transaction_abortable, f"{partition} has not been added to the transaction of this producer"
            )


def known_before(error: RequestError) -> RequestError:
    """Returns the error for clients that do not know TRANSACTION_ABORTABLE."""
    if error.code is not ErrorCode.transaction_abortable:
        return error
    return RequestError(ErrorCode.invalid_txn_state, str(error))
