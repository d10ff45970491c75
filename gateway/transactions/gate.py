"""Gate: decides under the partition's lock whether a transactional batch may be appended.

The coordinator closes the gate before it writes a decision. So no batch can follow the marker of its transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import (
    PREPARED,
    LogStoreError,
    Producer,
    TopicPartition,
    TransactionLogValue,
    TransactionState,
    is_of_driver,
    ungrouped,
)
from ..cluster.homes import Homes


class _Shown(NamedTuple):
    """The part of a transactional id's state that the checks need."""

    producer: Producer
    partitions: frozenset[TopicPartition] | None  # those of the open transaction; None: this node released the id
    is_ending: bool


class Gate:
    """The open transactions. For any thread."""

    def __init__(
        self,
        homes: Homes | None = None,
        newest: Callable[[str], TransactionLogValue | None] = lambda _: None,
    ) -> None:
        """``homes``: which ids this node coordinates; None: all. ``newest`` reads an id's state."""
        self._homes, self._newest = homes or Homes(), newest
        self._shown: dict[str, _Shown] = {}

    def show(self, transactional_id: str, value: TransactionLogValue | None) -> None:
        """Sets the state of a transactional id; None: no producer may append with this id."""
        if value is None:
            self._shown.pop(transactional_id, None)
            return
        self._shown[transactional_id] = _shown(value)

    def knows(self, transactional_id: str) -> bool:
        """Whether :meth:`check` knows the state of an id; if it does not, the coordinator must be asked first."""
        return transactional_id in self._shown or not self._homes.has(transactional_id)

    def waits(self, transactional_id: str) -> bool:
        """Whether :meth:`check` of an id reads its state from the log, which may take a whole partition."""
        return transactional_id not in self._shown

    def _find(self, transactional_id: str) -> _Shown | None:
        """Returns the state of an id, from the log if it is not shown.

        If another node coordinates the id, that node writes its decision before the markers, and needs the partition's
        lock to write a marker. So while the caller holds that lock, an open transaction gets no marker in the
        partition.
        """
        found = self._shown.get(transactional_id)
        if found is not None or (value := self._read(transactional_id)) is None:
            return found
        read = _shown(value)
        return read._replace(partitions=None) if self._homes.has(transactional_id) else read

    def _read(self, transactional_id: str) -> TransactionLogValue | None:
        """Returns the newest state in the log. If it cannot be read, only batches with this id are refused."""
        try:
            return self._newest(transactional_id)
        except (LogStoreError, OSError) as error:
            raise RequestError(
                ErrorCode.not_enough_replicas,
                f"the state of transactional id {transactional_id!r} cannot be read; try again: {error}",
            ) from error

    def lets(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> bool:
        """Whether :meth:`check` is known to pass, without reading the log."""
        shown = self._shown.get(transactional_id)
        return (
            shown is not None
            and shown.producer == producer
            and shown.partitions is not None
            and not shown.is_ending
            and partition in shown.partitions
            and not is_of_driver(producer.id)
        )

    def check(self, transactional_id: str | None, producer: Producer, partition: TopicPartition) -> None:
        """Raises RequestError if a batch of ``producer`` may not be appended to ``partition``.

        The codes are those of Kafka 3.9.1 (``handleVerifyPartitionsInTransaction``, ``AddPartitionsToTxnManager``), for
        clients that know TRANSACTION_ABORTABLE.
        """
        shown = None if transactional_id is None else self._find(transactional_id)
        if shown is None:
            raise _none_is_open()
        if shown.producer.id != producer.id:
            raise RequestError(
                ErrorCode.invalid_producer_id_mapping,
                f"transactional id {transactional_id!r} has producer {shown.producer.id}, not {producer.id}",
            )
        if is_of_driver(producer.id):
            raise RequestError(
                ErrorCode.invalid_producer_id_mapping,
                f"producer {producer.id} is a writer's of this log, such as Spark's: begin with InitProducerId",
            )
        if shown.producer.epoch != producer.epoch:
            raise RequestError(
                ErrorCode.invalid_producer_epoch,
                f"transactional id {transactional_id!r} has epoch {shown.producer.epoch}, not {producer.epoch}",
            )
        if shown.partitions is None:
            raise _none_is_open()
        if shown.is_ending:
            raise RequestError(ErrorCode.not_enough_replicas, "the transaction is being ended; try again")
        if partition not in shown.partitions:
            raise RequestError(
                ErrorCode.transaction_abortable, f"{partition} has not been added to the transaction of this producer"
            )


def _none_is_open() -> RequestError:
    return RequestError(ErrorCode.invalid_txn_state, "no transaction is open for this producer")


def _shown(value: TransactionLogValue) -> _Shown:
    is_open = value.transaction_status is TransactionState.ONGOING
    return _Shown(
        Producer(value.producer_id, value.producer_epoch),
        frozenset(ungrouped(value)) if is_open else frozenset(),
        value.transaction_status in PREPARED,
    )


def known_before(error: RequestError) -> RequestError:
    """Returns the error to send to clients that do not know TRANSACTION_ABORTABLE."""
    if error.code is not ErrorCode.transaction_abortable:
        return error
    return RequestError(ErrorCode.invalid_txn_state, str(error))
