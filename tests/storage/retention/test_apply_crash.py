"""The power fails at every change of a retention: what is kept exists, and what was deleted does not return."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.retention.apply import retain
from pyspark_commitlog.storage.retention.report import RetentionReport
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, OperationName, Rule, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.disk.power_cuts import Effort
from tests.support.logs.building import NOW_MS, append, rows

DAY_MS = 86_400_000
TOPIC, PARTITION = "t", "/logs/t-0"
CONFIGS = {"retention.ms": str(5 * DAY_MS // 2), "segment.index.bytes": "120"}
ALL = [(n, b"%d" % n) for n in range(4)]


def manager_of(disk: MemoryFileSystem | FaultyFileSystem, days_later: int = 0) -> LogManager:
    return LogManager.open("/logs", clock=ManualClock(NOW_MS + days_later * DAY_MS), filesystem=disk, create=True)


def disk_with_days() -> MemoryFileSystem:
    """Offsets 0 to 3, one segment each, from four days old to one; everything is synced."""
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with manager_of(disk) as manager:
        manager.create_topic(TOPIC, partitions=1, configs=CONFIGS)
        log = manager.open_log(TOPIC, 0)
        for n in range(4):
            append(log, b"%d" % n, timestamps=NOW_MS - (4 - n) * DAY_MS)
            if n < 3:
                log.roll()
    return disk.crash(0, unsynced="kept")


@pytest.fixture(scope="module")
def written() -> MemoryFileSystem:
    return disk_with_days()


def run(disk: MemoryFileSystem | FaultyFileSystem, days_later: int) -> RetentionReport:
    with manager_of(disk, days_later) as manager:
        return retain(manager.open_log(TOPIC, 0))


def segments_kept(disk: MemoryFileSystem) -> list[int]:
    return [file_names.base_offset_of(name) or 0 for name in disk.list(PARTITION) if name.endswith(file_names.LOG)]


def check_retention(written: MemoryFileSystem, days_later: int, start: int, effort: Effort) -> Iterator[int]:
    """Power cuts while retention runs, after which the log begins at ``start``; yields where it begins after each."""
    for where, after_cut in effort.cut(lambda disk: run(disk, days_later), written):
        reader = manager_of(after_cut, days_later + 1).open_reader(TOPIC, 0)
        yield reader.log_start_offset
        assert reader.log_start_offset in (0, start), where
        assert rows(reader) == ALL[reader.log_start_offset :], where
        with manager_of(after_cut, days_later + 1) as manager:
            log = manager.open_log(TOPIC, 0)
            assert (log.log_start_offset, log.log_end_offset) == (reader.log_start_offset, 4), where
            assert rows(log) == ALL[log.log_start_offset :], where


SITUATIONS = {"two segments go": (0, 2), "all go, and the active one is rolled": (9, 4)}


@pytest.mark.parametrize(("days_later", "start"), SITUATIONS.values(), ids=SITUATIONS)
def test_a_crash_neither_loses_what_is_kept_nor_brings_back_what_went(
    written: MemoryFileSystem, days_later: int, start: int
) -> None:
    assert set(check_retention(written, days_later, start, Effort(seeds=4))) == {0, start}


def test_a_run_after_a_crash_ends_where_the_first_would_have(written: MemoryFileSystem) -> None:
    for operation, disk in crash_points(lambda each: run(each, 0), written):
        crashed = disk.crash(7)
        run(crashed, 0)
        assert segments_kept(crashed) == [2, 3], operation
        run(crashed, 1)  # more than file.delete.delay.ms later; what is three days old by then is deleted, too
        gone = [
            name for name in crashed.list(PARTITION) if (file_names.base_offset_of(name) or 0) < 2 and name[0] == "0"
        ]
        assert gone == [], operation
        with manager_of(crashed, 1) as manager:
            log = manager.open_log(TOPIC, 0)
            append(log, b"4")
            assert rows(log) == [(3, b"3"), (4, b"4")], operation


@pytest.mark.parametrize("kind", ["set_modified", "rename", "sync_directory"])
def test_after_an_error_of_the_disk_the_log_refuses_and_opening_it_helps(
    written: MemoryFileSystem, kind: OperationName
) -> None:
    disk, rules = written.copy(), list[Rule]()
    manager = manager_of(FaultyFileSystem(disk, rules))
    log = manager.open_log(TOPIC, 0)
    rules.append(fail(kind, f"{PARTITION}*", error=errno.EIO, lasting=True))
    with pytest.raises(StorageError):
        retain(log)
    assert rules[0].struck
    rules.clear()
    assert log.failure is not None
    with pytest.raises(StorageError, match="open the log again"):
        append(log, b"4")
    manager.close()
    run(disk, 0)
    assert segments_kept(disk) == [2, 3]
