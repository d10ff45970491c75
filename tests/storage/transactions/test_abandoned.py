"""Transactions that nobody holds are listed, aborted or completed, and idle transactional ids are forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_commitlog.storage.directory.admin import delete_topic
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.reserve import RESERVE_FILE
from pyspark_commitlog.storage.errors import (
    LogStoreError,
    StorageError,
    TransactionRefusedError,
)
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.transactions import abandoned
from pyspark_commitlog.storage.transactions.abandoned import (
    Resolution,
    expire_transactional_ids,
    open_transactions,
    resolve,
    resolve_dead_transactions,
)
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.producer_ids import FIRST_PRODUCER_ID
from pyspark_commitlog.storage.transactions.states import TransactionStates
from tests.support.disk.disks import digest_of
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail, tear
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import write_transactional
from tests.support.logs.transactions import (
    APP,
    PARTITIONS,
    TOPIC,
    Query,
    clock_of,
    content,
    encoded,
    expected,
    manage,
    values_of,
)

DATA_LOG = "*/t-1/*.log"


def test_an_open_transaction_is_listed_with_its_age_and_what_it_holds_back(
    query: Query, disk: MemoryFileSystem
) -> None:
    query.run_batch(0)
    query.write(query.begin(), 1)
    clock_of(disk).advance(5000)
    (found,) = open_transactions(manage(disk))
    assert (found.transactional_id, found.producer_id, found.epoch) == (APP, FIRST_PRODUCER_ID, 1)
    assert (found.state, found.timeout_ms) == ("Ongoing", 900_000)
    assert 5000 <= found.age_ms < 6000
    assert [(part.topic, part.partition, part.first_offset) for part in found.partitions] == [
        (TOPIC, 0, 4),
        (TOPIC, 1, 4),
    ]
    assert all(part.holds_back for part in found.partitions)


def test_a_dead_querys_transaction_is_aborted_when_its_timeout_is_over(disk: MemoryFileSystem) -> None:
    dead = Query.on(disk).start()
    transaction = dead.begin()
    parts = dead.write(transaction, 0)
    clock_of(disk).advance(transaction.timeout_ms + 1)
    (held,) = resolve_dead_transactions(manage(disk))
    assert held.resolution is Resolution.KEPT
    assert "in use by a query" in held.reason
    disk.lose_locks()
    (asked,) = resolve_dead_transactions(manage(disk), dry_run=True)
    assert asked.resolution is Resolution.ABORTED
    assert len(open_transactions(manage(disk))) == 1
    (done,) = resolve_dead_transactions(manage(disk))
    assert (done.resolution, done.reason) == (Resolution.ABORTED, "older than its timeout")
    assert open_transactions(manage(disk)) == []
    log = manage(disk).open_reader(TOPIC, 0)
    assert log.last_stable_offset == log.log_end_offset == 4
    with pytest.raises(TransactionRefusedError):
        dead.commit(transaction, 0, parts)
    Query.on(disk).run(1)
    assert content(manage(disk), 0) == values_of(0, 0)


def test_a_dry_run_writes_nothing(disk: MemoryFileSystem) -> None:
    dead = Query.on(disk).start()
    transaction = dead.begin()
    dead.write(transaction, 0)
    clock_of(disk).advance(transaction.timeout_ms + 1)
    before = digest_of(disk)
    (held,) = resolve_dead_transactions(manage(disk), dry_run=True)
    assert held.resolution is Resolution.KEPT
    assert "in use by a query" in held.reason
    disk.lose_locks()
    (planned,) = resolve_dead_transactions(manage(disk), dry_run=True)
    assert (planned.resolution, planned.reason) == (Resolution.ABORTED, "older than its timeout")
    assert digest_of(disk) == before


@pytest.mark.parametrize("full", ["*/__transaction_state-0/*.log", DATA_LOG], ids=["decision", "marker"])
def test_a_transaction_is_ended_in_the_room_of_the_reserve_if_the_disk_is_full(
    full: str, disk: MemoryFileSystem
) -> None:
    dead = Query.on(disk).start()
    transaction = dead.begin()
    dead.write(transaction, 0)
    clock_of(disk).advance(transaction.timeout_ms + 1)
    disk.lose_locks()
    filesystem, failures = FaultyFileSystem(disk, [tear(full, after=0)]), list[LogStoreError]()
    with LogManager.open("/logs", clock=disk.clock, filesystem=filesystem) as manager:
        (done,) = resolve_dead_transactions(manager, failures=failures)
    assert filesystem.rules[0].struck
    assert (done.resolution, failures) == (Resolution.ABORTED, [])
    assert disk.status(f"/logs/{RESERVE_FILE}") is None
    assert open_transactions(manage(disk)) == []


def test_a_transaction_that_nobody_holds_is_kept_until_its_timeout(disk: MemoryFileSystem) -> None:
    """A batch write holds no lock between its planning and its commit."""
    with Query.on(disk).start().coordinator as planning:
        transaction = planning.begin(PARTITIONS)
    parts = Query.on(disk).write(transaction, 0)
    (found,) = resolve_dead_transactions(manage(disk))
    assert (found.resolution, found.reason) == (Resolution.KEPT, "its transaction.timeout.ms of 900000 has not passed")
    TransactionCoordinator.resume(manage(disk), transaction).commit(transaction, parts)
    assert resolve_dead_transactions(manage(disk)) == []


def test_what_a_dead_query_decided_is_carried_out_whatever_its_age(
    faulty: tuple[FaultyFileSystem, Query], disk: MemoryFileSystem
) -> None:
    filesystem, query = faulty
    transaction = query.begin()
    parts = query.write(transaction, 0)
    filesystem.rules.append(fail("sync", DATA_LOG, call=2))  # of the marker: before it comes that of the records
    with pytest.raises(StorageError):
        query.commit(transaction, 0, parts)
    left = disk.copy()
    (found,) = resolve_dead_transactions(manage(left))
    assert (found.resolution, found.transaction.state) == (Resolution.COMMITTED, "PrepareCommit")
    assert [content(manage(left), partition) for partition in (0, 1)] == [values_of(0, 0), values_of(0, 1)]
    assert resolve_dead_transactions(manage(left)) == []


def test_a_transaction_of_a_superseded_epoch_is_aborted(disk: MemoryFileSystem) -> None:
    query = Query.on(disk).start()
    stale = query.begin()
    query.coordinator.abort(stale)
    query.run_batch(0)
    query.stop()
    with manage(disk) as manager:  # a writer without the check, on a partition that never saw the markers
        manager.create_topic("u", partitions=1, configs={"segment.index.bytes": "1000"})
        manager.open_log("u", 0).append_transactional(encoded(b"lost"), stale.producer)
    (found,) = resolve_dead_transactions(manage(disk))
    assert (found.transaction.state, found.resolution) == ("Superseded", Resolution.ABORTED)
    log = manage(disk).open_reader("u", 0)
    assert log.last_stable_offset == log.log_end_offset == 2
    assert resolve_dead_transactions(manage(disk)) == []


@pytest.mark.parametrize("is_decided", [False, True], ids=["ongoing", "decided"])
def test_a_transaction_begun_and_decided_during_the_search_is_not_an_old_one(
    faulty: tuple[FaultyFileSystem, Query], disk: MemoryFileSystem, is_decided: bool
) -> None:
    """A process that read the states before it began, and the partitions after it wrote, sees unexplained records."""
    filesystem, query = faulty
    query.run_batch(0)
    transaction = query.begin()
    parts = query.write(transaction, 1)
    (found,) = open_transactions(manage(disk))
    if is_decided:
        filesystem.rules.append(fail("write", "*/t-*/*.log"))
        with pytest.raises(StorageError):
            query.commit(transaction, 1, parts)
    disk.lose_locks()
    seen = replace(found, state="Superseded")
    assert resolve(manage(disk), seen).resolution is Resolution.KEPT
    Query.on(disk).run(3)
    assert [content(manage(disk), partition) for partition in (0, 1)] == [expected(p, range(3)) for p in (0, 1)]


def test_a_transaction_that_followed_the_old_one_is_left_alone(disk: MemoryFileSystem) -> None:
    for _ in range(2):
        with Query.on(disk).start().coordinator as planning:
            planning.begin(PARTITIONS)
        clock_of(disk).advance(900_001)
    (found,) = open_transactions(manage(disk))
    with Query.on(disk).start().coordinator as planning:
        transaction = planning.begin(PARTITIONS)
    older = replace(found, epoch=transaction.epoch - 1)
    assert resolve(manage(disk), older).resolution is Resolution.KEPT
    TransactionCoordinator.resume(manage(disk), transaction).commit(transaction, [])


def test_a_producer_that_no_transactional_id_has_is_only_reported(disk: MemoryFileSystem) -> None:
    with manage(disk) as manager:
        write_transactional(manager.open_log(TOPIC, 0), 7, 0, b"a broker's")
    (found,) = resolve_dead_transactions(manage(disk))
    assert (found.transaction.transactional_id, found.transaction.state) == (None, "Unknown")
    assert found.resolution is Resolution.KEPT
    assert found.transaction.partitions[0].holds_back
    assert manage(disk).open_reader(TOPIC, 0).last_stable_offset == 0


def test_a_topic_that_is_deleted_during_the_search_is_no_failure(
    query: Query, disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run_batch(0)
    with manage(disk) as manager:
        listed = list(abandoned._partitions(manager))
        delete_topic(manager, TOPIC)
        monkeypatch.setattr(abandoned, "_partitions", lambda _: iter(listed))
        assert open_transactions(manager) == []


def test_transactional_ids_that_were_not_used_for_seven_days_are_forgotten(
    query: Query, disk: MemoryFileSystem
) -> None:
    query.run_batch(0)
    for name in ("once", "left open"):
        with TransactionCoordinator.open(manage(disk), name) as coordinator:
            transaction = coordinator.begin(PARTITIONS)
            if name == "once":
                coordinator.commit(transaction, [])
    assert expire_transactional_ids(manage(disk)) == []
    clock_of(disk).advance(7 * 86_400_000)
    assert expire_transactional_ids(manage(disk)) == ["once"]
    assert expire_transactional_ids(manage(disk)) == []
    assert TransactionStates(manage(disk)).newest("once") is None
    with TransactionCoordinator.open(manage(disk), "once") as coordinator:
        assert coordinator.begin(PARTITIONS).producer == Producer(FIRST_PRODUCER_ID + 3, 0)
    query.run_batch(1)
    assert content(manage(disk), 0) == expected(0, range(2))
