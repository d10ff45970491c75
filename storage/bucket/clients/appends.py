"""Appends of clients: batches of several clients, put as one object and added by one commit.

A batch stays as its client sent it, with producer and sequences, so that its checksum stays right; only base offset and
leader epoch are set. A batch of a transaction loses its producer and its transactional attribute, and gets a new
checksum: commits record the outcome of transactions, and a broker that reads the segment must not wait for a marker.

Each batch is checked again (whether it is a repetition, or refused) on the state that the commit follows. If the result
differs, because another writer was faster, the batches are put again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from ...clock import Clock, SystemClock
from ...errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    LogStoreError,
    UnknownTopicOrPartitionError,
    UnsupportedForMessageFormatError,
)
from ...format import v2
from ...format.constants import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
)
from ...format.tables import Int64s
from ...recovery.producer_state import Origin, produced_batch
from ...recovery.producer_state_manager import ProducerStateManager
from ...writing.append_info import AppendInfo, repeated_append
from ...writing.checks.batches import analyze, validate_and_assign_offsets
from ...writing.checks.checked_batch import CheckedBatch
from ..commit_log import CommitLog
from ..commits.commit import POSITION, ClientTransaction, DataChange, PartitionSlices, StagedObject
from ..commits.state import State
from ..commits.transactions import problem_of
from ..filler import empty_batch
from ..proposals import check_copied
from ..staged_objects import FilledSlice, encode_object, rows_of
from ..staging import check_fits_put

Key = tuple[str, int]  # topic id, partition
Result = AppendInfo | LogStoreError


class ClientBatch(NamedTuple):
    """A batch for a partition; it was checked with the settings of its topic."""

    topic_id: str
    partition: int
    batch: CheckedBatch
    transaction: ClientTransaction | None = None  # that the batch is in


class ReadyBatch(NamedTuple):
    """One batch of magic 2, ready to be put except for base offset and leader epoch."""

    key: Key
    data: memoryview
    header: v2.Header  # has the producer, even if the data of a transaction has none
    log_append_time_ms: int
    transaction: ClientTransaction | None = None

    @property
    def records(self) -> int:
        return self.header.last_offset_delta + 1


class _Planned(NamedTuple):
    """The content of a commit that follows a certain state."""

    results: list[Result | None]  # the result of each batch; None: there was nothing to append
    written: list[int]  # the batches that are added, by their index

    @property
    def has_refusals(self) -> bool:
        return any(isinstance(each, Exception) for each in self.results)


def append_batches(log: CommitLog, batches: Sequence[ClientBatch], clock: Clock | None = None) -> list[Result]:
    """Appends batches in turn, by one commit; returns the result of each, or the error that refuses it.

    All are visible on return. Together they fit into ``STAGED_BYTES_MAX``, unless there is only one. Raises
    ObjectStoreError if the store cannot be reached, OutcomeUnknownError if it did not answer: then the batches may be
    in the log, or appear later, and a producer with sequences can send them again.
    """
    now_ms, has_looked = (clock or SystemClock()).now_ms(), False
    ready = [_prepared(each, now_ms) for each in batches]
    while True:
        with log.reading() as state:
            planned = _plan(state, ready)
        if not (planned.written or has_looked) and planned.has_refusals:
            log.catch_up()  # earlier batches of a producer may have come through another process
            has_looked = True
            continue
        if planned.written:
            done = _commit(log, ready, planned)
            if done is None:
                continue
            planned = done
        pairs = zip(planned.results, batches, strict=True)
        return [_nothing(log, each) if result is None else result for result, each in pairs]


def _nothing(log: CommitLog, batch: ClientBatch) -> AppendInfo:
    found = log.state.partitions.get((batch.topic_id, batch.partition))
    end = 0 if found is None else found.end
    return AppendInfo(end, end - 1, NO_TIMESTAMP, NO_TIMESTAMP, 0)


# Before anything is put


def _prepared(client: ClientBatch, now_ms: int) -> ReadyBatch | LogStoreError | None:
    """Returns a batch ready to be put, or the error that refuses it; None for a set without a whole message."""
    key, batch = (client.topic_id, client.partition), client.batch
    try:
        if batch.header is not None and batch.may_stay(batch.config, now_ms):
            found: ReadyBatch | None = ReadyBatch(key, batch.data, batch.header, NO_TIMESTAMP)
        else:
            found = _rewritten(key, batch, now_ms)
        if found is not None:
            _check(found, transactional=client.transaction is not None)
        return found if found is None or client.transaction is None else _in(client.transaction, found)
    except LogStoreError as error:
        return error


def _in(transaction: ClientTransaction, ready: ReadyBatch) -> ReadyBatch:
    """Returns a batch of a transaction; its data does not mention the transaction."""
    header = ready.header._replace(attributes=ready.header.attributes & ~TRANSACTIONAL_MASK)
    bare = header._replace(producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE)
    data = memoryview(b"".join(v2.produced(ready.data, bare)))
    return ready._replace(data=data, header=header, transaction=transaction)


def _rewritten(key: Key, batch: CheckedBatch, now_ms: int) -> ReadyBatch | None:
    """Returns a batch changed to the topic's rules: with other times, another codec, or in a newer format."""
    buffer = np.frombuffer(batch.data, np.uint8)
    analysis = analyze(buffer, Origin.CLIENT, batch.config)
    if not analysis.valid_bytes:
        return None
    found = validate_and_assign_offsets(
        buffer[: analysis.valid_bytes],
        analysis,
        start_offset=0,
        now_ms=now_ms,
        leader_epoch=0,
        origin=Origin.CLIENT,
        config=batch.config,
    )
    if len(found.headers) != 1 or found.headers.table["magic"][0] != v2.MAGIC:
        raise UnsupportedForMessageFormatError(
            "a log on an object store has batches of magic 2 only: reset the topic's message.format.version"
        )
    return ReadyBatch(
        key, found.buffer[: found.headers.end].data, v2.header_of(found.headers), found.log_append_time_ms
    )


