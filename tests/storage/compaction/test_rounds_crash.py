"""The state of a log after a crash or a power cut during compaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_commitlog.storage.config import LogConfig
from tests.storage.compaction.test_rounds import Pairs, a_log, clean, pairs, write
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.logs.building import config

SEGMENTS: list[Pairs] = [
    [(b"a", b"1"), (b"b", b"1")],
    [(b"c", b"1"), (b"a", b"2")],
    [(b"b", b"2"), (b"d", b"1")],
]
OLD = [pair for rows in SEGMENTS for pair in rows]
NEW = [(b"c", b"1"), (b"a", b"2"), (b"b", b"2"), (b"d", b"1")]


QUICK = Effort(every=2, seeds=2)


def compacted(segment_bytes: int, delay_ms: int) -> LogConfig:
    return config(
        cleanup_policy="compact",
        file_delete_delay_ms=delay_ms,
        segment_bytes=segment_bytes,
        segment_index_bytes=240,  # the disk in memory keeps every zero of a preallocated index
    )


def check_compaction(settings: LogConfig, segments: list[Pairs], effort: Effort) -> Iterator[int]:
    """Power cuts while ``segments`` are compacted; no two pairs are alike; how many pairs each leaves."""
    old = [pair for rows in segments for pair in rows]
    start = MemoryFileSystem(ManualClock())
    with a_log(start, settings) as log:
        write(log, *segments)

    def program(disk: MemoryFileSystem) -> Pairs:
        with a_log(disk, settings) as log:
            clean(log)
            return pairs(log)

    new = program(start.copy())
    for where, disk in effort.cut(program, start):
        with a_log(disk, settings) as log:
            found = pairs(log)
            assert log.log_end_offset == len(old), where
            assert dict(found) == dict(new), where
            assert [pair for pair in found if pair in new] == new, where
            assert [pair for pair in old if pair in found] == found, where
            clean(log)
            assert pairs(log) == new, where
        yield len(found)


@pytest.mark.parametrize(
    ("segment_bytes", "delay_ms"),
    [pytest.param(1 << 20, 0, id="one group, removed at once"), pytest.param(200, 60_000, id="two, removed later")],
)
def test_a_crash_leaves_segments_old_or_new_and_no_key_without_its_newest_record(
    segment_bytes: int, delay_ms: int
) -> None:
    seen = set(check_compaction(compacted(segment_bytes, delay_ms), SEGMENTS, QUICK))
    assert {len(OLD), len(NEW)} <= seen


def check_crash_after_crash(settings: LogConfig, segments: list[Pairs], cuts: Effort, again: Effort) -> None:
    """The power fails, and again while the log is opened: swaps are finished or undone as if it had not."""
    start = MemoryFileSystem(ManualClock())
    with a_log(start, settings) as log:
        write(log, *segments)
    old = pairs(log)

    def compact(disk: MemoryFileSystem) -> None:
        with a_log(disk, settings) as log:
            clean(log)

    def reopen(disk: MemoryFileSystem) -> None:
        with a_log(disk, settings):
            pass

    for where, after_cut in cuts.cut(compact, start):
        for second, disk in again.cut(reopen, after_cut):
            with a_log(disk, settings) as log:
                found = pairs(log)
                assert log.log_end_offset == len(old), f"{where}, then {second}"
                assert dict(found) == dict(old), f"{where}, then {second}"
                assert [pair for pair in old if pair in found] == found, f"{where}, then {second}"


def test_the_power_may_fail_again_while_a_swap_is_finished_or_undone() -> None:
    check_crash_after_crash(compacted(200, 0), SEGMENTS, Effort(every=11), Effort(every=3))
