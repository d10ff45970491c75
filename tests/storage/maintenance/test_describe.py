"""Descriptions of a partition's segments: clean, dirty or not yet to be compacted, and the fate of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import CleanerConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import UnknownTopicOrPartitionError
from pyspark_commitlog.storage.maintenance.compact import write_cleaner_offset
from pyspark_commitlog.storage.maintenance.describe import describe_partition
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS, append, records


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    return LogManager.open(str(tmp_path), create=True, clock=ManualClock(NOW_MS))


def test_segments_are_clean_then_dirty_then_uncleanable(
    manager: LogManager,
) -> None:
    manager.create_topic("users", partitions=1, configs={"cleanup.policy": "compact", "segment.bytes": "100"})
    log = manager.open_log("users", 0)

    def write(first: int) -> None:
        for n in range(first, first + 2):
            log.append_records(records([b"%d" % n], keys=[b"%d" % n], timestamps=NOW_MS))
            log.roll()

    write(0)
    result = Cleaner(CleanerConfig()).clean(log, None, NOW_MS)
    write_cleaner_offset(manager, ("users", 0), result.next_first_dirty_offset)
    write(2)
    found = describe_partition(manager, "users", 0)
    states = {fate.segment.base_offset: found.compaction_of(fate) for fate in found.retention.plan.fates}
    assert states == {0: "clean", 1: "clean", 2: "dirty", 3: "dirty", 4: "uncleanable"}
    assert found.cleanable is not None
    assert found.cleanable.first_dirty_offset == 2
    assert 0 < found.cleanable.ratio < 1


def test_as_of_another_time_other_segments_go(manager: LogManager) -> None:
    manager.create_topic("orders", partitions=1, configs={"retention.ms": "1000"})
    log = manager.open_log("orders", 0)
    for n in range(3):
        append(log, b"x", timestamps=NOW_MS + n * 1000)
        log.roll()
    goes = [
        [fate.goes for fate in describe_partition(manager, "orders", 0, as_of_ms=as_of).retention.plan.fates]
        for as_of in (None, NOW_MS + 1500, NOW_MS + 9000)
    ]
    assert goes == [[False] * 4, [True, False, False, False], [True, True, True, False]]
    assert describe_partition(manager, "orders", 0).cleanable is None


def test_an_unknown_partition_is_reported(manager: LogManager) -> None:
    manager.create_topic("orders", partitions=1)
    with pytest.raises(UnknownTopicOrPartitionError, match=r"has partitions \[0\], but not 3"):
        describe_partition(manager, "orders", 3)
