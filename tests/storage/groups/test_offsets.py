"""Committed offsets of groups: ours, and those that a broker's coordinator wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import CorruptRecordError, InvalidRecordError, StorageError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    partition_for,
)
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import NOW_MS, decided, end_transaction, open_reader, records
from tests.support.logs.sidecars import SIDECARS


def managed(directory: Path) -> LogManager:
    return LogManager.open(str(directory), create=True, clock=ManualClock(NOW_MS))


def test_the_last_committed_offsets_hold_across_a_restart(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        groups = GroupOffsets(manager)
        assert groups.fetch("g") == {}
        groups.commit("g", {("t", 0): CommittedOffset(5), ("t", 1): CommittedOffset(7, "why")})
        groups.commit("g", {("t", 0): CommittedOffset(6)})
        groups.commit("g", {})
        assert len(manager.topic(GROUP_METADATA_TOPIC).partitions) == 50
    groups = GroupOffsets(managed(tmp_path))
    assert groups.fetch("g") == {("t", 0): CommittedOffset(6), ("t", 1): CommittedOffset(7, "why")}
    assert groups.fetch("other") == {}


def test_groups_of_one_partition_do_not_see_each_other(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    manager.create_topic(GROUP_METADATA_TOPIC, partitions=1)
    groups = GroupOffsets(manager)
    for n, group in enumerate(("a", "b", "ab")):
        groups.commit(group, {("t", 0): CommittedOffset(n)})
    assert [groups.fetch(group) for group in ("a", "b", "ab")] == [{("t", 0): CommittedOffset(n)} for n in range(3)]


def write(manager: LogManager, key: OffsetCommitKey, value: bytes | None, fields: v2.BatchFields | None = None) -> None:
    log = manager.open_log(GROUP_METADATA_TOPIC, 0)
    log.append_records(records([value], keys=[key.encode()]), fields)


def test_a_tombstone_revokes_a_commit(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    manager.create_topic(GROUP_METADATA_TOPIC, partitions=1)
    groups = GroupOffsets(manager)
    groups.commit("g", {("t", 0): CommittedOffset(5), ("t", 1): CommittedOffset(7)})
    write(manager, OffsetCommitKey("g", "t", 0), None)
    assert groups.fetch("g") == {("t", 1): CommittedOffset(7)}


def test_a_commit_in_a_transaction_counts_once_committed_and_blocks_no_one(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    manager.create_topic(GROUP_METADATA_TOPIC, partitions=1)
    groups, key = GroupOffsets(manager), OffsetCommitKey("g", "t", 0)
    log = manager.open_log(GROUP_METADATA_TOPIC, 0)

    def commit_in_transaction(offset: int, producer_id: int) -> None:
        fields = v2.BatchFields(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        write(manager, key, OffsetCommitValue(offset, "", NOW_MS).encode(), fields)

    commit_in_transaction(1, producer_id=1)  # of a query that died: it stays open
    commit_in_transaction(2, producer_id=2)
    groups.commit("other", {("t", 0): CommittedOffset(9)})
    assert groups.fetch("g") == {}
    assert groups.fetch("other") == {("t", 0): CommittedOffset(9)}
    end_transaction(log, 2, commit=True)
    assert groups.fetch("g") == {("t", 0): CommittedOffset(2)}
    commit_in_transaction(3, producer_id=3)
    end_transaction(log, 3, commit=False)
    end_transaction(log, 1, commit=False)
    assert groups.fetch("g") == {("t", 0): CommittedOffset(2)}


def test_a_commit_is_one_plain_batch_as_a_coordinator_writes_it(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    GroupOffsets(manager).commit("g", {("t", n): CommittedOffset(n) for n in range(3)})
    data = manager.open_reader(GROUP_METADATA_TOPIC, partition_for("g", 50)).read(0)
    assert data is not None
    table = data.window.headers.table
    assert (table["count"].tolist(), table["base_sequence"].tolist()) == ([3], [-1])


def test_the_commits_a_broker_wrote_are_read_back(tmp_path: Path) -> None:
    """Compared with a plain reading of the same records, in log order."""
    for partition in (1, 2):
        shutil.copytree(
            SIDECARS / f"{GROUP_METADATA_TOPIC}-{partition}", tmp_path / f"{GROUP_METADATA_TOPIC}-{partition}"
        )
    (tmp_path / f"{GROUP_METADATA_TOPIC}-0").mkdir()
    (tmp_path / f"{GROUP_METADATA_TOPIC}-0" / file_names.segment_file(0, file_names.LOG)).touch()
    (tmp_path / f"{GROUP_METADATA_TOPIC}-3").mkdir()
    (tmp_path / f"{GROUP_METADATA_TOPIC}-3" / file_names.segment_file(0, file_names.LOG)).touch()
    groups = GroupOffsets(managed(tmp_path))
    expected: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
    for partition in (1, 2):
        reader = open_reader(tmp_path / f"{GROUP_METADATA_TOPIC}-{partition}", cleanup_policy="compact")
        for part in reader.records(0, reader.log_end_offset):
            assert part.keys is not None
            assert part.values is not None
            for key_bytes, value in zip(part.keys.to_list(), part.values.to_list(), strict=True):
                key = decode_group_key(key_bytes or b"")
                if isinstance(key, OffsetCommitKey):
                    assert partition_for(key.group, 4) == partition
                    commits = expected.setdefault(key.group, {})
                    commits.pop((key.topic, key.partition), None)
                    if value is not None:
                        found = OffsetCommitValue.decode(value)
                        commits[key.topic, key.partition] = CommittedOffset(found.offset, found.metadata)
    assert len(expected) > 1
    for group, commits in expected.items():
        assert groups.fetch(group) == commits


# --- what is read: once, and then only what is new


@pytest.fixture
def disk() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    with on(disk) as manager:
        configs = {"cleanup.policy": "compact", "segment.index.bytes": "1000", "segment.bytes": "1500"}
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=1, configs=configs)
    return disk


def on(disk: MemoryFileSystem) -> LogManager:
    return LogManager.open("/logs", create=True, clock=disk.clock, filesystem=disk)


def bytes_read(disk: MemoryFileSystem, groups: GroupOffsets) -> int:
    """The bytes of the log that one call reads."""
    before = len(disk.operations)
    groups.fetch("g")
    read = [each.length or 0 for each in disk.operations[before:] if each.kind == "read" and each.path.endswith(".log")]
    return sum(read)


def test_a_look_reads_only_what_was_committed_since_the_last_one(disk: MemoryFileSystem) -> None:
    groups, others = GroupOffsets(on(disk)), GroupOffsets(on(disk))
    for n in range(5):
        others.commit("g", {("t", 0): CommittedOffset(n)})
    assert groups.fetch("g") == {("t", 0): CommittedOffset(4)}
    assert bytes_read(disk, groups) == 0
    others.commit("g", {("t", 0): CommittedOffset(5)})
    assert 0 < bytes_read(disk, groups) < 400
    assert GroupOffsets(groups.manager).fetch("g") == {("t", 0): CommittedOffset(5)}
    assert bytes_read(disk, GroupOffsets(groups.manager)) == 0


def test_a_look_at_a_partition_that_nobody_has_written_reads_nothing(disk: MemoryFileSystem) -> None:
    """The checkpoints of a directory with many partitions are long, and a coordinator has fifty partitions."""
    groups = GroupOffsets(on(disk))
    for expected in ({}, {("t", 0): CommittedOffset(1)}):
        assert groups.fetch("g") == expected
        before = len(disk.operations)
        groups.fetch("g")
        read = {each.path for each in disk.operations[before:] if each.kind == "read"}
        assert not [path for path in read if "checkpoint" in path]
        GroupOffsets(on(disk)).commit("g", {("t", 0): CommittedOffset(1)})


def test_visible_records_do_not_depend_on_rolls_compaction_or_truncation(disk: MemoryFileSystem) -> None:
    """Compared with reading the whole log each time, while commits, tombstones and transactions are added."""
    writers, seeing = on(disk), GroupOffsets(on(disk))
    writing = GroupOffsets(writers)
    log = writers.open_log(GROUP_METADATA_TOPIC, 0)
    for n in range(60):
        writing.commit("g" if n % 3 else "other", {("t", n % 5): CommittedOffset(n)})
        if n % 7 == 0:
            writing.delete("g")
        if n % 9 == 0:
            fields = v2.BatchFields(producer_id=n, producer_epoch=0, base_sequence=0, transactional=True)
            write(writers, OffsetCommitKey("g", "t", 7), OffsetCommitValue(n, "", NOW_MS).encode(), fields)
        if n % 9 == 4:
            end_transaction(log, n - 4, commit=n % 2 == 0)
        if n % 10 == 9:
            Cleaner().clean(log, None, log.context.clock.now_ms() + n * 86_400_000)
        if n == 45:
            log.truncate_to(log.log_end_offset - 2)
        for group in ("g", "other"):
            assert seeing.fetch(group) == GroupOffsets(on(disk)).fetch(group), n
        assert seeing.fetch("g") == plainly(disk, "g"), n


def plainly(disk: MemoryFileSystem, group: str) -> dict[tuple[str, int], CommittedOffset]:
    """The whole log, record by record."""
    found: dict[tuple[str, int], CommittedOffset] = {}
    for part in decided(on(disk).open_reader(GROUP_METADATA_TOPIC, 0)):
        assert part.keys is not None
        assert part.values is not None
        for key_bytes, value in zip(part.keys.to_list(), part.values.to_list(), strict=True):
            key = decode_group_key(key_bytes or b"")
            if isinstance(key, OffsetCommitKey) and key.group == group:
                found.pop((key.topic, key.partition), None)
                if value is not None:
                    found[key.topic, key.partition] = CommittedOffset(OffsetCommitValue.decode(value).offset)
    return found


def test_a_plain_commit_after_one_in_a_transaction_wins_over_it(disk: MemoryFileSystem) -> None:
    manager = on(disk)
    groups, key = GroupOffsets(manager), OffsetCommitKey("g", "t", 0)
    fields = v2.BatchFields(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    write(manager, key, OffsetCommitValue(1, "", NOW_MS).encode(), fields)
    assert groups.fetch("g") == {}
    groups.commit("g", {("t", 0): CommittedOffset(2)})
    assert groups.fetch("g") == {("t", 0): CommittedOffset(2)}
    end_transaction(manager.open_log(GROUP_METADATA_TOPIC, 0), 1, commit=True)
    assert groups.fetch("g") == {("t", 0): CommittedOffset(2)}


def test_an_incomplete_batch_is_not_seen(disk: MemoryFileSystem) -> None:
    groups, others = GroupOffsets(on(disk)), GroupOffsets(on(disk))
    others.commit("g", {("t", 0): CommittedOffset(1)})
    assert groups.fetch("g") == {("t", 0): CommittedOffset(1)}
    path = f"/logs/{GROUP_METADATA_TOPIC}-0/{file_names.segment_file(0, file_names.LOG)}"
    with disk.open(path, "write") as file:
        whole = bytes(file.read(0, file.size()))
        for torn in (whole[:40], whole[:-1], whole[:-1] + b"?"):
            file.write(len(whole), torn)
            assert groups.fetch("g") == {("t", 0): CommittedOffset(1)}
            file.truncate(len(whole))
    GroupOffsets(on(disk)).commit("g", {("t", 0): CommittedOffset(2)})
    assert groups.fetch("g") == {("t", 0): CommittedOffset(2)}


def test_groups_are_listed_and_deleted(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    groups = GroupOffsets(manager)
    assert groups.groups() == {}
    assert not groups.delete("a")
    offsets = {("t", 0): CommittedOffset(1), ("t", 1): CommittedOffset(2)}
    for group in ("b", "a"):
        groups.commit(group, offsets)
    assert groups.groups() == {"a": offsets, "b": offsets}
    assert groups.groups()["a"]["t", 0].commit_timestamp == NOW_MS
    assert groups.delete("a")
    assert not groups.delete("a")
    assert list(groups.groups()) == ["b"]
    assert GroupOffsets(managed(tmp_path)).fetch("a") == {}


def test_a_look_that_was_interrupted_loses_nothing(disk: MemoryFileSystem) -> None:
    faulty = FaultyFileSystem(disk)
    groups = GroupOffsets(LogManager.open("/logs", clock=disk.clock, filesystem=faulty))
    others = GroupOffsets(on(disk))
    for n in range(3):
        others.commit("g", {("t", n): CommittedOffset(n)})
        rule = fail("status", "*.log", call=2)
        faulty.rules[:] = [rule]
        if n:
            with pytest.raises(StorageError, match="Input/output"):
                groups.fetch("g")
            assert rule.struck
        faulty.rules.clear()
        assert groups.fetch("g") == {("t", each): CommittedOffset(each) for each in range(n + 1)}


def test_an_undecodable_record_is_reported_on_every_call(disk: MemoryFileSystem) -> None:
    manager = on(disk)
    write(manager, OffsetCommitKey("g", "t", 0), b"\x7f\xff what is this")
    groups = GroupOffsets(on(disk))
    for _ in range(2):
        with pytest.raises(InvalidRecordError):
            groups.fetch("g")


def test_a_batch_lost_before_a_later_unsynced_one_does_not_keep_the_writer_from_its_own_offsets(tmp_path: Path) -> None:
    """A power cut may keep the second of two writes that were never synced. Readers refuse that, writers repair it."""
    log = tmp_path / f"{GROUP_METADATA_TOPIC}-0" / "00000000000000000000.log"
    with managed(tmp_path) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=1)
        GroupOffsets(manager).commit("g", {("t", 0): CommittedOffset(5)})
    synced = log.stat().st_size
    manager = managed(tmp_path)  # never closed, so the recovery point stays
    for offset in (6, 7):
        GroupOffsets(manager).commit("g", {("t", 0): CommittedOffset(offset)})
    data = log.read_bytes()
    lost = synced + (len(data.rstrip(b"\0")) - synced) // 2
    copied = tmp_path.with_name(f"{tmp_path.name}-copied")
    shutil.copytree(tmp_path, copied)
    (copied / f"{GROUP_METADATA_TOPIC}-0" / log.name).write_bytes(data[:synced] + bytes(lost - synced) + data[lost:])
    with managed(copied) as manager:
        groups = GroupOffsets(manager)
        with pytest.raises(CorruptRecordError):
            groups.fetch("g")
        assert groups.fetch_to_commit("g") == {("t", 0): CommittedOffset(5)}
    with managed(copied) as manager:
        assert GroupOffsets(manager).fetch("g") == {("t", 0): CommittedOffset(5)}


def test_damage_to_synced_offsets_is_an_error_for_a_writer_too(tmp_path: Path) -> None:
    log = tmp_path / f"{GROUP_METADATA_TOPIC}-0" / "00000000000000000000.log"
    with managed(tmp_path) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=1)
        for offset in (5, 6):
            GroupOffsets(manager).commit("g", {("t", 0): CommittedOffset(offset)})
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    with managed(tmp_path) as manager, pytest.raises(CorruptRecordError):
        GroupOffsets(manager).fetch_to_commit("g")
    assert log.read_bytes() == data
