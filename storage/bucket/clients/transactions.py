"""StagedTransactions: what transactional producers write, put at once and named by one commit when they commit it.

Nothing of an open transaction is in the log: it has no offsets yet, and there are no markers. To abort is to name
nothing. A transaction lives in the memory of its process; if that ends, the transaction is aborted. A transactional id
is an app of the log: to begin with it is a commit, after which other processes cannot commit for the id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition
from uuid import uuid4

import numpy as np

from ...clock import Clock, SystemClock
from ...errors import (
    InvalidTxnStateError,
    LogStoreError,
    ProducerFencedError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from ...format import v2
from ...format.constants import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TRANSACTIONAL_MASK
from ...recovery import ProducerState, ProducerStateManager
from ...writing import AppendInfo, Producer, produced_batch, repeated_append
from ..commit_log import CommitLog
from ..commits.commit import GroupOffset, StagedObject
from ..proposals import Claim, StagedWrite, claim_app, commit_write
from ..staged_objects import encode_object, rows_of
from ..staging import put_staged
from .appends import ClientBatch, Key, ReadyBatch, Result, prepared, slices_of

APP_PREFIX = "__transaction."  # and the transactional id: the name of its app
LOST = (ProducerFencedError, TransactionAbortedError, UnknownTopicOrPartitionError)  # then it can never be committed


@dataclass
class _Transaction:
    """What was staged since the last end."""

    write: str = field(default_factory=lambda: uuid4().hex)
    objects: list[StagedObject] = field(default_factory=list)
    tried: int = 0  # objects that were put, also without success: their names are not used again
    rows: dict[Key, list[list[int]]] = field(default_factory=lambda: defaultdict(list))
    offsets: dict[str, dict[str, GroupOffset | None]] = field(default_factory=lambda: defaultdict(dict))
    is_ending: bool = False


@dataclass
class _Producer:
    """A producer with its transactional id, and the open transaction."""

    transactional_id: str
    claim: Claim
    version: int  # of the app: the number of its next transaction
    open: _Transaction = field(default_factory=_Transaction)
    putting: int = 0  # appends that are under way, and checks of them
    known: dict[Key, ProducerState] = field(default_factory=dict)  # sequences; offsets count its own records
    ends: dict[Key, int] = field(default_factory=lambda: defaultdict(int))


class StagedTransactions:
    """The open transactions of one process. For any thread; appends of one producer come from one thread."""

    def __init__(self, log: CommitLog, clock: Clock | None = None) -> None:
        self._log, self._clock = log, clock or SystemClock()
        self._producers: dict[int, _Producer] = {}
        self._changed = Condition()

    def begin(self, transactional_id: str, producer: Producer, after: Producer | None = None) -> None:
        """Takes over an id for a producer: what earlier ones staged, here or elsewhere, is never committed.

        ``after``: the producer whose client goes on as ``producer``. Raises ProducerFencedError if another one has
        taken over the id since then, and as :meth:`CommitLog.commit`.
        """
        app, run = APP_PREFIX + transactional_id, _run_of(producer)
        known = None if after is None else (_run_of(after), run)  # the second one: the answer to it was lost
        claim = claim_app(self._log, app, None, run, known)
        last = self._log.state.apps[app].version
        with self._changed:
            for other, each in list(self._producers.items()):
                if each.transactional_id == transactional_id:
                    del self._producers[other]
            self._producers[producer.id] = _Producer(transactional_id, claim, 0 if last is None else last + 1)

    def forget(self, transactional_id: str) -> None:
        """Aborts what an id has open, and forgets its producer."""
        with self._changed:
            for producer_id, each in list(self._producers.items()):
                if each.transactional_id == transactional_id:
                    del self._producers[producer_id]

    # In a transaction

    @contextmanager
    def held(self, producer_id: int) -> Iterator[None]:
        """Lets no transaction of a producer end within the block: neither after a check, nor before what it allows."""
        with self._changed:
            producer = self._producers.get(producer_id)
            if producer is not None:
                producer.putting += 1
        try:
            yield
        finally:
            if producer is not None:
                self._done_putting(producer)

    def _done_putting(self, producer: _Producer) -> None:
        with self._changed:
            producer.putting -= 1
            self._changed.notify_all()

    def append(self, producer_id: int, batches: Sequence[ClientBatch]) -> list[Result]:
        """Puts batches of a producer's open transaction; returns the result of each, whose offsets are not known: -1.

        Raises InvalidTxnStateError if the transaction is ending or there is no such producer, and ObjectStoreError.
        """
        with self._changed:
            producer = self._open(producer_id)
            producer.putting += 1
        try:
            return self._append(producer, batches)
        finally:
            self._done_putting(producer)

    def _append(self, producer: _Producer, batches: Sequence[ClientBatch]) -> list[Result]:
        now_ms = self._clock.now_ms()
        planned = _Planned(producer)
        results = [planned.add(prepared(each, now_ms, transactional=True)) for each in batches]
        if planned.added:
            self._put(producer, planned.added)
            producer.known |= planned.known
            producer.ends |= planned.ends
        return results

    def _put(self, producer: _Producer, added: Sequence[ReadyBatch]) -> None:
        opened, slices = producer.open, slices_of(added)
        data = encode_object(opened.write, slices)
        staged = StagedObject(0, 0, opened.tried, len(data))
        opened.tried += 1
        put_staged(self._log.store, staged.key(opened.write), data, self._log.attempts())
        for key, row in rows_of(slices, len(opened.objects)):
            opened.rows[key].append(row)
        opened.objects.append(staged)

    def add_offsets(self, producer_id: int, group: str, offsets: Mapping[str, GroupOffset]) -> None:
        """Adds offsets of a group, by partition, to a producer's open transaction. Raises InvalidTxnStateError."""
        with self._changed:
            self._open(producer_id).open.offsets[group].update(offsets)

    def undecided(self, group: str) -> set[str]:
        """Returns the partitions in which open transactions have offsets of a group."""
        with self._changed:
            return {name for each in self._producers.values() for name in each.open.offsets.get(group, ())}

    def _open(self, producer_id: int) -> _Producer:
        found = self._producers.get(producer_id)
        if found is None:
            raise InvalidTxnStateError(f"producer {producer_id} has no transactional id here")
        if found.open.is_ending:
            raise InvalidTxnStateError(f"producer {producer_id}: the transaction is being ended")
        return found

    # Ending one

    def commit(self, producer_id: int) -> None:
        """Commits what a producer staged, all at one instant; may be called again after an error that is not final.

        Nothing happens if it was committed already. Raises one of :data:`LOST` if it can never be committed: it is
        aborted then. Raises OutcomeUnknownError and StorageError if the store failed.
        """
        producer = self._ending(producer_id)
        opened = producer.open
        if opened.objects or opened.offsets:
            slices = {key: np.array(rows, np.int64) for key, rows in opened.rows.items()}
            offsets = {group: dict(found) for group, found in opened.offsets.items()}
            staged = StagedWrite(opened.write, opened.objects, slices, producer.claim, producer.version, offsets)
            try:
                self._log.commit(lambda state: commit_write(state, staged))
            except LOST:
                self.forget(producer.transactional_id)
                raise
        with self._changed:
            producer.version += 1
            producer.open = _Transaction()

    def abort(self, producer_id: int) -> None:
        """Drops what a producer staged; nothing happens if there is no such producer."""
        if producer_id in self._producers:
            producer = self._ending(producer_id)
            with self._changed:
                producer.open = _Transaction()

    def _ending(self, producer_id: int) -> _Producer:
        """Returns a producer whose transaction nothing is added to any more."""
        with self._changed:
            producer = self._producers.get(producer_id)
            if producer is None:
                raise TransactionAbortedError(f"producer {producer_id} has no open transaction here: it was aborted")
            producer.open.is_ending = True
            self._changed.wait_for(lambda: producer.putting == 0)
            return producer


