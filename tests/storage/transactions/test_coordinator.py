"""Transactions: which states may follow which, who is refused, and what is visible."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    InvalidConfigError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    LogDirLockedError,
    OutcomeUnknownError,
    ProducerFencedError,
    StorageError,
    TransactionAbortedError,
    TransactionRefusedError,
    UnknownTopicOrPartitionError,
)
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    decode_transaction_key,
    partition_for,
)
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.transactions import background_sync
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.idempotent import IdempotentProducer
from pyspark_commitlog.storage.transactions.producer_ids import FIRST_PRODUCER_ID, PRODUCER_IDS_FILE
from pyspark_commitlog.storage.transactions.states import LEGAL, TransactionStates, check_legal
from pyspark_commitlog.storage.transactions.transaction import Transaction, TransactionPart
from pyspark_commitlog.storage.transactions.writer import TransactionalWriter
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, Rule, fail, tear
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import open_log, records
from tests.support.logs.transactions import (
    APP,
    PARTITIONS,
    SINK,
    TOPIC,
    Query,
    content,
    encoded,
    expected,
    manage,
    set_back_producer_ids,
    values_of,
)
from tests.support.waiting import soon


def state_of(disk: MemoryFileSystem, transactional_id: str = APP) -> TransactionLogValue:
    found = TransactionStates(manage(disk)).newest(transactional_id)
    assert found is not None
    return found


def states_written(disk: MemoryFileSystem) -> list[tuple[TransactionState, int]]:
    """All states in log order, with their epochs."""
    found = []
    for part in manage(disk).open_reader(TRANSACTION_STATE_TOPIC, 0).records(0, 2**62):
        assert part.values is not None
        values = [TransactionLogValue.decode(value or b"") for value in part.values.to_list()]
        found += [(value.transaction_status, value.producer_epoch) for value in values]
    return found


# --- what is seen


def test_what_a_transaction_wrote_is_seen_when_it_is_committed_with_the_offsets_of_the_group(query: Query) -> None:
    transaction = query.begin()
    parts = query.write(transaction, 0)
    assert [content(query.manager, partition) for partition in (0, 1)] == [[], []]
    assert query.done() == 0
    query.commit(transaction, 0, parts)
    assert [content(query.manager, partition) for partition in (0, 1)] == [values_of(0, 0), values_of(0, 1)]
    assert GroupOffsets(query.manager).fetch(APP) == {SINK: CommittedOffset(1)}


def test_nothing_of_an_aborted_transaction_is_seen_and_nothing_waits_for_it(query: Query) -> None:
    query.abort_batch(0)
    assert content(query.manager, 0) == []
    query.run_batch(0)
    assert content(query.manager, 0) == values_of(0, 0)
    for partition in PARTITIONS:
        log = query.manager.open_reader(*partition)
        assert log.last_stable_offset == log.log_end_offset


def test_a_transaction_without_records_or_offsets_can_be_committed(query: Query, disk: MemoryFileSystem) -> None:
    query.coordinator.commit(query.begin(), [])
    assert state_of(disk).transaction_status is TransactionState.COMPLETE_COMMIT
    assert query.manager.open_reader(TOPIC, 0).log_end_offset == 0


def test_epochs_go_up_with_every_transaction_and_markers_carry_the_next(query: Query, disk: MemoryFileSystem) -> None:
    query.run_batch(0)
    query.abort_batch(1)
    assert states_written(disk) == [
        (TransactionState.ONGOING, 0),
        (TransactionState.PREPARE_COMMIT, 1),
        (TransactionState.COMPLETE_COMMIT, 1),
        (TransactionState.ONGOING, 1),
        (TransactionState.PREPARE_ABORT, 2),
        (TransactionState.COMPLETE_ABORT, 2),
    ]
    entry = query.manager.open_reader(TOPIC, 0).producers.last_entry(FIRST_PRODUCER_ID)
    assert entry is not None
    assert (entry.epoch, entry.in_transaction) == (2, False)


def test_a_new_coordinator_raises_the_epoch_once_more(query: Query, disk: MemoryFileSystem) -> None:
    """It may follow a broker's, whose Complete has the epoch of its records."""
    query.run_batch(0)
    query.coordinator.close()
    assert Query.on(disk).start().begin().producer == Producer(FIRST_PRODUCER_ID, 2)


