"""A stopped broker's directory is prepared to begin where its tier ends, whatever moment the power fails."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage import LogManager, PolicyViolationError
from pyspark_commitlog.storage.format.files import checkpoints, file_names as names
from pyspark_commitlog.storage.format.files.checkpoints import EpochEntry
from pyspark_commitlog.storage.remote_metadata.topic import CONFIGS, MetadataTopic
from pyspark_commitlog.storage.tiering.broker_directory import PreparedPartition, prepare_directory
from pyspark_commitlog.storage.tiers.metadata_records import (
    SegmentEpoch,
    SegmentMetadata,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
)
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.logs.building import NOW_MS, append

SMALL = {"segment.index.bytes": "120"}
IDS = ("pFtPfu6pSlKnIgDfW57C4Q", "gieiioRPRGyV_wc7XWQ5Fg")


def manager_of(disk: MemoryFileSystem) -> LogManager:
    return LogManager.open("/broker", clock=ManualClock(NOW_MS), filesystem=disk, create=True)


def disk_of_broker(*spans: tuple[int, int], finished: bool = True) -> MemoryFileSystem:
    """A new topic, empty here, of which the tier has segments with these first and last offsets."""
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with manager_of(disk) as manager:
        manager.create_topic("__remote_log_metadata", partitions=1, configs=CONFIGS | SMALL)
        topic = manager.create_topic("t", partitions=2, configs=SMALL)
        manager.open_log("t", 0)
        for (start, end), segment_id in zip(spans, IDS, strict=False):
            place = TopicIdPartition("t", topic.topic_id or "", 0)
            epochs = (SegmentEpoch(0, start),)
            MetadataTopic(manager).append([SegmentMetadata(place, segment_id, start, end, 1, 1, 1, epochs, 100)])
            if finished:
                update = SegmentUpdate(place, segment_id, 1, 2, SegmentState.COPY_SEGMENT_FINISHED)
                MetadataTopic(manager).append([update])
    return disk.crash(0, unsynced="kept")


def prepare(disk: MemoryFileSystem, *, dry_run: bool = False) -> list[PreparedPartition]:
    with manager_of(disk) as manager:
        return list(prepare_directory(manager, ["t"], dry_run=dry_run))


def check_prepared(disk: MemoryFileSystem, where: str) -> None:
    kept = {f"{99:020d}.log", names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA_FILE}
    listed = {name for name in disk.list("/broker/t-0") if not name.startswith(".")}
    assert listed == kept, where
    with disk.open(f"/broker/t-0/{names.LEADER_EPOCH_CHECKPOINT}", "read") as file:
        assert checkpoints.decode_leader_epochs(file.read(0, 100)) == [EpochEntry(0, 0)], where
    with manager_of(disk) as manager:
        assert manager.offsets(names.LOG_START_OFFSET_CHECKPOINT)["t", 0] == 7, where  # type: ignore[index]


def test_a_second_run_after_a_power_cut_ends_what_the_first_began() -> None:
    written = disk_of_broker((7, 40), (41, 98))
    counted = 0
    for where, disk in Effort(with_kills=True).cut(prepare, written):
        prepare(disk)
        check_prepared(disk, where)
        counted += 1
    assert counted > 10


def test_a_prepared_partition_is_left_as_it_is_and_an_empty_one_too() -> None:
    disk = disk_of_broker((7, 40), (41, 98))
    before = disk.list("/broker/t-0")
    assert [each.was_ready for each in prepare(disk, dry_run=True)] == [False, True]
    assert disk.list("/broker/t-0") == before
    assert [each[1:] for each in prepare(disk)] == [(7, 99, 2, False), (0, 0, 0, True)]
    assert [each.was_ready for each in prepare(disk)] == [True, True]


def test_a_tier_with_a_gap_is_refused() -> None:
    with pytest.raises(PolicyViolationError, match="the tier lacks offsets 41 to 49"):
        prepare(disk_of_broker((7, 40), (50, 98)))


def test_a_segment_whose_copy_has_not_ended_does_not_count() -> None:
    with pytest.raises(PolicyViolationError, match="has no segment of topic 't' in the tier"):
        prepare(disk_of_broker((7, 40), finished=False))


def test_records_of_the_broker_itself_are_never_removed() -> None:
    disk = disk_of_broker((7, 40), (41, 98))
    with manager_of(disk) as manager:
        append(manager.open_log("t", 0), b"own")
    with pytest.raises(PolicyViolationError, match="records of its own"):
        prepare(disk)
    with manager_of(disk) as manager, manager.open_reader("t", 0) as reader:
        assert reader.log_end_offset == 1
