"""The lock of a transactional id, and the file that it is taken on."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    StorageError,
)
from pyspark_commitlog.storage.transactions.abandoned import expire_transactional_ids
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.transactions import (
    APP,
    Query,
    clock_of,
    manage,
)


def test_a_lock_whose_holder_could_not_be_noted_is_free_again_and_the_error_names_the_file(
    disk: MemoryFileSystem,
) -> None:
    filesystem = FaultyFileSystem(disk, [fail("open", "*.transaction-*", error=errno.EMFILE)])
    manager = LogManager.open("/logs", clock=disk.clock, filesystem=filesystem)
    with pytest.raises(StorageError, match=r"'app' cannot be taken over.*\.transaction-"):
        TransactionCoordinator.open(manager, APP)
    for each in (manager, manage(disk)):
        TransactionCoordinator.open(each, APP).close()


@pytest.mark.parametrize("call", range(1, 30))
def test_an_error_at_any_file_that_opening_needs_leaves_the_transactional_id_to_the_next(
    disk: MemoryFileSystem, call: int
) -> None:
    query = Query.on(disk).start()
    query.run_batch(0)
    query.coordinator.close()
    filesystem = FaultyFileSystem(disk, [fail("open", "*", call=call, error=errno.EMFILE)])
    manager = LogManager.open("/logs", clock=disk.clock, filesystem=filesystem)
    with suppress(StorageError):
        TransactionCoordinator.open(manager, APP).close()
    TransactionCoordinator.open(manage(disk), APP).close()


def test_a_lock_file_that_cannot_be_removed_excludes_no_one(disk: MemoryFileSystem) -> None:
    filesystem = FaultyFileSystem(disk, [fail("remove", "*.transaction-*", error=errno.EROFS)])
    TransactionCoordinator.open(LogManager.open("/logs", clock=disk.clock, filesystem=filesystem), APP).close()
    TransactionCoordinator.open(manage(disk), APP).close()


def test_a_kept_lock_file_excludes_no_one_and_is_removed_when_the_id_expires(disk: MemoryFileSystem) -> None:
    query = Query.on(disk).start()
    query.run_batch(0)
    query.coordinator.close(keep_lock_file=True)
    kept = [name for name in disk.list("/logs") if name.startswith(".transaction-")]
    assert len(kept) == 1
    TransactionCoordinator.open(manage(disk), APP).close(keep_lock_file=True)
    clock_of(disk).advance(8 * 24 * 3_600_000)
    assert expire_transactional_ids(manage(disk)) == [APP]
    assert not set(kept) & set(disk.list("/logs"))
