"""ClientTransactions: the transactions of one process's producers; their content is in the log.

A batch of a transaction is appended like any other, so it has its offsets at once; offsets of groups are commits, too.
The end is one commit, from which on all or nothing of the transaction counts. A transactional id is an app of the log:
a producer takes it over by a commit, which aborts an open transaction and fences other processes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import NamedTuple

from ...errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    LogStoreError,
    OutcomeUnknownError,
    ProducerFencedError,
    TransactionAbortedError,
)
from ...recovery.producer_state import Producer
from ..commit_log import CommitLog
from ..commits.commit import (
    ClientTransaction,
    EndChange,
    GroupOffset,
    OpenChange,
    StageChange,
    StagedOffsets,
    TransactionEnd,
)
from ..commits.state import State
from ..commits.transactions import app_of, problem_of
from ..proposals import claim_app

logger = logging.getLogger(__name__)


class AddedOffsets(NamedTuple):
    """Offsets of a group, to be added to a producer's transaction."""

    producer_id: int
    group: str
    offsets: Mapping[str, GroupOffset]  # by partition


@dataclass
class _Producer:
    """A producer with its transactional id, and its transaction."""

    transactional_id: str
    transaction: ClientTransaction
    may_have_some: bool = False  # additions to the transaction were tried, perhaps without an answer
    is_ending: bool = False
    may_have_ended: bool = False  # an end was tried without an answer
    adding: int = 0  # additions and their checks in progress


class ClientTransactions:
    """The producers of one process that have a transactional id. For any thread."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._producers: dict[int, _Producer] = {}
        self._changed = Condition()  # Guards the producers.

    def begin(self, transactional_id: str, producer: Producer, timeout_ms: int, after: Producer | None = None) -> None:
        """Takes over an id for a producer: aborts the open transaction of an earlier one, here or elsewhere.

        ``timeout_ms``: the age at which anyone may abort a transaction. ``after``: the earlier producer of the client,
        which continues as ``producer``. Raises ProducerFencedError if another one has taken over the id since then, and
        the errors of :meth:`CommitLog.commit`.
        """
        app, run = app_of(transactional_id), _run_of(producer)
        known = None if after is None else (_run_of(after), run)  # this producer: a repeated request
        claim = claim_app(self._log, app, None, run, known)
        last = self._log.state.apps[app].version
        version = 0 if last is None else last + 1
        transaction = ClientTransaction(app, claim.epoch, version, producer.id, producer.epoch, timeout_ms)
        with self._changed:
            self._forget(transactional_id)
            self._producers[producer.id] = _Producer(transactional_id, transaction)

    def has(self, transaction: ClientTransaction) -> bool:
        """Whether a transaction belongs to this process."""
        with self._changed:
            producer = self._producers.get(transaction.producer_id)
            return producer is not None and producer.transaction == transaction

    def forget(self, transactional_id: str) -> None:
        """Forgets the producer of an id."""
        with self._changed:
            self._forget(transactional_id)

    def _forget(self, transactional_id: str) -> None:
        for producer_id, each in list(self._producers.items()):
            if each.transactional_id == transactional_id:
                del self._producers[producer_id]

    # In a transaction

    @contextmanager
    def held(self, producer_id: int) -> Iterator[None]:
        """Within the block, the producer's transaction cannot end: a check still holds when its result is used."""
        with self._changed:
            producer = self._producers.get(producer_id)
            if producer is not None:
                producer.adding += 1
        try:
            yield
        finally:
            if producer is not None:
                with self._changed:
                    producer.adding -= 1
                    self._changed.notify_all()

    def open(self, producer_id: int) -> ClientTransaction:
        """Returns the transaction of a producer, to which something is to be added while the producer is held.

        Raises InvalidTxnStateError if it is ending, or there is no such producer.
        """
        with self._changed:
            found = self._producers.get(producer_id)
            if found is None:
                raise InvalidTxnStateError(f"producer {producer_id} has no transactional id here")
            if found.is_ending:
                raise InvalidTxnStateError(f"producer {producer_id}: the transaction is being ended")
            found.may_have_some = True
            return found.transaction

    def add_offsets(self, added: Sequence[AddedOffsets]) -> list[LogStoreError | None]:
        """Adds offsets of groups to the transactions of producers, by one commit, while the producers are held.

        Returns the error of each: those of :meth:`open`, and InvalidProducerEpochError for an aborted one. Raises the
        errors of :meth:`CommitLog.commit`.
        """
        opened = [self._opened(each.producer_id) for each in added]
        results: list[LogStoreError | None] = []

        def propose(state: State) -> StageChange | None:
            results[:] = [_refusal(state, each) for each in opened]
            stages = [
                StagedOffsets(transaction, group, offsets)
                for (_, group, offsets), transaction, refusal in zip(added, opened, results, strict=True)
                if refusal is None and isinstance(transaction, ClientTransaction)
            ]
            return StageChange(stages) if stages else None

        self._log.commit(propose)
        return results

    def _opened(self, producer_id: int) -> ClientTransaction | LogStoreError:
        try:
            return self.open(producer_id)
        except InvalidTxnStateError as error:
            return error

    # Ending one

    def end(self, asked: Sequence[tuple[int, bool]]) -> list[LogStoreError | None]:
        """Ends the transactions of producers by one commit: True commits one, False aborts it.

        Returns the error of each: TransactionAbortedError for one that was aborted, and ProducerFencedError if another
        producer took over the id; its text states whether the transaction was aborted, or may have been committed by
        an earlier call. One that has already ended stays as it is. Raises OutcomeUnknownError and StorageError if the
        store failed; then call it again.
        """
        ending = [(self._ending(producer_id), is_commit) for producer_id, is_commit in asked]
        results: list[LogStoreError | None] = []

        def propose(state: State) -> EndChange | None:
            ends = [_end_of(state, producer, is_commit=is_commit) for producer, is_commit in ending]
            results[:] = [each if isinstance(each, LogStoreError) else None for each in ends]
            proposed = [each for each in ends if isinstance(each, TransactionEnd)]
            return EndChange(proposed) if proposed else None

        try:
            self._log.commit(propose)
        except OutcomeUnknownError:
            for producer, _ in ending:
                if producer is not None:
                    producer.may_have_ended = True
            raise
        for (producer, _), error in zip(ending, results, strict=True):
            if producer is not None:
                self._ended(producer, error)
        return [error if is_commit else None for error, (_, is_commit) in zip(results, asked, strict=True)]

    def _ending(self, producer_id: int) -> _Producer | None:
        """Returns a producer and stops additions to its transaction; None if there is no such producer."""
        with self._changed:
            producer = self._producers.get(producer_id)
            if producer is not None:
                producer.is_ending = True
                self._changed.wait_for(lambda: producer.adding == 0)
            return producer

    def _ended(self, producer: _Producer, error: LogStoreError | None) -> None:
        if error is not None:
            if not producer.may_have_ended:  # otherwise the next call would take it for aborted
                self.forget(producer.transactional_id)
            return
        with self._changed:
            transaction = producer.transaction
            if producer.may_have_some:
                producer.transaction = transaction._replace(version=transaction.version + 1)
            producer.may_have_some = producer.is_ending = producer.may_have_ended = False

    def abort_all(self) -> None:
        """Aborts open transactions before this process ends, as far as the store allows. Others abort the rest."""
        try:
            self.end([(producer_id, False) for producer_id in list(self._producers)])
        except (LogStoreError, OSError) as error:
            logger.warning("open transactions were not aborted, and will be when they time out: %s", error)


