"""Spark's checkpoint and the log: both on a disk that loses power, without Spark (``inline_query``)."""

from __future__ import annotations

from unittest import mock

import pytest

from pyspark_commitlog.pipeline.write.exactly_once.checkpoint import check_readable
from pyspark_commitlog.pipeline.write.foreach_batch import CommitLogSink
from pyspark_commitlog.storage import (
    CorruptionError,
    InvalidConfigError,
    LogManager,
    ProgressMismatchError,
    StorageError,
    delete_topic,
)
from pyspark_commitlog.storage.filesystem.operations import remove_tree
from tests.pipeline.inline_query import InlineQuery, put_right, rows_of
from tests.pipeline.inline_spark import PARTITIONS, TOPIC, InlineFrame
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.disk.trees import copy_file, copy_tree
from tests.support.logs.directories import memory_disk_with_topics


def content(disk: MemoryFileSystem) -> list[str]:
    return InlineQuery(disk).driver.content()


def disk_with_batches(batches: int) -> MemoryFileSystem:
    disk = memory_disk_with_topics("/log", TOPIC, PARTITIONS)
    if batches:
        InlineQuery(disk).run(range(batches))
    return disk.copy()


@pytest.mark.parametrize("unsynced", ["lost", "kept", "chance"])
def test_power_cut_under_checkpoint_and_log_leaves_each_row_once(unsynced: str) -> None:
    """For any remains of the checkpoint, it is enough to delete the entries that Spark cannot read."""
    tried = 0
    for operation, disk in crash_points(lambda disk: InlineQuery(disk).run(range(3)), disk_with_batches(1), every=5):
        after_crash = disk.copy() if unsynced == "kept" else disk.crash(tried, unsynced=unsynced)  # type: ignore[arg-type]
        put_right(InlineQuery(after_crash))
        InlineQuery(after_crash).run(range(4))
        assert content(after_crash) == rows_of(range(4)), operation
        tried += 1
    assert tried > 10


def test_power_cut_in_the_very_first_batch_leaves_each_row_once() -> None:
    for seed, (operation, disk) in enumerate(
        crash_points(lambda disk: InlineQuery(disk).run(range(2)), disk_with_batches(0), every=5)
    ):
        after_crash = disk.crash(seed)
        put_right(InlineQuery(after_crash))
        InlineQuery(after_crash).run(range(3))
        assert content(after_crash) == rows_of(range(3)), operation


def test_what_the_log_has_is_in_the_checkpoint_after_a_power_cut() -> None:
    """Otherwise another plan of the batch would be refused, and need manual repair."""
    disk = disk_with_batches(0)
    InlineQuery(disk).run(range(2))
    after_crash = disk.crash(0, unsynced="lost")
    query = InlineQuery(after_crash)
    assert query.offsets.numbers() == [0, 1]
    assert query.commits.numbers() == [0]
    assert query.source.numbers() == [0, 1]
    query.run(range(2))
    assert content(after_crash) == rows_of(range(2))


def test_batch_is_not_committed_if_the_checkpoint_cannot_be_synced() -> None:
    disk = FaultyFileSystem(disk_with_batches(1))
    disk.rules.append(fail("sync", "/cp/offsets/1"))
    with pytest.raises(StorageError, match="/cp: the checkpoint cannot be synced"):
        InlineQuery(disk).run(range(2))
    disk.rules.clear()
    assert InlineQuery(disk).driver.content() == rows_of(range(1))
    InlineQuery(disk).run(range(2))
    assert InlineQuery(disk).driver.content() == rows_of(range(2))


@pytest.mark.parametrize("damage", [b"", b"{", b'{"logDir": 1}', b"\xff" * 40])
def test_note_that_is_damaged_is_refused_with_its_path(damage: bytes) -> None:
    disk = disk_with_batches(2)
    (name,) = disk.list("/cp/commitlog")
    with disk.open(f"/cp/commitlog/{name}", "write") as file:
        file.truncate(0)
        file.write(0, damage)
    with pytest.raises(ProgressMismatchError, match=f"/cp/commitlog/{name}: the notes are damaged"):
        InlineQuery(disk).run(range(3))
    disk.remove(f"/cp/commitlog/{name}")
    InlineQuery(disk).run(range(3))
    assert content(disk) == rows_of(range(3))