def test_a_commit_contains_only_partitions_that_were_used(query: Query) -> None:
    transaction = query.begin()
    writer = TransactionalWriter(query.tasks, transaction)
    writer.append(TOPIC, 0, encoded(b"a"))
    writer.sync()
    query.coordinator.commit(transaction, [TransactionPart(TOPIC, 0, 1)])
    assert query.manager.open_reader(TOPIC, 0).log_end_offset == 2
    assert query.manager.open_reader(TOPIC, 1).log_end_offset == 0


def test_after_epoch_32766_another_producer_id_is_used(query: Query, disk: MemoryFileSystem) -> None:
    first = query.begin()
    query.coordinator.commit(first, query.write(first, 0))
    states, before = TransactionStates(query.manager), state_of(disk)
    worn = Transaction(APP, before.producer_id, 32765, PARTITIONS, 1000, 0)
    # another coordinator left the epoch near its end
    ongoing = TransactionLogValue(
        worn.producer_id, 32765, 1000, TransactionState.ONGOING, (), 0, transaction_start_timestamp_ms=0
    )
    states.replace(APP, before, ongoing)
    query.coordinator.recover()
    last = query.coordinator.begin(PARTITIONS, groups=[APP])
    assert (last.producer_id, last.epoch) == (before.producer_id + 1, 0)
    query.commit(last, 1, query.write(last, 1))
    assert content(query.manager, 0) == expected(0, (0, 1))


def test_records_may_carry_32766_and_markers_32767(query: Query, disk: MemoryFileSystem) -> None:
    query.run_batch(0)
    states, before = TransactionStates(query.manager), state_of(disk)
    values = {"transaction_timeout_ms": 1000, "transaction_last_update_timestamp_ms": 0}
    ongoing = TransactionLogValue(
        before.producer_id, 32764, transaction_status=TransactionState.ONGOING, transaction_partitions=(), **values
    )
    states.replace(APP, before, ongoing)
    query.coordinator.close()
    query = Query.on(disk).start()  # aborts it: 32765, and takes over
    query.run_batch(1)
    assert state_of(disk).producer_epoch == 32767
    query.run_batch(2)
    assert (state_of(disk).producer_id, state_of(disk).producer_epoch) == (before.producer_id + 1, 1)
    assert content(query.manager, 1) == expected(1, range(3))


# --- states


@pytest.mark.parametrize("before", [None, *TransactionState], ids=str)
@pytest.mark.parametrize("after", TransactionState, ids=str)
def test_only_a_coordinators_transitions_may_follow(before: TransactionState | None, after: TransactionState) -> None:
    def value(state: TransactionState) -> TransactionLogValue:
        return TransactionLogValue(1, 0, 1000, state, (), 0)

    legal = {
        (None, "EMPTY"),
        (None, "ONGOING"),
        ("EMPTY", "EMPTY"),
        ("EMPTY", "ONGOING"),
        ("ONGOING", "ONGOING"),
        ("ONGOING", "PREPARE_COMMIT"),
        ("ONGOING", "PREPARE_ABORT"),
        ("PREPARE_COMMIT", "COMPLETE_COMMIT"),
        ("PREPARE_ABORT", "COMPLETE_ABORT"),
        ("COMPLETE_COMMIT", "EMPTY"),
        ("COMPLETE_COMMIT", "ONGOING"),
        ("COMPLETE_ABORT", "EMPTY"),
        ("COMPLETE_ABORT", "ONGOING"),
        ("DEAD", "EMPTY"),
        ("DEAD", "ONGOING"),
        ("PREPARE_EPOCH_FENCE", "PREPARE_ABORT"),
    }
    found = None if before is None else value(before)
    if (None if before is None else before.name, after.name) in legal:
        check_legal(APP, found, value(after))
    else:
        with pytest.raises(InvalidTxnStateError, match="cannot follow"):
            check_legal(APP, found, value(after))


