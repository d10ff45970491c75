"""What crashes and power cuts leave of a log from which records are erased."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.writing.log import Log
from tests.storage.erasure.test_one_log import ANN, IDA, ROSE, Found, erased, found, without
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.logs.building import NOW_MS, config, records

SEGMENTS = [[ANN, IDA], [ANN], [ROSE, ANN, IDA], [IDA]]


@contextmanager
def a_log(disk: MemoryFileSystem) -> Iterator[Log]:
    settings = config(segment_index_bytes=240)  # the disk in memory keeps every zero of a preallocated index
    with Log.open("/p-0", settings, clock=disk.clock, filesystem=disk) as log:
        yield log


def filled() -> tuple[MemoryFileSystem, list[Found]]:
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with a_log(disk) as log:
        for n, keys in enumerate(SEGMENTS):
            fields = v2.BatchFields(producer_id=5, producer_epoch=0, base_sequence=log.log_end_offset)
            log.append(v2.encode(records([b"%d" % n] * len(keys), keys=keys), fields))
            if n < len(SEGMENTS) - 1:
                log.roll()
        return disk, found(log)


def erase_all(disk: MemoryFileSystem) -> None:
    with a_log(disk) as log:
        erased(log, ANN)


def logs_with_trace(disk: MemoryFileSystem) -> list[str]:
    """The ``.log`` files, also those on their way out, that have the key in their bytes."""
    paths = [file_names.join("/p-0", name) for name in disk.list("/p-0") if file_names.LOG in name]
    return [path for path in paths if ANN in bytes(disk.open(path, "read").read(0, 10_000))]


@pytest.mark.parametrize("effort", [Effort(every=3, seeds=2), Effort(every=4, first=2, with_kills=True)])
def test_each_segment_is_old_or_new_and_the_next_run_completes(effort: Effort) -> None:
    start, old = filled()
    new, seen = without(old, ANN), set()
    for where, disk in effort.cut(erase_all, start):
        with a_log(disk) as log:
            left = found(log)
            assert log.log_end_offset == 7, where
            assert [row for row in left if row[2] != ANN] == new, where
            assert [row for row in old if row in left] == left, where
            seen.add(len(left))
            erased(log, ANN)
            assert found(log) == new, where
            log.append(v2.encode(records([b"next"]), v2.BatchFields(producer_id=5, producer_epoch=0, base_sequence=7)))
        assert not logs_with_trace(disk), where
    assert {len(old), len(new)} <= seen


def test_the_power_may_fail_again_while_the_next_run_completes() -> None:
    start, old = filled()
    for where, disk in Effort(every=29).cut(erase_all, start):
        for second, again in Effort(every=17).cut(erase_all, disk):
            erase_all(again)
            with a_log(again) as log:
                assert found(log) == without(old, ANN), f"{where}, then {second}"
            assert not logs_with_trace(again), f"{where}, then {second}"


def test_once_it_has_returned_a_power_cut_brings_nothing_back() -> None:
    start, old = filled()
    erase_all(start)
    for seed in range(10):
        disk = start.crash(seed)
        assert not logs_with_trace(disk)
        with a_log(disk) as log:
            assert found(log) == without(old, ANN)