ROOT_FILES = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "topics.json", "producer_ids.json")


class TestPartitionThatIsSetBack:
    """Only the partition is set back, and the files at the root, which would reveal it; committed offsets are newer."""

    def disk(self) -> MemoryFileSystem:
        """A disk with a copy of the log directory that is two batches old."""
        disk = disk_with_batches(2)
        copy_tree(disk, "/log", "/old")
        InlineQuery(disk).run(range(4))
        return disk.copy()

    def set_back(self, disk: MemoryFileSystem, partition: int) -> None:
        copy_tree(disk, f"/old/t-{partition}", f"/log/t-{partition}")
        for name in ROOT_FILES:
            if disk.status(f"/old/{name}") is not None:
                copy_file(disk, f"/old/{name}", f"/log/{name}")

    @pytest.mark.parametrize("partition", range(PARTITIONS))
    def test_before_a_start_is_refused_with_both_ends(self, partition: int) -> None:
        disk = self.disk()
        self.set_back(disk, partition)
        told = rf"commits to partition {partition} of topic t reached offset \d+, but its log ends at \d+"
        with pytest.raises(ProgressMismatchError, match=told):
            InlineQuery(disk).run(range(5))

    @pytest.mark.parametrize("partition", range(PARTITIONS))
    def test_while_a_query_runs_is_refused_with_both_ends(self, partition: int) -> None:
        disk = self.disk()
        with pytest.raises(ProgressMismatchError, match=rf"partition {partition} of topic t reached offset"):
            InlineQuery(disk).run(
                range(7), before_batch=lambda batch: self.set_back(disk, partition) if batch == 6 else None
            )

    def test_file_by_file_while_a_query_runs_is_refused(self) -> None:
        """The directory stays the one that the writers have open."""
        disk = self.disk()

        def set_back(batch: int) -> None:
            if batch == 6:
                for name in disk.list("/log/t-0"):
                    disk.remove(f"/log/t-0/{name}")
                for name in disk.list("/old/t-0"):
                    copy_file(disk, f"/old/t-0/{name}", f"/log/t-0/{name}")
                copy_file(disk, f"/old/{ROOT_FILES[0]}", f"/log/{ROOT_FILES[0]}")

        with pytest.raises((ProgressMismatchError, StorageError)):
            InlineQuery(disk).run(range(7), before_batch=set_back)

    def test_directory_of_another_log_is_refused_with_both_ids(self) -> None:
        disk = self.disk()
        with LogManager.open("/other", create=True, filesystem=disk) as manager:
            manager.create_topic(TOPIC, partitions=PARTITIONS)
        InlineQuery(disk, log_dir="/other", checkpoint="/cp2").run(range(100, 110))
        copy_tree(disk, "/other/t-1", "/log/t-1")
        with pytest.raises(ProgressMismatchError, match="partition 1 of topic t belongs to a topic with id"):
            InlineQuery(disk).run(range(5))

    def test_partition_whose_topic_id_cannot_be_read_is_refused(self) -> None:
        disk = self.disk()
        with disk.open("/log/t-1/partition.metadata", "write") as file:
            file.truncate(0)
        with pytest.raises(CorruptionError, match=r"/log/t-1/partition\.metadata"):
            InlineQuery(disk).run(range(5))

    def test_recreated_topic_is_written_from_its_beginning(self) -> None:
        disk = self.disk()
        with LogManager.open("/log", filesystem=disk) as manager:
            delete_topic(manager, TOPIC)
            manager.create_topic(TOPIC, partitions=PARTITIONS)
        InlineQuery(disk).run(range(5))
        assert content(disk) == rows_of([4])


