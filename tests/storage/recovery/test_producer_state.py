"""Producers: sequences, epochs, transactions."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.errors import (
    AppendError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from pyspark_commitlog.storage.format.constants import CONTROL_MASK, INT32_MAX, NO_PRODUCER_ID, TRANSACTIONAL_MASK
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.checkpoints import ProducerEntry, decode_snapshot
from pyspark_commitlog.storage.format.files.index_entries import AbortedTxn, decode_aborted
from pyspark_commitlog.storage.format.tables import HEADERS, BatchHeaders
from pyspark_commitlog.storage.recovery.producer_snapshots import snapshots_outside, stray_snapshots
from pyspark_commitlog.storage.recovery.producer_state import (
    CompletedTxn,
    Marker,
    Origin,
    ProducerBatch,
    ProducerUpdate,
)
from pyspark_commitlog.storage.recovery.producer_state_manager import ProducerStateManager
from tests.support.logs import plain_batches
from tests.support.logs.sidecars import SIDECARS

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
OTHERS = [origin for origin in Origin if origin is not Origin.CLIENT]


def row(offset: int, producer_id: int = 1, epoch: int = 0, sequence: int = 0, records: int = 1, **more: Any) -> Any:
    """A batch at ``offset``; more: transactional, control, timestamp."""
    batch = np.zeros(1, dtype=HEADERS)
    batch["magic"], batch["base_offset"], batch["last_offset"] = 2, offset, offset + records - 1
    batch["producer_id"], batch["producer_epoch"], batch["base_sequence"] = producer_id, epoch, sequence
    batch["count"], batch["max_timestamp"] = records, more.get("timestamp", NOW_MS)
    transactional = more.get("transactional", False) * TRANSACTIONAL_MASK
    batch["attributes"] = transactional | more.get("control", False) * CONTROL_MASK
    return batch


def headers(*rows: Any) -> BatchHeaders:
    return BatchHeaders(np.concatenate([np.empty(0, dtype=HEADERS), *rows]))


class Partition:
    """A log without bytes: assigns offsets, and applies what passed the checks. The high watermark stays at 0."""

    def __init__(self) -> None:
        self.state = ProducerStateManager("topic-0")

    @property
    def end(self) -> int:
        return self.state.map_end_offset

    def write(
        self,
        producer_id: int = 1,
        epoch: int = 0,
        sequence: int = 0,
        records: int = 1,
        *,
        origin: Origin = Origin.CLIENT,
        **more: Any,
    ) -> ProducerUpdate:
        update = self.state.prepare(headers(row(self.end, producer_id, epoch, sequence, records, **more)), origin)
        self.state.apply(update)
        return update

    def send(self, producer_id: int = 1, epoch: int = 0, sequence: int = 0, records: int = 1, **more: Any) -> int:
        """Appends a transactional batch; returns its first offset."""
        self.write(producer_id, epoch, sequence, records, transactional=True, **more)
        return self.end - records

    def mark(
        self,
        producer_id: int = 1,
        epoch: int = 0,
        *,
        commit: bool = True,
        coordinator_epoch: int = 0,
        origin: Origin = Origin.COORDINATOR,
        timestamp: int = NOW_MS,
    ) -> CompletedTxn | None:
        batch = row(self.end, producer_id, epoch, -1, transactional=True, control=True)
        markers = {self.end: Marker(commit, coordinator_epoch, timestamp)}
        update = self.state.prepare(headers(batch), origin, markers)
        self.state.apply(update)
        return update.completed[0] if update.completed else None


@pytest.fixture
def log() -> Partition:
    return Partition()


# --- files of Kafka


def test_replaying_a_log_of_kafka_gives_every_snapshot_and_transaction_index_it_wrote() -> None:
    state = ProducerStateManager("txn-0")
    compared = 0
    for path in sorted((SIDECARS / "txn-0").glob("*.log")):
        base = file_names.base_offset_of(path.name)
        compared += assert_snapshot_agrees(state, path.with_suffix(file_names.SNAPSHOT), base or 0)
        data = path.read_bytes()
        completed = state.replay(plain_batches.headers(data), plain_batches.markers(data))
        index = path.with_suffix(file_names.TXN_INDEX)
        assert [txn.index_entry for txn in completed if txn.aborted] == (
            decode_aborted(index.read_bytes()) if index.exists() else []
        )
    compared += assert_snapshot_agrees(state, SIDECARS / "txn-0" / "00000000000000001736.snapshot", 1736)
    assert compared == 19


def assert_snapshot_agrees(state: ProducerStateManager, path: Path, offset: int) -> bool:
    if not path.exists():
        return False
    assert state.map_end_offset == offset
    assert sorted(state.entries()) == sorted(decode_snapshot(path.read_bytes()))
    return True


def test_replaying_batch_by_batch_or_from_a_snapshot_gives_the_same_state() -> None:
    whole = ProducerStateManager()
    stepwise = ProducerStateManager()
    for path in sorted((SIDECARS / "txn-0").glob("*.log")):
        data = path.read_bytes()
        table, markers = plain_batches.headers(data), plain_batches.markers(data)
        from_snapshot = ProducerStateManager()
        from_snapshot.load(whole.entries(), NOW_MS, whole.map_end_offset)
        completed = whole.replay(table, markers)
        assert from_snapshot.replay(table, markers) == completed
        assert [txn for n in range(len(table)) for txn in stepwise.replay(table[n : n + 1], markers)] == list(completed)
        assert whole.producers == stepwise.producers
        assert whole.ongoing == stepwise.ongoing == from_snapshot.ongoing
        assert whole.entries() == from_snapshot.entries()


# --- sequences


def test_an_unknown_producer_may_begin_at_any_sequence_and_continues_from_it(log: Partition) -> None:
    log.write(sequence=7, records=3)
    log.write(sequence=10)
    entry = log.state.last_entry(1)
    assert entry is not None
    assert (entry.last_sequence, entry.last_offset, entry.epoch) == (10, 3, 0)
    assert log.state.last_entry(2) is None


@pytest.mark.parametrize("sequence", [4, 6, 0, INT32_MAX])
def test_a_gap_in_the_sequences_is_refused(log: Partition, sequence: int) -> None:
    log.write(sequence=0, records=5)
    with pytest.raises(
        OutOfOrderSequenceError, match=rf"topic-0: producer 1, epoch 0.* sequence number is {sequence}, not 5"
    ):
        log.write(sequence=sequence)


def test_sequences_wrap_within_and_between_batches(log: Partition) -> None:
    log.write(sequence=INT32_MAX - 2, records=2)
    log.write(sequence=INT32_MAX, records=4)
    entry = log.state.last_entry(1)
    assert entry is not None
    assert (entry.last_sequence, entry.batches[-1].first_sequence) == (2, INT32_MAX)
    assert log.write(sequence=INT32_MAX, records=4).duplicate == entry.batches[-1]
    log.write(sequence=3)


def test_sequences_wrap_to_zero_and_nothing_else(log: Partition) -> None:
    log.write(sequence=INT32_MAX)
    with pytest.raises(OutOfOrderSequenceError, match="not 0 "):
        log.write(sequence=1)
    log.write(sequence=0)


@pytest.mark.parametrize("origin", OTHERS)
def test_only_clients_are_held_to_their_sequences(log: Partition, origin: Origin) -> None:
    log.write(sequence=0)
    assert log.write(sequence=0, origin=origin).duplicate is None
    log.write(sequence=99, origin=origin)


# --- duplicates


def test_each_of_the_last_five_batches_is_known_again_and_older_ones_are_not(log: Partition) -> None:
    for n in range(6):
        log.write(sequence=2 * n, records=2, timestamp=NOW_MS + n)
    end = log.end
    for n in range(1, 6):
        duplicate = log.write(sequence=2 * n, records=2).duplicate
        assert duplicate == ProducerBatch(2 * n + 1, 2 * n + 1, 1, NOW_MS + n)
        assert duplicate.first_offset == 2 * n
    with pytest.raises(OutOfOrderSequenceError):
        log.write(sequence=0, records=2)
    assert log.end == end


def test_a_batch_with_other_borders_is_no_duplicate(log: Partition) -> None:
    log.write(sequence=0, records=2)
    log.write(sequence=2, records=2)
    for sequence, records in [(0, 1), (1, 1), (1, 3), (0, 4)]:
        with pytest.raises(OutOfOrderSequenceError):
            log.write(sequence=sequence, records=records)


def test_a_set_that_repeats_a_batch_changes_nothing_at_all(log: Partition) -> None:
    log.write(producer_id=1)
    before = dict(log.state.producers)
    update = log.state.prepare(headers(row(1, producer_id=2), row(2, producer_id=1)), Origin.CLIENT)
    assert update.duplicate is not None
    log.state.apply(update)
    assert log.state.producers == before
    assert log.end == 1


# --- epochs


def test_a_new_epoch_begins_at_sequence_zero_and_forgets_the_batches_of_the_old_one(log: Partition) -> None:
    log.write(epoch=0, sequence=0)
    with pytest.raises(OutOfOrderSequenceError, match="not 0 "):
        log.write(epoch=1, sequence=1)
    log.write(epoch=1, sequence=0)
    entry = log.state.last_entry(1)
    assert entry is not None
    assert (entry.epoch, len(entry.batches)) == (1, 1)


@pytest.mark.parametrize("origin", [Origin.CLIENT, Origin.COORDINATOR, Origin.RAFT_LEADER])
def test_an_older_epoch_is_fenced(log: Partition, origin: Origin) -> None:
    log.write(epoch=5)
    with pytest.raises(InvalidProducerEpochError, match="with epoch 5, has taken over"):
        log.write(epoch=4, origin=origin)
    with pytest.raises(InvalidProducerEpochError):
        log.mark(epoch=4, origin=origin)


def test_violations_already_in_the_log_are_logged_and_accepted(
    log: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    log.write(epoch=5)
    log.write(epoch=4, sequence=7, origin=Origin.REPLICATION)
    entry = log.state.last_entry(1)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence) == (4, 7)
    assert (
        "topic-0: producer 1, epoch 4, batch at offset 1: a newer producer, with epoch 5, has taken over" in caplog.text
    )


# --- transactions


def test_a_marker_completes_the_transaction_and_has_the_last_stable_offset(log: Partition) -> None:
    log.write(producer_id=NO_PRODUCER_ID, records=3)
    first = log.send(1)
    log.send(1, sequence=1)
    assert log.state.first_unstable_offset == first
    assert log.mark(1, commit=False) == CompletedTxn(1, first, 5, aborted=True, last_stable_offset=6)
    entry = log.state.last_entry(1)
    assert entry is not None
    assert not entry.in_transaction


def test_a_marker_while_another_transaction_is_open_is_stable_up_to_that_one(log: Partition) -> None:
    log.send(1)
    log.send(2)
    log.send(3)
    assert log.mark(2, commit=False) == CompletedTxn(2, 1, 3, aborted=True, last_stable_offset=0)
    assert log.mark(1) == CompletedTxn(1, 0, 4, aborted=False, last_stable_offset=2)
    assert log.mark(3) == CompletedTxn(3, 2, 5, aborted=False, last_stable_offset=6)
    assert CompletedTxn(2, 1, 3, aborted=True, last_stable_offset=0).index_entry == AbortedTxn(2, 1, 3, 0)


def test_a_completed_transaction_is_unstable_until_the_high_watermark_passes_its_marker(log: Partition) -> None:
    first = log.send(1)
    log.mark(1)
    second = log.send(1, sequence=1)
    assert log.state.first_unstable_offset == first
    log.state.on_high_watermark(1)
    assert log.state.first_unstable_offset == first
    log.state.on_high_watermark(2)
    assert log.state.first_unstable_offset == second
    log.mark(1)
    log.state.on_high_watermark(log.end)
    assert log.state.first_unstable_offset is None


def test_the_first_unstable_offset_is_the_earliest_whichever_transaction_ends_first(log: Partition) -> None:
    log.send(1)
    log.send(2)
    log.mark(2)
    log.state.on_high_watermark(log.end)
    assert log.state.first_unstable_offset == 0
    log.mark(1)
    log.send(3)
    assert log.state.first_unstable_offset == 0
    log.state.on_high_watermark(log.end)
    assert log.state.first_unstable_offset == 4


def test_a_marker_without_a_transaction_completes_nothing_but_fences(log: Partition) -> None:
    log.write(epoch=0)
    assert log.mark(epoch=1, commit=False) is None
    with pytest.raises(InvalidProducerEpochError):
        log.write(epoch=0, sequence=1)
    with pytest.raises(OutOfOrderSequenceError):
        log.write(epoch=1, sequence=1)
    log.write(epoch=1, sequence=0)


def test_a_marker_one_epoch_above_its_data_completes_it_and_the_next_transaction_begins_at_zero(log: Partition) -> None:
    log.send(1, epoch=0, records=3)
    assert log.mark(1, epoch=1) is not None
    entry = log.state.last_entry(1)
    assert entry is not None
    assert (entry.epoch, entry.batches) == (1, ())
    log.send(1, epoch=1, sequence=0)


def test_a_marker_of_an_older_coordinator_is_fenced(log: Partition) -> None:
    log.send()
    log.mark(coordinator_epoch=5)
    log.send(sequence=1)
    with pytest.raises(TransactionCoordinatorFencedError, match="coordinator epoch 4, but 5 has written already"):
        log.mark(coordinator_epoch=4)
    log.mark(coordinator_epoch=5)
    log.state.load(log.state.entries(), NOW_MS, log.end)
    with pytest.raises(TransactionCoordinatorFencedError):
        log.mark(coordinator_epoch=4)
    log.mark(coordinator_epoch=3, origin=Origin.REPLICATION)


def test_a_plain_write_in_an_open_transaction_is_refused_and_read_over_on_recovery(log: Partition) -> None:
    log.send()
    with pytest.raises(InvalidTxnStateError, match="producer 1, epoch 0, batch at offset 1"):
        log.write(sequence=1)
    log.write(sequence=1, origin=Origin.REPLICATION)
    assert log.state.ongoing == {0: 1}


def test_a_control_batch_without_a_marker_changes_nothing_but_the_end(log: Partition) -> None:
    log.send()
    update = log.state.prepare(headers(row(1, transactional=True, control=True)), Origin.REPLICATION)
    log.state.apply(update)
    assert log.state.ongoing == {0: 1}
    assert log.end == 2


def test_a_set_with_a_whole_transaction_and_the_next_one_is_processed_in_order(log: Partition) -> None:
    rows = [
        row(0, transactional=True),
        row(1, sequence=-1, transactional=True, control=True),
        row(2, sequence=1, transactional=True),
        row(3, producer_id=2, transactional=True),
        row(4, sequence=-1, transactional=True, control=True),
    ]
    markers = {1: Marker(True, 0, NOW_MS), 4: Marker(False, 0, NOW_MS)}
    assert log.state.replay(headers(*rows), markers) == (
        CompletedTxn(1, 0, 1, aborted=False, last_stable_offset=2),
        CompletedTxn(1, 2, 4, aborted=True, last_stable_offset=3),
    )
    assert log.state.ongoing == {3: 2}


# --- prepare leaves no trace


@pytest.mark.parametrize("refused", [True, False])
def test_an_append_that_is_not_applied_leaves_the_state_unchanged(log: Partition, refused: bool) -> None:
    log.send(1)
    log.write(2)
    producers, ongoing, end = dict(log.state.producers), dict(log.state.ongoing), log.end
    rows = [
        row(2, 1, sequence=-1, transactional=True, control=True),
        row(3, 3, transactional=True),
        row(4, 2, sequence=9 if refused else 1),
    ]
    markers = {2: Marker(True, 0, NOW_MS)}
    if refused:
        with pytest.raises(OutOfOrderSequenceError):
            log.state.prepare(headers(*rows), Origin.CLIENT, markers)
    else:
        assert log.state.prepare(headers(*rows), Origin.CLIENT, markers).ongoing == {3: 3}
    assert (log.state.producers, log.state.ongoing, log.end) == (producers, ongoing, end)
    assert log.state.first_unstable_offset == 0


def test_batches_without_a_producer_only_move_the_end(log: Partition) -> None:
    update = log.state.prepare(
        headers(row(0, NO_PRODUCER_ID, -1, -1), row(1, NO_PRODUCER_ID, -1, -1, 9)), Origin.CLIENT
    )
    assert (update.states, update.completed, update.map_end_offset) == ({}, (), 10)
    assert log.state.prepare(headers(), Origin.CLIENT).map_end_offset == 0


# --- snapshots and expiry


def test_a_snapshot_keeps_the_last_batch_of_every_producer_and_the_open_transactions(log: Partition) -> None:
    log.send(1, records=2)
    log.send(1, sequence=2)
    log.write(2, sequence=4)
    log.mark(3, epoch=2, coordinator_epoch=8, timestamp=NOW_MS + 5)
    assert log.state.entries() == [
        ProducerEntry(1, 0, 2, 2, 0, NOW_MS, -1, 0),
        ProducerEntry(2, 0, 4, 3, 0, NOW_MS, -1, -1),
        ProducerEntry(3, 2, -1, -1, 0, NOW_MS + 5, 8, -1),
    ]
    again = ProducerStateManager("topic-0")
    again.load(decode_snapshot(log.state.to_bytes()), NOW_MS, log.end)
    assert again.entries() == log.state.entries()
    assert (again.ongoing, again.first_unstable_offset, again.map_end_offset) == ({0: 1}, 0, log.end)


def test_open_transactions_of_a_snapshot_are_in_the_order_of_their_offsets(log: Partition) -> None:
    entries = [ProducerEntry(n, 0, 0, 10 * n, 0, NOW_MS, -1, first) for n, first in [(1, 30), (2, 5), (3, 20)]]
    log.state.load(entries, NOW_MS, 40)
    assert list(log.state.ongoing.items()) == [(5, 2), (20, 3), (30, 1)]
    assert log.mark(2) == CompletedTxn(2, 5, 40, aborted=False, last_stable_offset=20)


def test_a_snapshot_that_gives_two_producers_one_transaction_does_not_stop_the_log(log: Partition) -> None:
    log.state.load([ProducerEntry(n, 0, 0, 7, 0, NOW_MS, -1, 5) for n in (1, 2)], NOW_MS, 8)
    assert log.mark(1) is not None
    assert log.mark(2) is not None
    assert log.state.ongoing == {}


def test_idle_producers_expire_but_not_with_an_open_transaction(log: Partition) -> None:
    log.send(1)
    log.write(2)
    log.write(3, timestamp=NOW_MS + 1)
    assert log.state.remove_expired(NOW_MS + DAY_MS - 1) == []
    assert log.state.remove_expired(NOW_MS + DAY_MS) == [2]
    assert list(log.state.producers) == [1, 3]
    log.write(2, sequence=77)


def test_expired_producers_are_not_loaded(log: Partition) -> None:
    log.send(1)
    log.write(2)
    log.state.load(log.state.entries(), NOW_MS + DAY_MS, log.end)
    assert list(log.state.producers) == [1]
    assert log.state.ongoing == {0: 1}


def test_a_producer_known_by_its_markers_only_lives_from_the_last_of_them(log: Partition) -> None:
    log.mark(1, timestamp=NOW_MS)
    log.mark(1, timestamp=NOW_MS + DAY_MS)
    assert log.state.remove_expired(NOW_MS + 2 * DAY_MS - 1) == []
    assert log.state.remove_expired(NOW_MS + 2 * DAY_MS) == [1]


def test_resetting_forgets_everything(log: Partition) -> None:
    log.send(1)
    log.mark(1)
    log.send(2)
    log.state.reset(100)
    assert (dict(log.state.producers), dict(log.state.ongoing), log.state.first_unstable_offset) == ({}, {}, None)
    assert log.end == 100


def test_moving_the_log_start_drops_completed_transactions_below_it(log: Partition) -> None:
    log.send(1)
    log.mark(1)
    log.state.on_log_start_offset_increased(9)
    assert log.state.first_unstable_offset is None
    assert log.end == 9


@pytest.mark.parametrize(
    ("snapshots", "bases", "stray"),
    [
        pytest.param([0, 10, 20], [0, 10, 20], [], id="all at segments"),
        pytest.param([10, 12, 15, 20, 23, 27], [0, 10, 20], [12, 15, 23], id="the newest beyond the last base stays"),
        pytest.param([10, 15], [0, 10, 20], [15], id="the newest stray lies below the last base"),
        pytest.param([3, 5], [], [3], id="no segments"),
        pytest.param([0], [], [], id="the only one, no segments"),
        pytest.param([], [0], [], id="no snapshots"),
    ],
)
def test_stray_snapshots_are_those_of_no_segment_but_for_the_newest(
    snapshots: list[int], bases: list[int], stray: list[int]
) -> None:
    assert stray_snapshots(snapshots, bases) == stray


def test_truncating_drops_snapshots_outside_the_log() -> None:
    assert snapshots_outside([20, 5, 10, 15, 21], log_start_offset=10, log_end_offset=20) == [5, 10, 21]


# --- against something simpler


class SimpleLog:
    """The same rules, one producer at a time, with every batch kept for ever."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, int, int, int]]] = {}  # (epoch, first sequence, last, last offset)

    def append(self, producer_id: int, epoch: int, sequence: int, records: int, offset: int) -> str:
        known = self.batches.setdefault(producer_id, [])
        latest = known[-1][0] if known else None
        same_epoch = [batch for batch in known if batch[0] == epoch]
        if latest == epoch and any(b[1:3] == (sequence, sequence + records - 1) for b in same_epoch[-5:]):
            return "duplicate"
        if latest is not None and epoch < latest:
            return "fenced"
        if latest is not None and sequence != (same_epoch[-1][2] + 1 if same_epoch else 0):
            return "out of order"
        known.append((epoch, sequence, sequence + records - 1, offset + records - 1))
        return "written"