def _refusal(state: State, opened: ClientTransaction | LogStoreError) -> LogStoreError | None:
    """Returns the reason why nothing can be added to a transaction; None if it is open."""
    if isinstance(opened, LogStoreError):
        return opened
    problem = problem_of(state, *opened[:3])
    return InvalidProducerEpochError(f"the transaction is not open any more: {problem}") if problem else None


def _end_of(state: State, producer: _Producer | None, *, is_commit: bool) -> TransactionEnd | LogStoreError | None:
    """Proposes the end of a producer's transaction; None if it has ended, or is empty.

    The error if another producer has taken over its id, which aborts it unless it has ended before. An addition without
    an answer must not arrive after the end, so the end is then proposed even if the state has nothing: it takes the
    commit number.
    """
    if producer is None:
        return TransactionAbortedError("the producer has no open transaction here: it was aborted")
    app, epoch, version = producer.transaction[:3]
    known = state.apps.get(app)
    has_ended = known is not None and known.version is not None and known.version >= version
    if known is None or known.epoch != epoch:
        if has_ended and producer.may_have_ended:  # here or by the other producer, whose versions begin at the same one
            return ProducerFencedError(
                f"app {app!r}: another producer took over after the end of the transaction had got no answer, so it is "
                "unknown whether the transaction was committed; readers of committed records show it"
            )
        return ProducerFencedError(f"app {app!r}: another producer took over, and the transaction was aborted")
    return None if has_ended or not producer.may_have_some else TransactionEnd(app, epoch, version, is_commit)


def give_up(state: State, transaction: ClientTransaction) -> OpenChange | None:
    """Proposes to abort a transaction that is not ended in time, and fences its producer; None if it has ended."""
    opened = state.open.get(transaction.app)
    if opened is None or opened.transaction != transaction:
        return None
    return OpenChange(transaction.app, transaction.epoch + 1)


def give_up_producer(state: State, producer_id: int) -> OpenChange | None:
    """Like :func:`give_up`, for the open transaction of a producer; None if there is none."""
    found = [each.transaction for each in state.open.values() if each.transaction.producer_id == producer_id]
    return give_up(state, found[0]) if found else None


def _run_of(producer: Producer) -> str:
    """Returns the log's entry about the producer that last took over an id."""
    return f"{producer.id}/{producer.epoch}"