def _check(ready: ReadyBatch, *, transactional: bool) -> None:
    if bool(ready.header.attributes & TRANSACTIONAL_MASK) != transactional:
        raise InvalidTxnStateError("a batch is in a transaction if its attributes say so, and in none otherwise")
    check_fits_put(len(ready.data))


# The batches to add, after a certain state


class _Partition:
    """The state of a partition including the batches planned so far."""

    def __init__(self, state: State, key: Key) -> None:
        found = state.partitions.get(key)
        if found is None:
            raise UnknownTopicOrPartitionError(f"partition {key[1]} of topic id {key[0]} is not there any more")
        check_copied(state, key)
        self.end = found.end
        self._key, self._known = key, state.producers
        self._producers = ProducerStateManager(f"{state.topics[key[0]].name}-{key[1]}")

    def add(self, ready: ReadyBatch) -> AppendInfo:
        """Adds a batch, unless its producer repeats it. Raises the errors of :meth:`ProducerStateManager.prepare`."""
        batch = produced_batch(ready.header, self.end)
        known = self._known.get((*self._key, batch.producer_id))
        if known is not None and self._producers.last_entry(batch.producer_id) is None:
            self._producers.put(known)
        update = self._producers.prepare_batch(batch)
        if update.duplicate is not None:
            return repeated_append([update.duplicate])
        self._producers.apply(update)
        self.end += ready.records
        return AppendInfo(
            batch.base_offset, batch.last_offset, batch.max_timestamp, ready.log_append_time_ms, len(ready.data)
        )


def _check_open(state: State, transaction: ClientTransaction | None) -> None:
    """Raises InvalidProducerEpochError if a transaction has ended, or another producer has taken over its id."""
    if transaction is not None and (problem := problem_of(state, *transaction[:3])):
        raise InvalidProducerEpochError(f"the transaction is not open any more: {problem}")


