"""What a crash or a power cut leaves of a log that is being compacted (12.8)."""

from __future__ import annotations

import pytest

from tests.storage.test_cleaner import Pairs, a_log, clean, pairs, write
from tests.support.clock import ManualClock
from tests.support.logs import config
from tests.support.memory_filesystem import MemoryFileSystem, crash_points

SEGMENTS: list[Pairs] = [
    [(b"a", b"1"), (b"b", b"1")],
    [(b"c", b"1"), (b"a", b"2")],
    [(b"b", b"2"), (b"d", b"1")],
]
OLD = [pair for rows in SEGMENTS for pair in rows]
NEW = [(b"c", b"1"), (b"a", b"2"), (b"b", b"2"), (b"d", b"1")]


@pytest.mark.parametrize(
    ("segment_bytes", "delay_ms"),
    [pytest.param(1 << 20, 0, id="one group, removed at once"), pytest.param(200, 60_000, id="two, removed later")],
)
def test_a_crash_leaves_segments_old_or_new_and_no_key_without_its_newest_record(
    segment_bytes: int, delay_ms: int
) -> None:
    settings = config(
        cleanup_policy="compact",
        file_delete_delay_ms=delay_ms,
        segment_bytes=segment_bytes,
        segment_index_bytes=240,  # the disk in memory keeps every zero of a preallocated index
    )
    start = MemoryFileSystem(ManualClock())
    with a_log(start, settings) as log:
        write(log, *SEGMENTS)

    def program(disk: MemoryFileSystem) -> None:
        with a_log(disk, settings) as log:
            clean(log)

    seen = set()
    for _, disk in crash_points(program, start):
        for seed in range(2):
            with a_log(disk.crash(seed), settings) as log:
                found = pairs(log)
                seen.add(len(found))
                assert log.log_end_offset == len(OLD)
                assert dict(found) == dict(NEW)
                assert [pair for pair in found if pair in NEW] == NEW
                assert [pair for pair in OLD if pair in found] == found
                clean(log)
                assert pairs(log) == NEW
    assert {len(OLD), len(NEW)} <= seen