def test_every_state_has_its_successors() -> None:
    assert set(LEGAL) == set(TransactionState)


def test_the_key_and_partition_of_a_state_are_kafkas(tmp_path: Path) -> None:
    manager = LogManager.open(str(tmp_path), create=True, clock=ManualClock())
    manager.create_topic(TOPIC, partitions=1)
    with TransactionCoordinator.open(manager, "flüge") as coordinator:
        coordinator.begin([(TOPIC, 0)])
    assert len(manager.topic(TRANSACTION_STATE_TOPIC).partitions) == 50
    log = manager.open_reader(TRANSACTION_STATE_TOPIC, partition_for("flüge", 50))
    (part,) = log.records(0, 10)
    assert part.keys is not None
    assert decode_transaction_key(part.keys.to_list()[0] or b"") == TransactionLogKey("flüge")


# --- who is refused


def test_a_second_coordinator_of_a_transactional_id_learns_the_holder(disk: MemoryFileSystem, query: Query) -> None:
    with pytest.raises(LogDirLockedError, match=r"'app' is in use by a query"):
        TransactionCoordinator.open(manage(disk), APP)
    with TransactionCoordinator.open(manage(disk), "another") as other:
        other.begin(PARTITIONS)
    query.coordinator.close()
    TransactionCoordinator.open(manage(disk), APP).close()
    assert [name for name in disk.list("/logs") if name.startswith(".transaction")] == []


def test_an_empty_transactional_id_and_a_timeout_that_no_state_can_hold_are_refused(disk: MemoryFileSystem) -> None:
    with pytest.raises(InvalidConfigError, match="has 0 bytes; it must have 1 to"):
        TransactionCoordinator.open(manage(disk), "")
    for timeout_ms in (0, 2**31):
        with pytest.raises(InvalidConfigError, match=r"transaction\.timeout\.ms"):
            TransactionCoordinator.open(manage(disk), APP, timeout_ms=timeout_ms)


def test_a_coordinator_that_lost_its_lock_and_wakes_after_the_other_aborted_is_refused(
    query: Query, disk: MemoryFileSystem
) -> None:
    transaction = query.begin()
    parts = query.write(transaction, 0)
    disk.lose_locks()
    other = Query.on(disk).start()
    with pytest.raises(TransactionRefusedError, match="CompleteAbort"):
        query.commit(transaction, 0, parts)
    other.run_batch(0)
    with pytest.raises(TransactionRefusedError):
        query.commit(transaction, 0, parts)
    with pytest.raises(TransactionRefusedError):
        query.coordinator.abort(transaction)
    with pytest.raises(ProducerFencedError, match="another coordinator"):
        query.coordinator.begin(PARTITIONS)
    assert content(other.manager, 0) == values_of(0, 0)
    assert other.done() == 1


def test_of_two_that_take_over_at_once_one_wins(query: Query, disk: MemoryFileSystem) -> None:
    query.run_batch(0)
    disk.lose_locks()
    other = Query.on(disk).start()
    query.coordinator.begin(PARTITIONS)
    with pytest.raises(ProducerFencedError):
        other.coordinator.begin(PARTITIONS)


def test_a_late_task_is_refused_after_an_abort_and_after_a_commit(query: Query) -> None:
    for end in ("abort", "commit"):
        transaction = query.begin()
        late = TransactionalWriter(query.tasks, transaction)
        late.append(TOPIC, 0, encoded(b"in time"))
        late.sync()
        if end == "abort":
            query.coordinator.abort(transaction)
        else:
            query.coordinator.commit(transaction, [TransactionPart(TOPIC, 0, 1)])
        ends = [query.manager.open_reader(*partition).log_end_offset for partition in PARTITIONS]
        for partition in PARTITIONS:
            with pytest.raises(TransactionRefusedError, match="not ongoing"):
                late.append(*partition, encoded(b"too late"))
        assert [query.manager.open_reader(*partition).log_end_offset for partition in PARTITIONS] == ends


