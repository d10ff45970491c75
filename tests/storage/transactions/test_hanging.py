"""Hanging transactions are found, named, and ended by hand; those that a coordinator ends are left to it."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import InvalidTxnStateError, LogDirLockedError, UnknownTopicOrPartitionError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.format.internal.internal_topics import TransactionState
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.hanging import (
    abort_transaction,
    find_hanging,
    hanging_transactions,
    holding_transaction,
)
from pyspark_commitlog.storage.transactions.states import TransactionStates
from pyspark_commitlog.storage.transactions.transaction import grouped
from pyspark_commitlog.storage.transactions.writer import TransactionalWriter
from tests.support.clock import ManualClock
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, append, committed, end_transaction, rows, write_transactional
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.logs.transactions import encoded

MINUTE_MS = 60_000


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    """Topic t of two partitions; the first has a record, one of a transaction that nobody knows, and another."""
    opened = LogManager.open(directory_with_internal_topics(tmp_path / "log"), clock=ManualClock(NOW_MS))
    opened.create_topic("t", partitions=2)
    log = opened.open_log("t", 0)
    append(log, b"before")
    write_transactional(log, 7, 0, b"hangs", epoch=3)
    append(log, b"behind")
    return opened


def test_an_abort_marker_ends_it_and_later_records_are_read(manager: LogManager) -> None:
    assert committed(manager.open_reader("t", 0)) == [(0, b"before")]
    ended = abort_transaction(manager, "t", 0, 1)
    assert ended == (7, 3, 1, NOW_MS)
    reader = manager.open_reader("t", 0)
    assert committed(reader) == [(0, b"before"), (2, b"behind")]
    assert (reader.last_stable_offset, reader.log_end_offset) == (4, 4)
    producer = reader.producers.last_entry(7)
    assert producer is not None
    assert (producer.epoch, producer.coordinator_epoch, producer.in_transaction) == (3, 0, False)
    assert find_hanging(manager, max_timeout_ms=0) == []


def test_the_marker_is_that_of_a_brokers_request_to_write_one(manager: LogManager) -> None:
    """WriteTxnMarkers: the producer's epoch, and the latest coordinator epoch that the partition saw."""
    log = manager.open_log("t", 1)
    write_transactional(log, 7, 0, b"a")
    end_transaction(log, 7, commit=True, coordinator_epoch=5)
    write_transactional(log, 7, 1, b"b")
    abort_transaction(manager, "t", 1, 2)
    found = log.producers.last_entry(7)
    assert found is not None
    assert found.coordinator_epoch == 5
    assert rows(manager.open_reader("t", 1)) == [(0, b"a"), (2, b"b")]
    assert committed(manager.open_reader("t", 1)) == [(0, b"a")]


def test_a_dry_run_writes_nothing(manager: LogManager) -> None:
    assert abort_transaction(manager, "t", 0, 1, dry_run=True).producer_id == 7
    assert manager.open_reader("t", 0).log_end_offset == 3


@pytest.mark.parametrize(
    ("partition", "offset", "said"),
    [
        (("t", 0), 2, "no open transaction begins at offset 2; open transactions begin at 1 (producer 7)"),
        (("t", 1), 0, "no open transaction begins at offset 0; none is open there"),
    ],
)
def test_if_none_begins_there_the_open_ones_are_listed(
    partition: tuple[str, int], offset: int, said: str, manager: LogManager
) -> None:
    with pytest.raises(InvalidTxnStateError, match=re.escape(said)):
        abort_transaction(manager, *partition, offset)
    with pytest.raises(UnknownTopicOrPartitionError):
        abort_transaction(manager, "t", 9, 0)


def write(manager: LogManager, coordinator: TransactionCoordinator, partition: int) -> int:
    """Writes a record in a new transaction; returns its producer's id."""
    transaction = coordinator.begin([("t", partition)])
    writer = TransactionalWriter(manager, transaction)
    writer.append("t", partition, encoded(b"x"))
    writer.sync()
    return transaction.producer_id


def test_one_whose_query_runs_is_left_to_it(manager: LogManager) -> None:
    with TransactionCoordinator.open(manager, "copy", holder="the query copy") as coordinator:
        write(manager, coordinator, 1)
        said = "transactional id 'copy' has it as Ongoing .* and is in use: .* in use by the query copy"
        with pytest.raises(InvalidTxnStateError, match=said):
            abort_transaction(manager, "t", 1, 0)
    assert manager.open_reader("t", 1).log_end_offset == 1