def _run_of(producer: Producer) -> str:
    """Returns what the log says of the producer that took over an id last."""
    return f"{producer.id}/{producer.epoch}"


class _Planned:
    """The batches that are to be put, and the sequences after them."""

    def __init__(self, producer: _Producer) -> None:
        self.added: list[ReadyBatch] = []
        self.known: dict[Key, ProducerState] = {}
        self.ends: dict[Key, int] = {}
        self._producer = producer

    def add(self, ready: ReadyBatch | LogStoreError | None) -> Result:
        """Returns what a batch is answered with."""
        if ready is None:
            return AppendInfo(-1, -2, -1, -1, 0)
        if isinstance(ready, LogStoreError):
            return ready
        try:
            return self._add(ready)
        except LogStoreError as error:
            return error

    def _add(self, ready: ReadyBatch) -> Result:
        header, key = ready.header._replace(attributes=ready.header.attributes & ~TRANSACTIONAL_MASK), ready.key
        end = self.ends.get(key, self._producer.ends[key])
        sequences = ProducerStateManager(f"partition {key[1]}")
        known = self.known.get(key) or self._producer.known.get(key)
        if known is not None:
            sequences.put(known)
        update = sequences.prepare_batch(produced_batch(header, end))
        if update.duplicate is None:
            self.known[key], self.ends[key] = update.states[header.producer_id], end + ready.records
            self.added.append(_without_producer(ready, header))
            info = AppendInfo(0, ready.records - 1, header.max_timestamp, ready.log_append_time_ms, len(ready.data))
        else:
            info = repeated_append([update.duplicate])
        return info._replace(first_offset=-1, last_offset=info.last_offset - info.first_offset - 1)


def _without_producer(ready: ReadyBatch, header: v2.Header) -> ReadyBatch:
    """Returns a batch as one of no transaction: a broker that reads its segment must not wait for a marker."""
    header = header._replace(producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE)
    data = memoryview(b"".join(v2.produced(ready.data, header)))
    return ready._replace(data=data, header=v2.read_header(data))
