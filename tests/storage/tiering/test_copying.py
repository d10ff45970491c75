"""Closed segments go to a tier, local ones go by local retention, and the tier's by the topic's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pyspark_commitlog.storage import (
    LogConfig,
    LogManager,
    MaintenanceRun,
    TopicPartition,
    in_this_process,
    select_partitions,
)
from pyspark_commitlog.storage.directory.admin import alter_configs, delete_records
from pyspark_commitlog.storage.errors import LogStoreError, PolicyViolationError, StorageError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.maintenance import retain as retaining
from pyspark_commitlog.storage.maintenance.partitions import retain_partitions
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides
from pyspark_commitlog.storage.remote_metadata.topic import CONFIGS, MetadataTopic
from pyspark_commitlog.storage.retention.apply import preview_retention
from pyspark_commitlog.storage.retention.report import RetentionReport
from pyspark_commitlog.storage.tiering.copying import TieredPartition, copy_to_tier, due_segments
from pyspark_commitlog.storage.tiers.address import tier_address
from pyspark_commitlog.storage.tiers.files.filesystem import TieredFiles
from pyspark_commitlog.storage.tiers.metadata_records import SegmentState, TopicIdPartition
from pyspark_commitlog.storage.tiers.objects import DirectoryObjects
from pyspark_commitlog.storage.tiers.opening import open_tier
from pyspark_commitlog.storage.verify.log import verify_log
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import NOW_MS, append, end_transaction, rows, write_transactional
from tests.support.logs.plain_batches import records

DAY_MS = 86_400_000
PLACE = TopicPartition("t", 0)
TIERED = {"remote.storage.enable": "true", "segment.index.bytes": "120", "retention.ms": "-1"}
Rows = list[tuple[int, bytes | None]]


def manager_of(disk: MemoryFileSystem, days_later: int = 0) -> LogManager:
    return LogManager.open("/logs", clock=ManualClock(NOW_MS + days_later * DAY_MS), filesystem=disk, create=True)


def disk_with(segments: int, **configs: str) -> MemoryFileSystem:
    """A topic with a record in each of so many closed segments, and one in the active one; the oldest is the first."""
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with manager_of(disk) as manager:
        manager.create_topic("__remote_log_metadata", partitions=1, configs=CONFIGS | {"segment.index.bytes": "120"})
        given = {name.replace("_", "."): value for name, value in configs.items()}
        manager.create_topic("t", partitions=1, configs=TIERED | given)
        log = manager.open_log(*PLACE)
        for n in range(segments + 1):
            append(log, b"%d" % n, timestamps=NOW_MS - (segments - n) * DAY_MS)
            if n < segments:
                log.roll()
    return disk.crash(0, unsynced="kept")


@dataclass
class Tier:
    """The tier of a test, on the same disk as the log."""

    disk: MemoryFileSystem

    @property
    def store(self) -> DirectoryObjects:
        return DirectoryObjects("/tier", self.disk)

    def copy(self, days_later: int = 0) -> TieredPartition:
        with manager_of(self.disk, days_later) as manager:
            return copy_to_tier(manager, self.store, manager.open_log(*PLACE), PLACE, MetadataTopic(manager))

    def retain(self, days_later: int = 0) -> None:
        run = MaintenanceRun("/logs", filesystem=self.disk, clock=ManualClock(NOW_MS + days_later * DAY_MS))
        with run.manager() as manager:
            selection = select_partitions(manager, ["t"], ConfigOverrides())
        for outcome in retain_partitions(run, selection, in_this_process):
            assert outcome.status.value == "done", str(outcome)

    def states(self) -> dict[str, SegmentState]:
        with manager_of(self.disk) as manager:
            topic_id = manager.topic("t").topic_id or ""
            found = MetadataTopic(manager).segments(TopicIdPartition("t", topic_id, 0))
        return {name: each.state for name, each in found.items()}

    def begin_deletion(self, offsets: range) -> None:
        """The deletion of the copies that begin at these offsets begins."""
        with manager_of(self.disk) as manager:
            metadata = MetadataTopic(manager)
            found = metadata.finished(TopicIdPartition("t", manager.topic("t").topic_id or "", 0))
            metadata.note([each for each in found if each.start_offset in offsets], SegmentState.DELETE_SEGMENT_STARTED)

    def objects(self) -> list[str]:
        return [each.key for each in self.store.list("")]

    def rows(self) -> Rows:
        """The records of finished segments, by offset."""
        finished = [name for name, state in self.states().items() if state is SegmentState.COPY_SEGMENT_FINISHED]
        logs = [key for key in self.objects() if key.endswith(".log") and any(name in key for name in finished)]
        found = (self.store.get(key, limit=1 << 20) for key in logs)
        return sorted((each.offset, each.value) for data in found for each in records(bytes(data)))

    def local_rows(self) -> Rows:
        with manager_of(self.disk) as manager, manager.open_reader(*PLACE, reports_remote=False) as reader:
            return rows(reader)


def test_closed_segments_are_copied_once_and_the_active_one_never() -> None:
    tier = Tier(disk_with(3))
    assert tier.copy() == TieredPartition("t", 0, 3, 3 * 69, 0, 0, 3)
    assert tier.rows() == [(0, b"0"), (1, b"1"), (2, b"2")]
    assert [*tier.states().values()] == [SegmentState.COPY_SEGMENT_FINISHED] * 3
    before = tier.objects()
    assert tier.copy().copied == 0
    assert tier.objects() == before


def test_a_segment_above_the_last_stable_offset_waits_for_the_end_of_the_transaction() -> None:
    tier = Tier(disk_with(1))
    with manager_of(tier.disk) as manager:
        log = manager.open_log(*PLACE)
        write_transactional(log, 7, 0, b"open")
        log.roll()
        append(log, b"later")
        log.roll()
        append(log, b"active")
    assert tier.copy().tier_end_offset == 1
    with manager_of(tier.disk) as manager:
        end_transaction(manager.open_log(*PLACE), 7, commit=False)
        manager.open_log(*PLACE).roll()
    assert tier.copy().tier_end_offset == 6
    indexes = [each.key for each in tier.store.list("") if each.key.endswith(".txnindex")]
    assert len(indexes) == 1
    assert indexes[0].rpartition("/")[2].startswith(f"{4:020d}-")


def test_local_retention_deletes_what_the_tier_has_and_nothing_else() -> None:
    tier = Tier(disk_with(4, local_retention_ms="1"))
    tier.retain()
    assert len(tier.local_rows()) == 5
    tier.copy()
    tier.retain()
    assert tier.local_rows() == [(4, b"4")]
    assert tier.rows() == [(n, b"%d" % n) for n in range(4)]
    with manager_of(tier.disk) as manager, manager.open_reader(*PLACE, reports_remote=False) as reader:
        assert reader.remote == range(4)


def test_the_log_goes_on_after_local_retention_and_its_new_segments_follow() -> None:
    tier = Tier(disk_with(2, local_retention_ms="1"))
    tier.copy()
    tier.retain()
    with manager_of(tier.disk) as manager:
        log = manager.open_log(*PLACE)
        log.roll()
        append(log, b"3")
    assert tier.copy().copied == 1
    tier.retain(days_later=1)
    assert tier.rows() == [(n, b"%d" % n) for n in range(3)]
    assert tier.local_rows() == [(3, b"3")]


@pytest.mark.parametrize(
    "configs", [{"retention_ms": str(5 * DAY_MS // 2)}, {"retention_bytes": str(3 * 69)}], ids=["time", "size"]
)
def test_the_tier_loses_what_the_retention_of_the_topic_releases(configs: dict[str, str]) -> None:
    tier = Tier(disk_with(4, local_retention_ms="1", **configs))
    tier.copy()
    done = tier.copy()
    assert (done.tier_start_offset, done.tier_end_offset) == (2, 4)
    assert tier.rows() == [(2, b"2"), (3, b"3")]
    assert len(tier.objects()) == 10
    tier.retain()
    with manager_of(tier.disk) as manager, manager.open_reader(*PLACE, reports_remote=False) as reader:
        assert reader.remote == range(2, 4)


def test_a_topic_of_a_broker_that_gets_a_tier_begins_where_it_began_before() -> None:
    tier = Tier(disk_with(4, remote_storage_enable="false"))
    with manager_of(tier.disk) as manager:
        list(delete_records(manager, {PLACE: 2}))
    tier.retain()
    with tier.disk.open("/logs/log-start-offset-checkpoint", "write") as file:
        file.truncate(0)
        file.write(0, b"0\n0\n")  # a broker leaves out logs that begin at their first segments
    with manager_of(tier.disk) as manager:
        alter_configs(manager, "t", {"remote.storage.enable": "true"})
    tier.copy()
    with manager_of(tier.disk) as manager, manager.open_reader(*PLACE, reports_remote=False) as reader:
        assert (reader.start_with_tier, reader.remote) == (2, None)


def without_checkpoint(disk: MemoryFileSystem) -> None:
    disk.remove("/logs/log-start-offset-checkpoint")


def with_damaged_checkpoint(disk: MemoryFileSystem) -> None:
    with disk.open("/logs/log-start-offset-checkpoint", "write") as file:
        file.write(0, b"\xff")


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("spoil", [without_checkpoint, with_damaged_checkpoint])
def test_a_lost_checkpoint_of_log_starts_costs_no_record_of_the_tier(
    spoil: Callable[[MemoryFileSystem], None], first: int
) -> None:
    tier = Tier(disk_with(4, local_retention_ms="1"))
    tier.copy()
    tier.retain()
    with manager_of(tier.disk) as manager:
        list(delete_records(manager, {PLACE: first}))
    tier.copy()
    spoil(tier.disk)
    with manager_of(tier.disk) as manager:
        log = manager.open_log(*PLACE)
        append(log, b"5")
        log.roll()
    done = tier.copy()
    assert (done.copied, done.deleted, done.tier_start_offset, done.tier_end_offset) == (1, 0, first, 6)
    assert tier.rows() == [(n, b"%d" % n) for n in range(first, 6)]
    with manager_of(tier.disk) as manager, manager.open_reader(*PLACE, reports_remote=False) as reader:
        assert reader.remote == range(first, 4)
    tier.retain(days_later=1)
    assert tier.local_rows() == []


@pytest.mark.parametrize("spoil", [without_checkpoint, with_damaged_checkpoint])
def test_a_lost_checkpoint_leaves_no_local_segments_for_ever_if_the_tier_begins_with_them(
    spoil: Callable[[MemoryFileSystem], None],
) -> None:
    tier = Tier(disk_with(4))
    with manager_of(tier.disk) as manager:
        list(delete_records(manager, {PLACE: 2}))
    tier.retain()
    assert tier.local_rows()[0] == (2, b"2")
    spoil(tier.disk)
    tier.copy()
    tier.copy()  # finds what the tier has by now
    with manager_of(tier.disk) as manager:
        with manager.open_reader(*PLACE, reports_remote=False) as reader:
            assert (reader.log_start_offset, reader.remote) == (2, None)
        alter_configs(manager, "t", {"local.retention.ms": "1"})
    tier.retain(days_later=1)
    assert tier.local_rows() == [(4, b"4")]


@pytest.mark.parametrize("offset", [2, 4, 5, -1])
def test_records_that_only_the_tier_has_are_deleted_by_the_command_too(offset: int) -> None:
    tier = Tier(disk_with(4, local_retention_ms="1"))
    tier.copy()
    tier.retain()
    start = 5 if offset < 0 else offset
    for dry_run in (True, False):
        with manager_of(tier.disk) as manager:
            (done,) = delete_records(manager, {PLACE: offset}, dry_run=dry_run)
        assert (done.log_start_offset, done.error) == (start, None)
    with manager_of(tier.disk) as manager:
        assert manager.marks(PLACE).log_start_offset == start
    tier.copy()
    assert tier.rows() == [(n, b"%d" % n) for n in range(start, 4)]


def test_a_compacted_topic_is_refused() -> None:
    tier = Tier(disk_with(1))
    compacted = LogConfig.from_mapping({"cleanup.policy": "compact"})
    with manager_of(tier.disk) as manager, pytest.raises(PolicyViolationError, match="compacted topics have no tier"):
        copy_to_tier(manager, tier.store, manager.open_log(*PLACE, compacted), PLACE, MetadataTopic(manager))
    assert tier.objects() == []


class Changing(DirectoryObjects):
    """A store that keeps other bytes of one object than it was given."""

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data[:-1] + b"\1" if key.endswith(file_names.LOG) else data)


def test_a_store_that_keeps_other_bytes_is_found_before_the_segment_counts_as_copied() -> None:
    tier = Tier(disk_with(2, local_retention_ms="1"))
    with manager_of(tier.disk) as manager, pytest.raises(StorageError, match="not what was written"):
        copy_to_tier(manager, Changing("/tier", tier.disk), manager.open_log(*PLACE), PLACE, MetadataTopic(manager))
    assert [*tier.states().values()] == [SegmentState.COPY_SEGMENT_STARTED]
    tier.retain()
    assert len(tier.local_rows()) == 3
    assert tier.copy().copied == 2
    assert len(tier.objects()) == 10


def test_damage_in_a_segment_is_reported_and_not_copied() -> None:
    tier = Tier(disk_with(2))
    with tier.disk.open("/logs/t-0/" + file_names.segment_file(1, file_names.LOG), "write") as file:
        file.write(66, b"\xff")
    with pytest.raises(LogStoreError, match=r"00000000000000000001\.log"):
        tier.copy()
    assert all("1-" not in key.rpartition("/")[2][19:22] for key in tier.objects())


def test_a_log_start_within_a_batch_leaves_the_batch_whole() -> None:
    tier = Tier(disk_with(0))
    with manager_of(tier.disk) as manager:
        log = manager.open_log(*PLACE)
        append(log, b"1", b"2", b"3")
        log.roll()
        append(log, b"active")
        log.delete_records(2)
    tier.copy()
    (key,) = [each for each in tier.objects() if each.endswith(".log")]
    assert key.rpartition("/")[2].startswith(f"{1:020d}-")
    assert tier.rows() == [(1, b"1"), (2, b"2"), (3, b"3")]
    opened = open_tier("/tier", store=tier.store)
    files = TieredFiles(tier_address("/tier"), opened)
    with LogManager.open("", filesystem=files) as alone, alone.open_reader(*PLACE) as reader:
        assert not verify_log(reader.context).findings


def test_local_retention_keeps_copies_whose_deletion_began_while_it_waited_for_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tier = Tier(disk_with(3, local_retention_ms="1"))
    tier.copy()

    def preview(*args: Any, **options: Any) -> RetentionReport:
        report = preview_retention(*args, **options)
        tier.begin_deletion(range(1, 3))
        return report

    monkeypatch.setattr(retaining, "preview_retention", preview)
    tier.retain()
    assert tier.local_rows() == [(n, b"%d" % n) for n in range(1, 4)]
    assert tier.rows() == [(0, b"0")]
    assert tier.copy() == TieredPartition("t", 0, 2, 2 * 69, 0, 0, 3)


def test_only_the_copies_whose_deletion_began_are_made_again() -> None:
    tier = Tier(disk_with(4, local_retention_ms="1"))
    tier.copy()
    before = tier.states()
    tier.begin_deletion(range(1, 2))
    tier.begin_deletion(range(3, 4))
    with manager_of(tier.disk) as manager:
        due = due_segments(manager, PLACE, MetadataTopic(manager))
    assert (due.copied, due.tier_end_offset) == (2, 1)
    assert (done := tier.copy()).copied == 2
    assert (done.deleted, done.tier_start_offset, done.tier_end_offset) == (0, 0, 4)
    assert tier.rows() == [(n, b"%d" % n) for n in range(4)]
    assert len(before.keys() & tier.states().keys()) == 2
