"""ProducerStateManager: the latest batches of each producer, and the open transactions.

The state reveals retries, by the sequence numbers of a producer's last five batches; it fences older producers, by
their epoch; and it limits how far readers of committed records may read.

It changes in two steps, so that a failed append has no effect: :meth:`ProducerStateManager.prepare` checks batches
against the state and returns the change; :meth:`ProducerStateManager.apply` makes the change, once the batches are in
the log. The coordinator, not this class, verifies transactions (KIP-890).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from ..errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from ..format.constants import (
    CONTROL_MASK,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
)
from ..format.files.checkpoints import ProducerEntry, encode_snapshot
from ..format.tables import HEADERS, BatchHeaders, Int64s
from .producer_state import (
    BATCHES_CACHED,
    PRODUCER_ID_EXPIRATION_MS,
    CompletedTxn,
    Marker,
    Origin,
    ProducedBatch,
    ProducerBatch,
    ProducerState,
    ProducerUpdate,
)

_FEW_BATCHES: Final = 4 * BATCHES_CACHED  # for so few batches, processing each is quicker than filtering

logger = logging.getLogger(__name__)


_FIELDS_OF_ROW = itemgetter(*map((HEADERS.names or ()).index, ProducedBatch._fields))


class ProducerStateManager:
    """The state of all producers of one partition. Only a thread that holds the log's lock may use it."""

    def __init__(
        self,
        partition: str = "",
        *,
        map_end_offset: int = 0,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> None:
        """Begins without producers. ``partition`` is the partition's name in errors."""
        self.partition = partition
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.is_partial = False  # damage hides some of what producers did
        self.reset(map_end_offset)

    def reset(self, map_end_offset: int) -> None:
        """Forget all producers, as for a log that begins at ``map_end_offset``."""
        self.map_end_offset = map_end_offset  # the state covers the log below this offset
        self._producers: dict[int, ProducerState] = {}
        self._ongoing: dict[int, int] = {}  # producer id by first offset, ascending; replaced, never modified
        self._unreplicated: dict[int, int] = {}  # offset of the marker by first offset; not ascending

    def put(self, state: ProducerState) -> None:
        """Replaces the state of one producer, which has no open transaction."""
        self._producers[state.producer_id] = state

    @property
    def producers(self) -> Mapping[int, ProducerState]:
        """The state of each producer by producer id; a view that changes with the state."""
        return MappingProxyType(self._producers)

    @property
    def ongoing(self) -> Mapping[int, int]:
        """The producer ids of open transactions by first offset, ascending; a view that changes with the state."""
        return MappingProxyType(self._ongoing)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is open or has ended above the high watermark.

        None if there is no such transaction.
        """
        unstable = [*self._unreplicated, *self._first_ongoing()]
        return min(unstable) if unstable else None

    def last_entry(self, producer_id: int) -> ProducerState | None:
        """The state of a producer; None if it is unknown."""
        return self._producers.get(producer_id)

    def prepare(
        self, headers: BatchHeaders, origin: Origin, markers: Mapping[int, Marker] = MappingProxyType({})
    ) -> ProducerUpdate:
        """Returns how the batches would change the state; changes nothing.

        ``headers`` contain the offsets that the batches will have. ``markers`` are the records of commit and abort
        batches by the base offset of the batch; a control batch without one (it is empty, or of another kind) changes
        nothing.

        Raises InvalidProducerEpochError for an epoch older than the known one, OutOfOrderSequenceError (CLIENT only)
        for a gap in the sequences, InvalidTxnStateError for a plain write of a producer with an open transaction, and
        TransactionCoordinatorFencedError for a marker from an older coordinator; with REPLICATION, none of these.
        """
        end_offset = headers.next_offset if len(headers) else self.map_end_offset
        return self._prepare(_batches_with_producer(headers, origin), end_offset, origin, markers)

    def prepare_batch(self, batch: ProducedBatch, marker: Marker | None = None) -> ProducerUpdate:
        """Does what :meth:`prepare` does, for one batch: a client's, or a coordinator's with that ``marker``."""
        batches = [batch] if batch.producer_id > NO_PRODUCER_ID else []
        if marker is None:
            return self._prepare(batches, batch.last_offset + 1, Origin.CLIENT, MappingProxyType({}))
        return self._prepare(batches, batch.last_offset + 1, Origin.COORDINATOR, {batch.base_offset: marker})

    def prepared(
        self, states: Mapping[int, ProducerState], end_offset: int, begun: Mapping[int, int] = MappingProxyType({})
    ) -> ProducerUpdate:
        """Returns the change to ``states``, which the caller has worked out.

        ``begun``: the producers of transactions that begin, by their first offsets, ascending.
        """
        ongoing = {**self._ongoing, **begun} if begun else self._ongoing
        return ProducerUpdate(end_offset, states, ongoing, (), None)

    def _prepare(
        self, batches: Iterable[ProducedBatch], end_offset: int, origin: Origin, markers: Mapping[int, Marker]
    ) -> ProducerUpdate:
        change = _Change(self, origin)
        for batch in batches:
            duplicate = None if origin is not Origin.CLIENT or batch.is_control else self._find_duplicate(batch)
            if duplicate is not None:
                return ProducerUpdate(self.map_end_offset, {}, self._ongoing, (), duplicate)
            if not batch.is_control:
                change.write(batch)
            elif batch.base_offset in markers:
                change.end(batch, markers[batch.base_offset])
        return ProducerUpdate(end_offset, change.states, change.ongoing, tuple(change.completed), None)

    def apply(self, update: ProducerUpdate) -> None:
        """Make a change that :meth:`prepare` returned. The batches are in the log, and no other change was made since.

        A transaction that ended counts for the first unstable offset until the high watermark is above its marker.
        """
        self._producers.update(update.states)
        self._ongoing = update.ongoing
        self._unreplicated.update((txn.first_offset, txn.last_offset) for txn in update.completed)
        self.map_end_offset = update.map_end_offset

    def replay(
        self, headers: BatchHeaders, markers: Mapping[int, Marker] = MappingProxyType({})
    ) -> tuple[CompletedTxn, ...]:
        """Update the state by batches that are already in the log; returns the transactions that end in them."""
        update = self.prepare(headers, Origin.REPLICATION, markers)
        self.apply(update)
        return update.completed

    def recall(self, headers: Iterable[BatchHeaders]) -> None:
        """Adds the batches in ``headers``, ascending, that are older than those of a loaded snapshot; at most five.

        Only the answers to repeated batches change by that.
        """
        earlier: dict[int, list[ProducerBatch]] = {}
        for each in headers:
            for batch in _batches_with_producer(each, Origin.REPLICATION):
                known = self._producers.get(batch.producer_id)
                if known and known.is_earlier(batch.producer_epoch, batch.last_offset) and not batch.is_control:
                    earlier.setdefault(batch.producer_id, []).append(batch.remembered)
        for producer_id, found in earlier.items():
            known = self._producers[producer_id]
            batches = (*found, *known.batches)[-BATCHES_CACHED:]
            self._producers[producer_id] = known._replace(batches=batches)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Count transactions as stable if their marker is below ``high_watermark``."""
        self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}

    def on_log_start_offset_increased(self, log_start_offset: int) -> None:
        """Forget ended transactions whose marker is below ``log_start_offset`` and so no longer in the log."""
        self.on_high_watermark(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def remove_expired(self, now_ms: int) -> list[int]:
        """Forget the producers that have expired at ``now_ms`` (ms since the epoch); returns their ids.

        A producer expires if it has no open transaction and wrote nothing for the expiration time.
        """
        expired = [state.producer_id for state in self._producers.values() if self._is_expired(state, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        return expired

    def active(self, now_ms: int) -> dict[int, ProducerState]:
        """The producers that have not expired at ``now_ms``, by producer id (Kafka's activeProducers)."""
        return {key: state for key, state in self._producers.items() if not self._is_expired(state, now_ms)}

    def entries(self) -> list[ProducerEntry]:
        """The entries for a snapshot at ``map_end_offset``."""
        return [state.to_entry() for state in self._producers.values()]

    def to_bytes(self) -> bytes:
        """The content of the ``.snapshot`` at ``map_end_offset``."""
        return encode_snapshot(self.entries())

    def load(self, entries: Iterable[ProducerEntry], now_ms: int, map_end_offset: int) -> None:
        """Replace the state by that of a snapshot at ``map_end_offset``.

        Omits producers that have expired at ``now_ms``.
        """
        self.reset(map_end_offset)
        states = [ProducerState.from_entry(entry) for entry in entries]
        self._producers = {state.producer_id: state for state in states if not self._is_expired(state, now_ms)}
        open_states = [state for state in self._producers.values() if state.in_transaction]
        self._ongoing = {s.current_txn_first_offset: s.producer_id for s in sorted(open_states, key=_txn_first_offset)}

    def _find_duplicate(self, batch: ProducedBatch) -> ProducerBatch | None:
        known = self._producers.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            return None
        return known.find(batch.base_sequence, batch.last_sequence)

    def _is_expired(self, state: ProducerState, now_ms: int) -> bool:
        return not state.in_transaction and now_ms - state.last_timestamp >= self.producer_id_expiration_ms

    def _first_ongoing(self) -> list[int]:
        return [next(iter(self._ongoing))] if self._ongoing else []


class _Change:
    """Collects the changes by several batches, and checks each batch against the state and the changes so far."""

    def __init__(self, manager: ProducerStateManager, origin: Origin) -> None:
        self.states: dict[int, ProducerState] = {}
        self.ongoing: dict[int, int] = manager._ongoing  # copied before the first change
        self.completed: list[CompletedTxn] = []
        self._manager = manager
        self._origin = origin

    def write(self, batch: ProducedBatch) -> None:
        """Apply a data batch."""
        known = self._known(batch)
        self._check_epoch(known, batch)
        if self._origin is Origin.CLIENT:
            self._check_sequence(known, batch)
        if known.in_transaction and not batch.is_transactional:
            self._refuse(
                InvalidTxnStateError,
                batch,
                "a non-transactional batch while the producer has an open transaction; end the transaction first",
            )
        opens = batch.is_transactional and not known.in_transaction
        self.states[batch.producer_id] = ProducerState(
            producer_id=batch.producer_id,
            epoch=batch.producer_epoch,
            coordinator_epoch=known.coordinator_epoch,
            last_timestamp=batch.max_timestamp,
            current_txn_first_offset=batch.base_offset if opens else known.current_txn_first_offset,
            batches=known.batches_with(batch.producer_epoch, batch.remembered),
        )
        if opens:
            self._own_ongoing()[batch.base_offset] = batch.producer_id

    def end(self, batch: ProducedBatch, marker: Marker) -> None:
        """Apply a commit or abort marker. It fences older producers even if the producer has no open transaction."""
        known = self._known(batch)
        self._check_epoch(known, batch)
        if marker.coordinator_epoch < known.coordinator_epoch:
            reason = (
                f"the marker has coordinator epoch {marker.coordinator_epoch}, but "
                f"{known.coordinator_epoch} has written already"
            )
            self._refuse(TransactionCoordinatorFencedError, batch, reason)
        if known.in_transaction:
            self._complete(known, batch.base_offset, aborted=not marker.is_commit)
        self.states[batch.producer_id] = known._replace(
            epoch=batch.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            last_timestamp=marker.timestamp,
            current_txn_first_offset=NO_OFFSET,
            batches=known.batches if known.epoch == batch.producer_epoch else (),
        )

    def _complete(self, known: ProducerState, marker_offset: int, *, aborted: bool) -> None:
        ongoing = self._own_ongoing()
        first_offset = known.current_txn_first_offset
        ongoing.pop(first_offset, None)  # missing if a plausible snapshot gave two producers the same first offset
        last_stable_offset = next(iter(ongoing), marker_offset + 1)
        self.completed.append(CompletedTxn(known.producer_id, first_offset, marker_offset, aborted, last_stable_offset))

    def _known(self, batch: ProducedBatch) -> ProducerState:
        producer_id = batch.producer_id
        known = self.states.get(producer_id) or self._manager._producers.get(producer_id)
        return known or ProducerState(producer_id)

    def _own_ongoing(self) -> dict[int, int]:
        if self.ongoing is self._manager._ongoing:
            self.ongoing = dict(self.ongoing)
        return self.ongoing

    def _check_epoch(self, known: ProducerState, batch: ProducedBatch) -> None:
        if batch.producer_epoch < known.epoch:
            self._refuse(
                InvalidProducerEpochError, batch, f"a newer producer, with epoch {known.epoch}, has taken over"
            )

    def _check_sequence(self, known: ProducerState, batch: ProducedBatch) -> None:
        """Raises OutOfOrderSequenceError unless the batch begins after the producer's last one, or at 0 in a new epoch.

        A producer that is not known may begin with any sequence number.
        """
        expected = known.next_sequence(batch.producer_epoch)
        if known.epoch != NO_PRODUCER_EPOCH and batch.base_sequence != expected:
            last = known.last_sequence if known.epoch == batch.producer_epoch else NO_SEQUENCE
            reason = (
                f"the sequence number is {batch.base_sequence}, not {expected} (epoch {known.epoch} wrote up to {last})"
            )
            self._refuse(OutOfOrderSequenceError, batch, reason)

    def _refuse(self, error: type[Exception], batch: ProducedBatch, reason: str) -> None:
        """Raise ``error``, or, for REPLICATION, only log a warning, like Kafka's followers.

        Those batches are in a log already.
        """
        message = f"{self._manager.partition or 'log'}: {batch}: {reason}"
        if self._origin is not Origin.REPLICATION:
            raise error(message)
        logger.warning("%s", message)


def _batches_with_producer(headers: BatchHeaders, origin: Origin) -> Iterable[ProducedBatch]:
    """Returns the batches with a producer id; for REPLICATION only those that affect the state."""
    table = headers.table
    if origin is Origin.REPLICATION and len(headers) > _FEW_BATCHES:
        table = table[rows_for_replay(headers)]
    batches = [ProducedBatch._make(_FIELDS_OF_ROW(row)) for row in table.tolist()]  # faster than field by field
    return [batch for batch in batches if batch.producer_id > NO_PRODUCER_ID]


def rows_for_replay(headers: BatchHeaders) -> Int64s:
    """Returns the rows of the batches that a replay needs, ascending; the other batches would not change its result.

    The result is the state of the producers, and the transactions that end in these batches. Needed are, for each
    producer, the markers, the batches that begin a transaction or an epoch, and the last five
    batches with data. A log may contain millions of other batches.
    """
    table = headers.table
    rows = np.flatnonzero(table["producer_id"] > NO_PRODUCER_ID)
    order = np.argsort(table["producer_id"][rows], kind="stable")
    of_producers = table[rows[order]]
    kinds = of_producers["attributes"] & (TRANSACTIONAL_MASK | CONTROL_MASK)
    begins = np.zeros(len(rows), dtype=np.bool_)
    begins[:1] = True
    for values in (of_producers["producer_id"], of_producers["producer_epoch"], kinds):
        begins[1:] |= values[1:] != values[:-1]
    has_data = (kinds & CONTROL_MASK) == 0
    is_kept = begins | ~has_data
    is_kept[has_data] |= _are_last(of_producers["producer_id"][has_data], BATCHES_CACHED)
    return np.sort(rows[order[is_kept]])


def _are_last(producer_ids: Int64s, count: int) -> npt.NDArray[np.bool_]:
    """For each of these ascending producer ids, whether it is among the last ``count`` equal ones.

    Shape (n,) -> (n,).
    """
    are_last = np.ones(len(producer_ids), dtype=np.bool_)
    are_last[:-count] = producer_ids[count:] != producer_ids[:-count]
    return are_last


def _txn_first_offset(state: ProducerState) -> int:
    return state.current_txn_first_offset
