"""The state of one producer: its epoch, its latest batches and its open transaction; and changes of that state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from ..format import v2
from ..format.constants import (
    CONTROL_MASK,
    INT32_MAX,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
)
from ..format.files.checkpoints import ProducerEntry
from ..format.files.index_entries import AbortedTxn
from ..format.tables import last_sequence

BATCHES_CACHED: Final = 5  # the most that a producer may have in flight (max.in.flight.requests.per.connection)
NO_COORDINATOR_EPOCH: Final = -1
PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000  # producer.id.expiration.ms: one day
EXPIRATION_CHECK_INTERVAL_MS: Final = 600_000  # producer.id.expiration.check.interval.ms: ten minutes


class Origin(Enum):
    """Who appends, which determines what is checked (Kafka's AppendOrigin)."""

    CLIENT = "client"  # checks epochs and sequences
    COORDINATOR = "coordinator"  # checks epochs: offset commits and markers
    REPLICATION = "replication"  # no checks: a leader, or in recovery this log, has accepted the batch before
    RAFT_LEADER = "raft leader"  # checks epochs


class Producer(NamedTuple):
    """A producer id and epoch."""

    id: int
    epoch: int


class Marker(NamedTuple):
    """The content of a transaction marker."""

    is_commit: bool  # otherwise an abort
    coordinator_epoch: int
    timestamp: int  # ms, of the record


class ProducerBatch(NamedTuple):
    """One of the latest batches of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int  # records, less one
    timestamp: int  # ms, the largest of the batch

    @property
    def first_sequence(self) -> int:
        if self.last_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) % (INT32_MAX + 1)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducedBatch(NamedTuple):
    """A batch: the fields of a row of BatchHeaders that concern producers."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    attributes: int

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)

    @property
    def last_sequence(self) -> int:
        return last_sequence(self.base_sequence, self.last_offset - self.base_offset)

    @property
    def remembered(self) -> ProducerBatch:
        """The part of the batch that its producer's state keeps."""
        return ProducerBatch(
            self.last_sequence, self.last_offset, self.last_offset - self.base_offset, self.max_timestamp
        )

    def __str__(self) -> str:
        return f"producer {self.producer_id}, epoch {self.producer_epoch}, batch at offset {self.base_offset}"


def produced_batch(header: v2.Header, base_offset: int) -> ProducedBatch:
    """Returns the fields of a batch that concern producers, for ``base_offset`` in the log."""
    return ProducedBatch(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        base_offset,
        base_offset + header.last_offset_delta,
        header.max_timestamp,
        header.attributes,
    )


class ProducerState(NamedTuple):
    """The state of one producer (Kafka's ProducerStateEntry); immutable."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP  # ms, of the last batch or marker
    current_txn_first_offset: int = NO_OFFSET  # of the open transaction
    batches: tuple[ProducerBatch, ...] = ()  # the batches of this epoch, at most the last five, newest last

    @property
    def last_sequence(self) -> int:
        """The last sequence number of this epoch; -1 if the epoch has no batches."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The last offset of the last data batch of this epoch; -1 if the epoch has no batches."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def in_transaction(self) -> bool:
        return self.current_txn_first_offset != NO_OFFSET

    @classmethod
    def from_entry(cls, entry: ProducerEntry) -> ProducerState:
        batch = ProducerBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
        return cls(
            producer_id=entry.producer_id,
            epoch=entry.producer_epoch,
            coordinator_epoch=entry.coordinator_epoch,
            last_timestamp=entry.timestamp,
            current_txn_first_offset=entry.current_txn_first_offset,
            batches=(batch,) if entry.last_offset >= 0 else (),
        )

    def to_entry(self) -> ProducerEntry:
        return ProducerEntry(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            last_sequence=self.last_sequence,
            last_offset=self.last_offset,
            offset_delta=self.batches[-1].offset_delta if self.batches else 0,
            timestamp=self.last_timestamp,
            coordinator_epoch=self.coordinator_epoch,
            current_txn_first_offset=self.current_txn_first_offset,
        )

    def next_sequence(self, epoch: int) -> int:
        """The sequence number of the next batch of ``epoch``: 0 if the producer wrote none in it."""
        last = self.last_sequence if self.epoch == epoch else NO_SEQUENCE
        return 0 if last == INT32_MAX else last + 1

    def may_go_on(self, epoch: int, sequence: int, *, transactional: bool = False) -> bool:
        """Whether a batch follows the last one of the same epoch, or is the producer's first.

        ``transactional``: it is part of a transaction, which it may begin; plain batches are not allowed while one is
        open.
        """
        if self.epoch == NO_PRODUCER_EPOCH:
            return True
        is_next = epoch == self.epoch and sequence == self.next_sequence(epoch)
        return is_next and (transactional or not self.in_transaction)

    def batches_with(self, epoch: int, *newest: ProducerBatch) -> tuple[ProducerBatch, ...]:
        """The latest batches of ``epoch`` once this producer has written ``newest`` with it, in their order."""
        kept = self.batches if self.epoch == epoch else ()
        return (*kept, *newest)[-BATCHES_CACHED:]

    def is_earlier(self, epoch: int, last_offset: int) -> bool:
        """Whether a batch of this producer is older than the known ones of the same epoch."""
        return epoch == self.epoch and bool(self.batches) and last_offset < self.batches[0].last_offset

    def find(self, first_sequence: int, last_sequence: int) -> ProducerBatch | None:
        """The batch with these sequence numbers, among the last five; None if there is no such batch."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the marker
    aborted: bool
    last_stable_offset: int  # at the time of appending the marker

    @property
    def index_entry(self) -> AbortedTxn:
        """The entry for ``.txnindex``, if the transaction was aborted."""
        return AbortedTxn(self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


@dataclass(frozen=True)
class ProducerUpdate:
    """How batches change the state of the producers (:meth:`ProducerStateManager.prepare`)."""

    map_end_offset: int
    states: Mapping[int, ProducerState]  # new states by producer id
    ongoing: dict[int, int]  # transactions that will be open: producer ids by first offset; not to be modified
    completed: tuple[CompletedTxn, ...]  # in the order of their markers
    duplicate: ProducerBatch | None  # the batch in the log that these batches repeat; then nothing is written
