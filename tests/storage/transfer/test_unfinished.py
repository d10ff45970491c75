"""A copy to a directory that fails at any change of the disk: nothing looks complete that is not, and it goes on."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from pyspark_commitlog.storage.directory.admin import delete_topic
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import LogStoreError, TopicExistsError
from pyspark_commitlog.storage.format.files.file_names import unfinished_directory
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus
from pyspark_commitlog.storage.maintenance.partitions import in_this_process, verify_partitions
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from pyspark_commitlog.storage.transfer.to_directory import copy_to_directory
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import append, rows

VALUES = [b"a", b"b", b"c"]
LONGEST = "t" * 249  # no room for another ending of the directory's name


@pytest.fixture(params=["t", LONGEST])
def source(request: pytest.FixtureRequest) -> LogManager:
    disk = MemoryFileSystem()
    manager = LogManager.open("/source", create=True, filesystem=disk)
    manager.create_topic(request.param, partitions=2, configs={"segment.index.bytes": "1000"})
    for value in VALUES:
        append(manager.open_log(request.param, 1), value)
        manager.open_log(request.param, 1).roll()
    manager.close()
    return LogManager.open("/source", filesystem=disk)


def states(disk: MemoryFileSystem) -> dict[int, OutcomeStatus]:
    run = MaintenanceRun("/copy", filesystem=disk)
    with run.manager() as manager:
        selection = select_partitions(manager, [], ConfigOverrides())
    return {each.partition: each.status for each in verify_partitions(run, selection, in_this_process)}


def copied(source: LogManager, disk: FaultyFileSystem | MemoryFileSystem) -> None:
    with LogManager.open("/copy", create=True, filesystem=disk) as target:
        list(copy_to_directory(source, target))


def values(disk: MemoryFileSystem, partition: int) -> list[bytes | None]:
    with LogManager.open("/copy", filesystem=disk) as target:
        (topic,) = target.topics()
        with target.open_reader(topic, partition) as reader:
            return [value for _, value in rows(reader)]


@pytest.mark.parametrize("operation", ["write", "rename", "sync_directory", "open"])
def test_a_copy_that_a_full_disk_ends_is_visibly_unfinished_and_goes_on(source: LogManager, operation: str) -> None:
    without_a_topic = 0  # how often the disk was full before there was a topic
    for number in range(1, 200):
        disk = MemoryFileSystem()
        with LogManager.open("/copy", create=True, filesystem=disk):
            pass
        faulty = FaultyFileSystem(disk, [fail(operation, "/copy/*", call=number, error=errno.ENOSPC)])
        try:
            copied(source, faulty)
        except (OSError, LogStoreError):
            pass
        else:
            break
        if disk.status("/copy/topics.json") is not None:
            for partition, status in states(disk).items():
                is_whole = status is OutcomeStatus.DONE
                assert not is_whole or values(disk, partition) == (VALUES if partition else [])
        elif any(name.endswith(".unfinished") for name in disk.list("/copy")):
            assert states(disk) == {-1: OutcomeStatus.DAMAGED}
            without_a_topic += 1
        with suppress(TopicExistsError):  # all is there: only the last sync failed
            copied(source, disk)
        assert states(disk) == {0: OutcomeStatus.DONE, 1: OutcomeStatus.DONE}
        assert (values(disk, 0), values(disk, 1)) == ([], VALUES)
    assert number > 3
    assert without_a_topic or operation == "write"


def test_an_unfinished_copy_goes_with_its_topic_and_leaves_that_of_another(source: LogManager) -> None:
    disk = MemoryFileSystem()
    (topic,) = source.topics()
    other = unfinished_directory(topic[:-1] + "u", 0)
    disk.make_directory(f"/copy/{other}")
    with suppress(OSError):
        copied(source, FaultyFileSystem(disk, [fail("rename", "*.unfinished", error=errno.ENOSPC)]))
    with LogManager.open("/copy", filesystem=disk) as target:
        delete_topic(target, topic)
    assert [name for name in disk.list("/copy") if name.startswith(("t-", "u-", "tt"))] == [other]


def test_an_unfinished_copy_is_not_completed_from_another_topic_of_its_name(source: LogManager) -> None:
    disk, (topic,) = MemoryFileSystem(), source.topics()
    with LogManager.open("/copy", create=True, filesystem=disk) as target:
        next(copy_to_directory(source, target))
    with LogManager.open("/other", create=True, filesystem=MemoryFileSystem()) as other:
        other.create_topic(topic, partitions=2)
        append(other.open_log(topic, 1), b"other")
        with pytest.raises(TopicExistsError, match="an unfinished copy of another topic of this name"):
            copied(other, disk)
    copied(source, disk)
    assert (values(disk, 0), values(disk, 1)) == ([], VALUES)
