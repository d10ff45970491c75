"""Snapshots of producers on disks where a process was killed, or the power went, while one was written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.checkpoints import ProducerEntry, decode_snapshot
from pyspark_commitlog.storage.recovery.producer_snapshots import write_snapshot
from pyspark_commitlog.storage.recovery.producer_state_manager import ProducerStateManager
from pyspark_commitlog.storage.segment.walk import LogContext
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort

DIRECTORY = "/p-0"
OLD, NEW = (ProducerEntry(1, 0, 9, 9, 0, time_ms, 0, -1) for time_ms in (1, 2))
END = 10


def write(disk: MemoryFileSystem, entry: ProducerEntry, *, sync: bool) -> None:
    producers = ProducerStateManager(DIRECTORY)
    producers.load([entry], 0, END)
    write_snapshot(LogContext(DIRECTORY, LogConfig(), ManualClock(), disk), producers, sync=sync)


def snapshots(disk: MemoryFileSystem) -> Iterator[ProducerEntry]:
    for name in disk.list(DIRECTORY):
        if name.endswith(file_names.SNAPSHOT):
            with disk.open(f"{DIRECTORY}/{name}", "read") as file:
                yield from decode_snapshot(bytes(file.read(0, 1000)))


def partition(*stored: ProducerEntry) -> MemoryFileSystem:
    """A disk of a partition with synced snapshots, one or none."""
    disk = MemoryFileSystem()
    disk.make_directory(DIRECTORY)
    for entry in stored:
        write(disk, entry, sync=True)
    disk.sync_directory(DIRECTORY)
    disk.sync_directory("/")
    return disk


@pytest.mark.parametrize("stored", [(), (OLD,)], ids=["the first", "another one"])
@pytest.mark.parametrize("sync", [False, True])
def test_a_killed_process_leaves_no_unfinished_snapshot(stored: tuple[ProducerEntry, ...], *, sync: bool) -> None:
    kills = list(Effort().killed(lambda disk: write(disk, NEW, sync=sync), partition(*stored)))
    assert kills
    for operation, left in kills:
        assert [*snapshots(left.copy())] in ([*stored], [NEW]), operation


@pytest.mark.parametrize("sync", [False, True])
def test_a_power_cut_leaves_the_snapshot_that_was_replaced_or_the_new_one(*, sync: bool) -> None:
    cuts = list(Effort(seeds=20).cut(lambda disk: write(disk, NEW, sync=sync), partition(OLD)))
    assert cuts
    for operation, left in cuts:
        assert [*snapshots(left)] in ([OLD], [NEW]), operation