def test_a_late_task_of_an_older_transaction_is_refused_while_the_next_is_ongoing(query: Query) -> None:
    old = query.begin()
    late = TransactionalWriter(query.tasks, old)
    query.coordinator.abort(old)
    query.begin()
    with pytest.raises(TransactionRefusedError, match=r"has Ongoing of producer \d+, epoch 1"):
        late.append(TOPIC, 0, encoded(b"too late"))


def test_a_task_that_ran_twice_aborts_the_transaction(query: Query) -> None:
    transaction = query.begin()
    parts = query.write(transaction, 0)
    query.write(transaction, 0)
    with pytest.raises(TransactionAbortedError, match="holds 6 records of the transaction, but tasks reported 3"):
        query.commit(transaction, 0, parts)
    assert content(query.manager, 0) == []
    query.run_batch(0)
    assert content(query.manager, 0) == values_of(0, 0)


def test_records_in_a_partition_that_nobody_reported_abort_the_transaction(query: Query) -> None:
    transaction = query.begin()
    parts = [part for part in query.write(transaction, 0) if part.partition == 0]
    with pytest.raises(
        TransactionAbortedError, match="1 of 't' holds 3 records of the transaction, but tasks reported 0"
    ):
        query.commit(transaction, 0, parts)


def test_reported_records_that_are_missing_abort_the_transaction(query: Query) -> None:
    transaction = query.begin()
    parts = [*query.write(transaction, 0), TransactionPart(TOPIC, 0, 1)]
    with pytest.raises(TransactionAbortedError, match="holds 3 records of the transaction, but tasks reported 4"):
        query.commit(transaction, 0, parts)
    transaction = query.begin()
    with pytest.raises(TransactionAbortedError, match="records of other-0, which"):
        query.coordinator.commit(transaction, [TransactionPart("other", 0, 1)])


def test_a_partition_outside_the_transaction_is_refused(query: Query) -> None:
    transaction = query.coordinator.begin([(TOPIC, 0)])
    with pytest.raises(ValueError, match="not begun with partition 1"):
        TransactionalWriter(query.tasks, transaction).append(TOPIC, 1, encoded(b"a"))
    with pytest.raises(ValueError, match="not begun with the groups app"):
        query.commit(transaction, 0, [])
    with pytest.raises(UnknownTopicOrPartitionError):
        query.coordinator.begin([("nowhere", 0)])


def test_a_committed_transaction_cannot_be_aborted_nor_the_other_way_round(query: Query) -> None:
    committed = query.begin()
    query.coordinator.commit(committed, [])
    with pytest.raises(TransactionRefusedError, match="cannot be aborted"):
        query.coordinator.abort(committed)
    aborted = query.begin()
    query.coordinator.abort(aborted)
    query.coordinator.abort(aborted)
    with pytest.raises(TransactionRefusedError):
        query.coordinator.commit(aborted, [])


def test_a_transaction_of_an_older_epoch_that_is_open_in_a_partition_is_aborted_by_the_next_append(
    query: Query,
) -> None:
    transaction = query.begin()
    newer = Producer(transaction.producer_id, 5)
    log = query.tasks.open_log(TOPIC, 0)
    log.append_transactional(encoded(b"old"), transaction.producer)
    log.append_transactional(encoded(b"new"), newer)
    log.end_transaction(Producer(newer.id, 6), commit=True)
    assert content(query.manager, 0) == [b"new"]


# --- begun here, ended there


def test_a_transaction_begun_in_one_process_is_committed_in_another_by_its_ticket(disk: MemoryFileSystem) -> None:
    with Query.on(disk).start().coordinator as planning:
        transaction = pickle.loads(pickle.dumps(planning.begin(PARTITIONS, groups=["w"])))
    parts = Query.on(disk).write(transaction, 0)
    manager = manage(disk)
    TransactionCoordinator.resume(manager, transaction).commit(transaction, parts, {"w": {SINK: CommittedOffset(1)}})
    assert content(manager, 0) == values_of(0, 0)
    assert GroupOffsets(manager).fetch("w") == {SINK: CommittedOffset(1)}