@given(
    st.lists(
        st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(0, 9), st.integers(1, 3)), min_size=1, max_size=60
    )
)
def test_random_appends_meet_the_same_fate_as_under_simpler_rules(
    appends: list[tuple[int, int, int, int]],
) -> None:
    log, simple = Partition(), SimpleLog()
    outcomes = {InvalidProducerEpochError: "fenced", OutOfOrderSequenceError: "out of order"}
    for producer_id, epoch, sequence, records in appends:
        expected = simple.append(producer_id, epoch, sequence, records, log.end)
        try:
            update = log.write(producer_id, epoch, sequence, records)
            found = "written" if update.duplicate is None else "duplicate"
        except AppendError as error:
            found = outcomes[type(error)]
        assert found == expected


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 2), st.integers(1, 3)), max_size=80))
def test_replaying_many_plain_batches_at_once_gives_the_same_as_one_by_one(
    batches: list[tuple[int, int, int]],
) -> None:
    offsets, rows = count(0, 10), []
    for producer_id, epoch, records in batches:
        offset = next(offsets)
        rows.append(row(offset, producer_id, epoch, offset, records, timestamp=NOW_MS + offset))
    at_once, one_by_one = ProducerStateManager(), ProducerStateManager()
    at_once.replay(headers(*rows))
    for batch in rows:
        one_by_one.replay(headers(batch))
    assert at_once.producers == one_by_one.producers
    assert at_once.map_end_offset == one_by_one.map_end_offset
