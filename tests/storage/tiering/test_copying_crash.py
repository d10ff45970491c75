"""The power fails while a copy, local retention or the tier's runs: nothing is lost, and the next run ends it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from pyspark_commitlog.storage.errors import LogStoreError, ObjectStoreError
from pyspark_commitlog.storage.remote_metadata.topic import CONFIGS
from pyspark_commitlog.storage.segment.walk import WINDOW_BYTES
from pyspark_commitlog.storage.tiering import copying
from pyspark_commitlog.storage.tiering.contents import contents_of
from pyspark_commitlog.storage.tiering.copying import TieredPartition
from pyspark_commitlog.storage.tiers.metadata_records import SegmentState
from pyspark_commitlog.storage.tiers.writing import put_segment
from tests.storage.tiering.test_copying import DAY_MS, PLACE, Tier, disk_with, manager_of
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.logs.building import NOW_MS, append, end_transaction, write_transactional

SEGMENTS = 3
ALL = [(n, b"%d" % n) for n in range(SEGMENTS + 1)]
EFFORT = Effort(every=13, with_kills=True)  # every=1 tries 360 disks
FINISHED = SegmentState.COPY_SEGMENT_FINISHED
LARGE = bytes(WINDOW_BYTES)


def copy_and_retain(disk: MemoryFileSystem) -> TieredPartition:
    tier = Tier(disk)
    tier.copy()
    tier.retain()
    return tier.copy()


@pytest.fixture(scope="module")
def written() -> MemoryFileSystem:
    return disk_with(SEGMENTS, local_retention_ms="1")


def test_a_power_cut_loses_no_record_and_the_next_run_ends_as_the_first_would_have(written: MemoryFileSystem) -> None:
    count = 0
    for where, disk in EFFORT.cut(copy_and_retain, written):
        tier, count = Tier(disk), count + 1
        assert sorted({*tier.local_rows(), *tier.rows()}) == ALL, where
        assert copy_and_retain(disk).tier_end_offset == SEGMENTS, where
        assert [*tier.states().values()] == [FINISHED] * SEGMENTS, where
        assert len(tier.objects()) == 5 * SEGMENTS, where  # nothing of the copies that were cut short
        assert (tier.local_rows(), tier.rows()) == (ALL[SEGMENTS:], ALL[:SEGMENTS]), where
    assert count > 10


@pytest.fixture(scope="module")
def tiered() -> MemoryFileSystem:
    disk = disk_with(SEGMENTS, local_retention_ms="1", retention_ms=str(3 * DAY_MS + DAY_MS // 2))
    copy_and_retain(disk)
    return disk.crash(0, unsynced="kept")


def test_a_power_cut_while_the_tier_is_cleaned_brings_nothing_back(tiered: MemoryFileSystem) -> None:
    starts = set()
    for where, disk in Effort(every=4, with_kills=True).cut(lambda each: Tier(each).copy(days_later=2), tiered):
        tier = Tier(disk)
        kept = tier.rows()
        assert kept == ALL[SEGMENTS - len(kept) : SEGMENTS], where  # whole segments went, the oldest first
        starts.add(len(kept))
        done = tier.copy(days_later=2)
        assert (done.tier_start_offset, done.tier_end_offset) == (2, 3), where
        assert tier.rows() == ALL[2:3], where
        assert len(tier.objects()) == 5, where
    assert {1, 3} <= starts <= {1, 2, 3}


def in_parts() -> MemoryFileSystem:
    """A topic with one closed segment of six batches, each larger than what is read at once: an aborted transaction."""
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with manager_of(disk) as manager:
        manager.create_topic("__remote_log_metadata", partitions=1, configs=CONFIGS)
        manager.create_topic(
            "t", partitions=1, configs={"remote.storage.enable": "true", "max.message.bytes": "5000000"}
        )
        log = manager.open_log(*PLACE)
        for n in range(6):
            if n in {1, 4}:
                write_transactional(log, 7, n // 4, LARGE)
                end_transaction(log, 7, commit=False)
            append(log, b"%d" % n + LARGE, timestamps=NOW_MS)
        log.roll()
    return disk.crash(0, unsynced="kept")


class Killed(BaseException):
    """Ends the code of a process that was killed."""


@pytest.mark.parametrize("parts", [1, 3, 5])
def test_a_copy_that_was_killed_within_a_segment_goes_on_with_its_next_part(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "contents_of", partial(contents_of, bytes_max=2 * len(LARGE)))
    wanted, tier = Tier(in_parts()), Tier(in_parts())
    wanted.copy()
    left = iter(range(parts))

    def put(*args: Any) -> None:
        if next(left, None) is None:
            raise Killed
        put_segment(*args)

    monkeypatch.setattr(copying, "put_segment", put)
    with pytest.raises(Killed):
        tier.copy()
    monkeypatch.setattr(copying, "put_segment", put_segment)
    tier.copy()
    assert contents(tier) == contents(wanted)


def contents(tier: Tier) -> dict[str, bytes]:
    """The objects of a tier, without the ids in their names."""
    found = {key.rpartition("/")[2]: bytes(tier.store.get(key, limit=1 << 26)) for key in tier.objects()}
    assert len({name[:20] + name[43:] for name in found}) == len(found)
    return {name[:20] + name[43:]: data for name, data in found.items()}


def test_a_tier_that_fails_for_good_leaves_the_log_as_it_was(
    written: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = Tier(written.copy())
    monkeypatch.setenv("COMMITLOG_DELIVERY_TIMEOUT_MS", "1")

    def refuse(key: str, data: bytes) -> None:
        raise ObjectStoreError(f"{key}: no room")

    monkeypatch.setattr("pyspark_commitlog.storage.tiers.objects.DirectoryObjects.put", lambda _, *rest: refuse(*rest))
    with pytest.raises(LogStoreError, match=r"kafka-tiered-storage/t-0-.*: no room"):
        tier.copy()
    monkeypatch.undo()
    tier.retain()
    assert tier.local_rows() == ALL
    assert copy_and_retain(tier.disk).tier_end_offset == SEGMENTS