def test_a_ticket_cannot_commit_a_transaction_that_another_process_took_over(disk: MemoryFileSystem) -> None:
    with Query.on(disk).start().coordinator as planning:
        transaction = planning.begin(PARTITIONS, groups=[APP])
    parts = Query.on(disk).write(transaction, 0)
    other = Query.on(disk).start()
    with pytest.raises(TransactionRefusedError):
        TransactionCoordinator.resume(manage(disk), transaction).commit(transaction, parts)
    assert content(other.manager, 0) == []


# --- the disk fails


STATE_LOG = "*/__transaction_state-0/*.log"
OFFSETS_LOG = "*/__consumer_offsets-0/*.log"
DATA_LOG = "*/t-1/*.log"


@pytest.mark.parametrize("rule", [fail("sync", OFFSETS_LOG), tear(OFFSETS_LOG, after=10)], ids=["sync", "full disk"])
def test_a_disk_that_fails_before_the_decision_aborts_and_the_batch_can_be_tried_again(
    faulty: tuple[FaultyFileSystem, Query], rule: Rule
) -> None:
    filesystem, query = faulty
    query.run_batch(0)
    transaction = query.begin()
    parts = query.write(transaction, 1)
    filesystem.rules.append(rule)
    with pytest.raises(TransactionAbortedError, match="__consumer_offsets"):
        query.commit(transaction, 1, parts)
    assert rule.struck == 1
    query.run_batch(1)
    assert content(query.manager, 0) == expected(0, range(2))
    assert query.done() == 2


def test_records_that_tasks_left_unsynced_are_synced_before_the_decision(
    faulty: tuple[FaultyFileSystem, Query],
) -> None:
    filesystem, query = faulty
    query.leaves_syncs = True
    transaction = query.begin()
    rule = fail("sync", DATA_LOG)
    filesystem.rules.append(rule)
    parts = query.write(transaction, 0)
    assert not rule.struck
    with pytest.raises(TransactionAbortedError, match="Input/output error"):
        query.commit(transaction, 0, parts)
    assert rule.struck == 1
    assert content(query.manager, 1) == []
    query.run_batch(0)
    assert content(query.manager, 1) == expected(1, range(1))


def test_a_segment_that_a_task_began_is_synced_by_the_task(faulty: tuple[FaultyFileSystem, Query]) -> None:
    filesystem, query = faulty
    transaction = query.begin()
    writer = TransactionalWriter(query.manager, transaction, unsynced={(TOPIC, 1): 0})
    query.manager.open_log(TOPIC, 1).append_encoded(encoded(b"before"))
    query.manager.open_log(TOPIC, 1).roll()
    rule = fail("sync", DATA_LOG)
    filesystem.rules.append(rule)
    writer.append(TOPIC, 1, encoded(b"a"))
    with pytest.raises(StorageError):
        writer.sync()
    assert rule.struck == 1