def _plan(state: State, ready: Sequence[ReadyBatch | LogStoreError | None]) -> _Planned:
    planned, partitions = _Planned([], []), dict[Key, _Partition]()
    for index, each in enumerate(ready):
        result: Result | None
        if not isinstance(each, ReadyBatch):
            result = each
        else:
            try:
                _check_open(state, each.transaction)
                if each.key not in partitions:
                    partitions[each.key] = _Partition(state, each.key)
                result = partitions[each.key].add(each)
            except LogStoreError as error:
                result = error
            else:
                if not result.duplicate:
                    planned.written.append(index)
        planned.results.append(result)
    return planned


# Putting and committing


def _commit(log: CommitLog, ready: Sequence[ReadyBatch | LogStoreError | None], planned: _Planned) -> _Planned | None:
    """Puts the batches and commits them; returns the content of the commit, or None if others' commits changed it."""
    write, done = uuid4().hex, planned
    added = [each for index in planned.written if isinstance(each := ready[index], ReadyBatch)]
    slices = _slices_of(added)
    data = encode_object(write, [part for each in slices for part in each.parts])
    staged = StagedObject(0, 0, 0, len(data))
    log.patient_store.put_unique(staged.key(write), data)

    def propose(state: State) -> DataChange | None:
        nonlocal done
        done = _plan(state, ready)
        if done.written != planned.written or write in state.void:
            return None
        transactions = list(dict.fromkeys(each.transaction for each in slices if each.transaction is not None))
        return DataChange(write, [staged], _parts(state, slices, added, transactions), transactions=transactions)

    return None if log.commit(propose) is None else done


class _Slice(NamedTuple):
    """Adjacent batches of one partition, in one transaction or in none."""

    key: Key
    transaction: ClientTransaction | None
    filled: FilledSlice

    @property
    def parts(self) -> list[tuple[Key, FilledSlice]]:
        """The parts to put: each slice of a transaction is followed by the slice that replaces it after an abort."""
        if self.transaction is None:
            return [(self.key, self.filled)]
        empty = empty_batch(self.filled.records)
        return [(self.key, self.filled), (self.key, FilledSlice([empty], [len(empty)], self.filled.records))]


def _slices_of(added: Sequence[ReadyBatch]) -> list[_Slice]:
    """Returns the slices of batches; those of a partition are in the order of its offsets."""
    slices, last = list[_Slice](), dict[Key, _Slice]()
    for each in added:
        into = last.get(each.key)
        if into is None or into.transaction != each.transaction:
            into = last[each.key] = _Slice(each.key, each.transaction, FilledSlice())
            slices.append(into)
        filled = into.filled
        filled.parts.append(b"".join(v2.placed(each.data, filled.records, 0)))
        filled.sizes.append(len(each.data))
        filled.records += each.records
        filled.max_timestamp = max(filled.max_timestamp, each.header.max_timestamp)
    return slices


def _parts(
    state: State, slices: Sequence[_Slice], added: Sequence[ReadyBatch], transactions: Sequence[ClientTransaction]
) -> list[PartitionSlices]:
    rows, at = dict[Key, list[tuple[list[int], int]]](), 0
    for each in slices:
        (_, row), *_ = rows_of(each.parts, 0)
        row[POSITION] += at
        at += sum(part.size for _, part in each.parts)
        number = -1 if each.transaction is None else transactions.index(each.transaction)
        rows.setdefault(each.key, []).append((row, number))
    return [
        PartitionSlices(
            *key,
            state.partitions[key].end,
            np.array([row for row, _ in found], np.int64),
            _producers([ready for ready in added if ready.key == key]),
            [number for _, number in found] if any(number >= 0 for _, number in found) else (),
        )
        for key, found in rows.items()
    ]


def _producers(added: Sequence[ReadyBatch]) -> Int64s | None:
    """Returns the batches of idempotent producers among those of a partition; None if there are none."""
    rows, first = list[list[int]](), 0
    for each in added:
        head = each.header
        if head.producer_id != NO_PRODUCER_ID:
            rows.append(
                [head.producer_id, head.producer_epoch, head.base_sequence, first, each.records, head.max_timestamp]
            )
        first += each.records
    return np.array(rows, np.int64) if rows else None