def test_one_whose_query_has_ended_is_left_to_retention_and_the_time_is_reported(manager: LogManager) -> None:
    coordinator = TransactionCoordinator.open(manager, "copy")
    write(manager, coordinator, 1)
    coordinator.close()
    with pytest.raises(
        InvalidTxnStateError, match=r"start its query again, .* run commitlog retain, .* from 2023-11-14"
    ):
        abort_transaction(manager, "t", 1, 0)
    clock = manager.clock
    assert isinstance(clock, ManualClock)
    clock.advance(16 * MINUTE_MS)
    with pytest.raises(InvalidTxnStateError, match="which does so now"):
        abort_transaction(manager, "t", 1, 0)


def test_one_that_its_coordinator_does_not_know_in_the_partition_hangs(manager: LogManager) -> None:
    coordinator = TransactionCoordinator.open(manager, "copy")
    producer_id = write(manager, coordinator, 1)
    coordinator.close()
    states = TransactionStates(manager)
    known = states.newest("copy")
    assert known is not None
    # as the bug that KIP-664 was made for leaves it: the partition is not in the state
    aborting = replace(
        known,
        transaction_status=TransactionState.PREPARE_ABORT,
        transaction_partitions=grouped([("t", 0)]),
        producer_epoch=known.producer_epoch + 1,
    )
    states.replace("copy", known, aborting)
    [found] = [each for each in find_hanging(manager, max_timeout_ms=0) if each.producer_id == producer_id]
    assert [each[:3] for each in found.partitions] == [("t", 1, 0)]
    abort_transaction(manager, "t", 1, 0)
    assert manager.open_reader("t", 1).last_stable_offset == 2


def test_young_transactions_are_not_reported_as_hanging(manager: LogManager) -> None:
    assert find_hanging(manager) == []
    clock = manager.clock
    assert isinstance(clock, ManualClock)
    clock.advance(15 * MINUTE_MS)
    [found] = find_hanging(manager)
    assert (found.state, [each[:3] for each in found.partitions]) == ("Unknown", [("t", 0, 1)])


def test_the_first_of_several_is_the_one_that_is_waited_for(manager: LogManager) -> None:
    log = manager.open_log("t", 0)
    write_transactional(log, 8, 0, b"later")
    assert holding_transaction(manager.open_reader("t", 0)) == (7, 3, 1, NOW_MS)
    abort_transaction(manager, "t", 0, 1)
    assert holding_transaction(manager.open_reader("t", 0)) == (8, 0, 3, NOW_MS)
    abort_transaction(manager, "t", 0, 3)
    assert holding_transaction(manager.open_reader("t", 0)) is None


def test_while_a_broker_runs_it_is_refused(manager: LogManager, tmp_path: Path) -> None:
    manager.close()
    broker = LocalFileSystem().lock_as_broker(str(tmp_path / "log" / ".lock"))
    assert broker is not None
    with broker, pytest.raises(LogDirLockedError):
        abort_transaction(manager, "t", 0, 1)
    assert manager.open_reader("t", 0).log_end_offset == 3


def test_a_brokers_hanging_transaction_is_ended(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    ignored = shutil.ignore_patterns("__transaction_state-*")
    shutil.copytree(broker_dirs.stage("transactions/final") / "log", directory, ignore=ignored)
    with LogManager.open(str(directory)) as manager:
        before = committed(manager.open_reader("txn", 0))
        abort_transaction(manager, "txn", 0, 1613)
        after = manager.open_reader("txn", 0)
        assert holding_transaction(after) is None
        assert committed(after)[: len(before)] == before
        assert manager.open_log("txn", 0).next_sequence(Producer(1, 0)) > 0


def test_what_no_transactional_id_has_is_named_with_the_command_that_ends_it(manager: LogManager) -> None:
    here = TopicPartition("t", 0)
    (found,) = hanging_transactions(manager, here, manager.open_reader("t", 0))
    assert found.transaction == (7, 3, 1, NOW_MS)
    command = f"commitlog transactions --log-dir {manager.directory} --abort --topic t --partition 0 --start-offset 1"
    assert str(found).endswith(f"abort it: {command}")
    abort_transaction(manager, "t", 0, 1)
    assert hanging_transactions(manager, here, manager.open_reader("t", 0)) == []


def test_what_a_coordinator_or_retention_ends_is_not_named(manager: LogManager) -> None:
    with TransactionCoordinator.open(manager, "app") as coordinator:
        transaction = coordinator.begin([("t", 1)])
        writer = TransactionalWriter(manager, transaction)
        writer.append("t", 1, encoded(b"open"))
        writer.sync()
        assert hanging_transactions(manager, TopicPartition("t", 1), manager.open_reader("t", 1)) == []
        coordinator.abort(transaction)