def test_tasks_appends_are_synced_in_the_background_and_a_failing_disk_aborts(
    faulty: tuple[FaultyFileSystem, Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_sync, "PAUSE_S", 0.001)
    filesystem, query = faulty
    transaction = query.begin()
    rule = fail("sync", DATA_LOG)

    def write_until_it_fails() -> None:
        with query.coordinator.syncing(transaction):
            filesystem.rules.append(rule)
            TransactionalWriter(query.tasks, transaction, unsynced={(TOPIC, 1): 0}).append(TOPIC, 1, encoded(b"a"))
            soon(lambda: rule.struck == 1)

    with pytest.raises(TransactionAbortedError, match="Input/output error"):
        write_until_it_fails()
    assert content(query.manager, 1) == []
    query.run_batch(0)
    assert content(query.manager, 1) == expected(1, range(1))


def test_logs_that_grow_are_synced_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [open_log(tmp_path / str(number)) for number in range(3)]
    synced: list[int] = []
    monkeypatch.setattr(Log, "sync_file", lambda log: synced.append(logs.index(log)))
    background = background_sync.BackgroundSync(logs)
    for grow in ([0, 1, 2], [0, 1, 2], [], [0, 2], [0]):
        for number in grow:
            logs[number].append_encoded(encoded(b"a"), sync=False)
        background._sync_those_that_grew()
    assert synced == [0, 1, 2, 0]


def test_nothing_is_synced_while_nobody_appends(
    faulty: tuple[FaultyFileSystem, Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_sync, "PAUSE_S", 0.0001)
    filesystem, query = faulty
    query.run_batch(0)
    transaction = query.begin()
    rule = fail("sync", "*.log")
    filesystem.rules.append(rule)
    with query.coordinator.syncing(transaction) as left:
        time.sleep(0.05)
    assert not rule.struck
    assert left == {(TOPIC, 0): 0, (TOPIC, 1): 0, ("__consumer_offsets", 0): 0}


@pytest.mark.parametrize("rule", [fail("sync", STATE_LOG), tear(STATE_LOG, after=10)], ids=["sync", "full disk"])
@pytest.mark.parametrize("unsynced", ["kept", "lost"])
def test_a_decision_that_could_not_be_written_is_left_to_the_next_start(
    faulty: tuple[FaultyFileSystem, Query], rule: Rule, unsynced: str, disk: MemoryFileSystem
) -> None:
    filesystem, query = faulty
    query.run_batch(0)
    transaction = query.begin()
    parts = query.write(transaction, 1)
    filesystem.rules.append(Rule(rule.operation, rule.path, 1, False, rule.error, rule.amount))
    with pytest.raises(OutcomeUnknownError, match="start the query again, which finds out"):
        query.commit(transaction, 1, parts)
    with pytest.raises(OutcomeUnknownError, match="opened again"):
        query.coordinator.abort(transaction)
    with pytest.raises(OutcomeUnknownError):
        query.begin()
    left = disk.copy() if unsynced == "kept" else disk.crash(0, unsynced="lost")
    again = Query.on(left).start()
    is_committed = unsynced == "kept" and rule.operation == "sync"  # whole, though not synced
    assert again.done() == (2 if is_committed else 1)
    assert content(again.manager, 0) == expected(0, range(again.done()))
    again.stop()
    Query.on(left).run(3)
    assert [content(manage(left), partition) for partition in (0, 1)] == [expected(p, range(3)) for p in (0, 1)]


@pytest.mark.parametrize(
    "rule",
    [tear(DATA_LOG, after=10), fail("sync", DATA_LOG, call=2), tear(STATE_LOG, after=10, call=2)],
    ids=["a marker is not written", "a marker is not synced", "Complete is not written"],
)
def test_a_disk_that_fails_after_the_decision_ends_the_query_and_the_next_start_completes_it(
    faulty: tuple[FaultyFileSystem, Query], rule: Rule, disk: MemoryFileSystem
) -> None:
    filesystem, query = faulty
    transaction = query.begin()
    parts = query.write(transaction, 0)
    rule = Rule(rule.operation, rule.path, rule.call, False, rule.error, rule.amount)
    filesystem.rules.append(rule)
    with pytest.raises(StorageError):
        query.commit(transaction, 0, parts)
    assert rule.struck == 1
    with pytest.raises(TransactionRefusedError, match="cannot be aborted"):
        query.coordinator.abort(transaction)
    again = Query.on(disk.crash(0)).start()
    assert again.done() == 1
    assert [content(again.manager, partition) for partition in (0, 1)] == [values_of(0, 0), values_of(0, 1)]


def test_the_indexes_of_aborted_transactions_are_on_disk_below_the_recovery_points(disk: MemoryFileSystem) -> None:
    query = Query.on(disk).start()
    query.abort_batch(0)
    query.run_batch(0)
    with manage(disk.crash(0, unsynced="lost")) as manager:
        for partition in PARTITIONS:
            assert len(manager.open_log(*partition).segments.active.txn_index.entries) == 1


def test_no_other_process_truncates_or_deletes_a_log_while_its_recovery_point_is_written(
    query: Query, disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: dict[TopicPartition, bool] = {}
    write = LogManager.write_recovery_points

    def noting(manager: LogManager, offsets: Mapping[TopicPartition, int]) -> None:
        locked.update({each: manage(disk).is_append_locked(*each) for each in offsets})
        write(manager, offsets)

    monkeypatch.setattr(LogManager, "write_recovery_points", noting)
    query.run_batch(0)
    assert locked == dict.fromkeys([*PARTITIONS, (GROUP_METADATA_TOPIC, 0)], True)
    assert not manage(disk).is_append_locked(*PARTITIONS[0])


def test_snapshots_and_checkpoints_that_cannot_be_written_stop_nothing(
    faulty: tuple[FaultyFileSystem, Query],
) -> None:
    filesystem, query = faulty
    rule = fail("rename", "*-offset-checkpoint", lasting=True)
    filesystem.rules.append(rule)
    query.run_batch(0)
    query.run_batch(1)
    assert rule.struck
    assert None not in [query.manager.opened_log(*partition) for partition in PARTITIONS]
    assert content(query.manager, 0) == expected(0, range(2))


def test_tasks_whose_sync_fails_say_so_and_the_batch_can_be_tried_again(disk: MemoryFileSystem) -> None:
    filesystem = FaultyFileSystem(disk, [fail("sync", DATA_LOG, call=2)])
    query = Query(disk, manage(disk), LogManager.open("/logs", clock=disk.clock, filesystem=filesystem)).start()
    transaction = query.begin()
    with pytest.raises(StorageError):
        query.write(transaction, 0)
    query.coordinator.abort(transaction)
    query.run_batch(0)
    assert content(query.manager, 1) == values_of(0, 1)


# --- producer ids


def test_producer_ids_begin_above_any_brokers_and_are_never_used_twice(disk: MemoryFileSystem) -> None:
    ids = []
    for name in ("a", "b", "c"):
        with TransactionCoordinator.open(manage(disk), name) as coordinator:
            ids.append(coordinator.begin(PARTITIONS).producer_id)
    assert ids == [2**40, 2**40 + 1, 2**40 + 2]


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"next_producer_id": "x"}', b'{"next_producer_id": 5}'])
def test_if_the_next_producer_id_is_lost_ids_continue_above_all_known_ones(
    disk: MemoryFileSystem, content: bytes | None
) -> None:
    with TransactionCoordinator.open(manage(disk), "a") as coordinator:
        coordinator.begin(PARTITIONS)
    path = file_names.join("/logs", PRODUCER_IDS_FILE)
    if content is None:
        disk.remove(path)
    else:
        with disk.open(path, "create") as file:
            file.truncate(0)
            file.write(0, content)
    with TransactionCoordinator.open(manage(disk), "b") as coordinator:
        assert coordinator.begin(PARTITIONS).producer_id == FIRST_PRODUCER_ID + 1


def test_a_new_transactional_id_gets_no_producer_id_that_its_partitions_know(disk: MemoryFileSystem) -> None:
    with manage(disk) as manager:
        IdempotentProducer(manager).append(TOPIC, 1, records([b"plain"]))
    set_back_producer_ids(disk)
    query = Query.on(disk).start()
    query.run_batch(0)
    assert state_of(disk).producer_id == FIRST_PRODUCER_ID + 1
    assert content(query.manager, 1) == [b"plain", *values_of(0, 1)]


@pytest.mark.parametrize("foreign_epoch", [1, 5])
def test_a_transactional_id_changes_its_producer_id_if_a_partition_knows_another_user_of_it(
    disk: MemoryFileSystem, foreign_epoch: int
) -> None:
    """As when a partition's directory is copied from another log directory, whose ids begin at the same number."""
    query = Query.on(disk).start()
    query.run_batch(0)
    foreign = Producer(FIRST_PRODUCER_ID, foreign_epoch)
    log = manage(disk).open_log(TOPIC, 1)
    log.append_transactional(encoded(b"foreign"), foreign)
    log.end_transaction(Producer(foreign.id, foreign.epoch + 1), commit=True)
    log.close()
    for _ in range(3):  # the driver may not have seen the copy yet: then the first try is refused
        with suppress(InvalidProducerEpochError, TransactionAbortedError):
            transaction = query.begin()
            query.commit(transaction, 1, query.write(transaction, 1))
            break
    assert query.done() == 2
    assert content(query.manager, 0) == expected(0, range(2))
    assert content(query.manager, 1) == [*values_of(0, 1), b"foreign", *values_of(1, 1)]