class TestPartitionThatIsNewer:
    """Log and checkpoint are restored from one copy, and then a partition from a newer one: it has the next batches."""

    def disk(self, partition: int, *, before: int = 2) -> MemoryFileSystem:
        disk = disk_with_batches(before)
        copies = {"/log": "/old", "/cp": "/old-cp"}
        for path, copy in copies.items():
            copy_tree(disk, path, copy)
        InlineQuery(disk).run(range(4))
        copy_tree(disk, f"/log/t-{partition}", "/newer")
        for path, copy in copies.items():
            copy_tree(disk, copy, path)
        copy_tree(disk, "/newer", f"/log/t-{partition}")
        return disk.copy()

    @pytest.mark.parametrize("partition", range(PARTITIONS))
    def test_before_a_start_is_refused_with_both_epochs(self, partition: int) -> None:
        disk = self.disk(partition)
        before = content(disk)
        told = rf"partition {partition} of topic t has transactions of producer \d+ up to epoch 5.* has epoch 2: "
        for _ in range(2):
            with pytest.raises(ProgressMismatchError, match=told):
                InlineQuery(disk).run(range(5))
        assert content(disk) == before

    @pytest.mark.parametrize("partition", range(PARTITIONS))
    def test_while_a_query_runs_is_refused_with_both_epochs(self, partition: int) -> None:
        disk = self.disk(partition)
        copy_tree(disk, f"/old/t-{partition}", f"/log/t-{partition}")
        with pytest.raises(ProgressMismatchError, match=rf"partition {partition} of topic t has transactions"):
            InlineQuery(disk).run(
                range(6),
                before_batch=lambda batch: copy_tree(disk, "/newer", f"/log/t-{partition}") if batch == 2 else None,
            )

    def test_is_written_to_under_another_name(self) -> None:
        disk = self.disk(1)
        query = InlineQuery(disk)
        with mock.patch.object(query.driver, "app_id", "other"):
            query.run(range(5))
        assert set(content(disk)) == set(rows_of(range(5)))

    def test_like_the_others_before_the_first_batch_is_refused(self) -> None:
        """Only the log of committed offsets and the checkpoint are from before the first batch."""
        disk = disk_with_batches(0)
        copy_tree(disk, "/log", "/old")
        InlineQuery(disk).run(range(1))
        disk = disk.copy()
        remove_tree(disk, "/cp")
        copy_tree(disk, "/old/__consumer_offsets-0", "/log/__consumer_offsets-0")
        for name in ROOT_FILES:
            if disk.status(f"/old/{name}") is not None:
                copy_file(disk, f"/old/{name}", f"/log/{name}")
        with pytest.raises(ProgressMismatchError, match=r"partition 0 of topic t has transactions .* no record of"):
            InlineQuery(disk).run(range(2))
        assert content(disk) == rows_of(range(1))


@pytest.mark.parametrize("entry_bytes", [b"", bytes(100)], ids=["no bytes", "zeros"])
@pytest.mark.parametrize("entry", ["metadata", "offsets/2", "commits/2", "sources/0/2"])
def test_entry_without_content_is_named_before_a_query_starts(entry: str, entry_bytes: bytes) -> None:
    disk = disk_with_batches(3)
    check_readable("/cp", disk)
    with disk.open(f"/cp/{entry}", "write") as file:
        file.truncate(0)
        file.write(0, entry_bytes)
    with pytest.raises(CorruptionError, match=f"^/cp/{entry}: this entry of Spark's checkpoint is empty"):
        check_readable("/cp", disk)


def test_missing_checkpoint_is_accepted() -> None:
    check_readable("/cp", MemoryFileSystem())


class TestSecondWriteOfABatch:
    """A function writes twice to a topic in a batch; the rows of both writes would count as one."""

    def halves(self, sink: CommitLogSink, frame: InlineFrame, batch: int) -> None:
        for _ in range(2):
            sink(frame, batch)  # type: ignore[arg-type]

    def test_is_refused_in_the_run_that_replays_the_batch_too(self) -> None:
        query = InlineQuery(disk_with_batches(0))
        for _ in range(3):
            with pytest.raises(InvalidConfigError, match="batch 0 was already written to topic t in this run"):
                query.run(range(1), function=self.halves)
        assert query.content() == rows_of(range(1))
