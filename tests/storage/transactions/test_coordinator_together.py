"""Concurrent transactions: tasks in several processes, compaction and retention between all steps, many queries."""

from __future__ import annotations

import multiprocessing
import pickle
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import TransactionRefusedError
from pyspark_commitlog.storage.format.internal.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.retention.apply import retain
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.transaction import TransactionPart
from pyspark_commitlog.storage.transactions.writer import TransactionalWriter
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import committed
from tests.support.logs.transactions import APP, PARTITIONS, SINK, TOPIC, Query, content, encoded, expected, manage

SPAWN = multiprocessing.get_context("spawn")  # as Spark's workers: nothing is inherited
TASKS, RECORDS = 3, 40


def run_task(directory: str, ticket: bytes, task: int) -> None:
    """A task, and a late one, which continues until it is refused."""
    transaction = pickle.loads(ticket)
    with LogManager.open(directory) as manager:
        writer = TransactionalWriter(manager, transaction)
        for n in range(RECORDS):
            for partition in PARTITIONS:
                writer.append(*partition, encoded(b"%d.%d.%d" % (transaction.epoch, task, n)))
        writer.sync()


def run_until_refused(directory: str, ticket: bytes, began: Event) -> None:
    with LogManager.open(directory) as manager:
        writer = TransactionalWriter(manager, pickle.loads(ticket))
        with pytest.raises(TransactionRefusedError):
            append_for_ever(writer, began)


def append_for_ever(writer: TransactionalWriter, began: Event) -> None:
    while True:
        writer.append(*PARTITIONS[0], encoded(b"late"))
        began.set()


def test_tasks_of_several_processes_write_one_transaction(tmp_path: Path) -> None:
    directory = str(tmp_path)
    manager = LogManager.open(directory, create=True)
    manager.create_topic(TOPIC, partitions=2, configs={"segment.bytes": "3000"})
    with TransactionCoordinator.open(manager, APP) as coordinator:
        transaction = coordinator.begin(PARTITIONS, groups=[APP])
        run_processes(run_task, [(directory, pickle.dumps(transaction), task) for task in range(TASKS)])
        parts = [TransactionPart(*partition, RECORDS) for partition in PARTITIONS for _ in range(TASKS)]
        coordinator.commit(transaction, parts, {APP: {SINK: CommittedOffset(1)}})
        check_aborting_under_a_running_task(directory, coordinator)
    for partition in PARTITIONS:
        values = [value or b"" for _, value in committed(manager.open_reader(*partition))]
        of_tasks = [[value for value in values if value.startswith(b"0.%d." % task)] for task in range(TASKS)]
        assert of_tasks == [[b"0.%d.%d" % (task, n) for n in range(RECORDS)] for task in range(TASKS)]
        assert len(values) == TASKS * RECORDS


def run_processes(target: object, arguments: list[tuple[object, ...]]) -> None:
    processes = [SPAWN.Process(target=target, args=each) for each in arguments]  # type: ignore[arg-type]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def check_aborting_under_a_running_task(directory: str, coordinator: TransactionCoordinator) -> None:
    """Everything that it appended is before the marker."""
    transaction, began = coordinator.begin(PARTITIONS), SPAWN.Event()
    process = SPAWN.Process(target=run_until_refused, args=(directory, pickle.dumps(transaction), began))
    process.start()
    assert began.wait(60)
    coordinator.abort(transaction)
    process.join()
    assert process.exitcode == 0
    log = LogManager.open(directory).open_reader(*PARTITIONS[0])
    assert log.last_stable_offset == log.log_end_offset


@pytest.fixture
def small_segments() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    small = {"segment.index.bytes": "1000", "segment.bytes": "1000"}
    with manage(disk) as manager:
        manager.create_topic(TOPIC, partitions=2, configs={**small, "retention.bytes": "3000"})
        for internal in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
            manager.create_topic(internal, partitions=1, configs={**small, "cleanup.policy": "compact"})
    return disk


def maintain(manager: LogManager) -> None:
    """Compaction of the internal topics, retention of the other one."""
    now_ms = manager.clock.now_ms()
    for internal in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
        Cleaner().clean(manager.open_log(internal, 0), None, now_ms + 10 * 86_400_000)
    for partition in PARTITIONS:
        retain(manager.open_log(*partition))


def test_compaction_and_retention_between_all_steps_change_nothing(small_segments: MemoryFileSystem) -> None:
    query, maintenance = Query.on(small_segments).start(), manage(small_segments)
    for batch in range(12):
        transaction = query.begin()
        maintain(maintenance)
        parts = query.write(transaction, batch)
        maintain(maintenance)
        if batch % 4 == 3:
            query.coordinator.abort(transaction)
            maintain(maintenance)
            transaction = query.begin()
            parts = query.write(transaction, batch)
        query.commit(transaction, batch, parts)
        maintain(maintenance)
        assert query.done() == batch + 1
    internal = maintenance.open_reader(TRANSACTION_STATE_TOPIC, 0)
    assert sum(len(part) for part in internal.records(0, internal.log_end_offset)) < 20
    for partition in (0, 1):
        found, written = content(query.manager, partition), expected(partition, range(12))
        assert 0 < len(found) < len(written)
        assert found == written[-len(found) :]
    query.stop()
    assert Query.on(small_segments).run(13).done() == 13


def test_queries_of_one_directory_do_not_disturb_each_other(small_segments: MemoryFileSystem) -> None:
    """Their transactions are open at once, in the same partitions."""
    managers = [manage(small_segments) for _ in range(4)]
    names = [f"query {n}" for n in range(4)]
    coordinators = [TransactionCoordinator.open(each, name) for each, name in zip(managers, names, strict=True)]
    for batch in range(3):
        transactions = [each.begin(PARTITIONS, groups=[each.transactional_id]) for each in coordinators]
        for manager, transaction in zip(managers, transactions, strict=True):
            writer = TransactionalWriter(manager, transaction)
            writer.append(TOPIC, 0, encoded(b"%d" % batch + transaction.transactional_id.encode()))
            writer.sync()
        for n, (coordinator, transaction) in enumerate(zip(coordinators, transactions, strict=True)):
            if n % 2:
                coordinator.abort(transaction)
            else:
                offsets = {coordinator.transactional_id: {SINK: CommittedOffset(batch + 1)}}
                coordinator.commit(transaction, [TransactionPart(TOPIC, 0, 1)], offsets)
    assert content(managers[0], 0) == [b"%dquery %d" % (batch, n) for batch in range(3) for n in (0, 2)]
    groups = GroupOffsets(managers[1])
    assert [groups.fetch(name) for name in names] == [{SINK: CommittedOffset(3)}, {}] * 2
