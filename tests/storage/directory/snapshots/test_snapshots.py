"""Snapshots: their content, their independence from later changes of the log, and crashes and damage."""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path

import pytest

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import CleanerConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.snapshots.restoring import read_snapshot, restore_snapshot
from pyspark_commitlog.storage.directory.snapshots.taking import take_snapshot
from pyspark_commitlog.storage.errors import LogDirLockedError, SnapshotError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.retention.apply import retain
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, Rule, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, append, end_transaction, records, rows, write_transactional
from tests.support.logs.directories import directory_with_internal_topics

Rows = dict[tuple[str, int], list[tuple[int, bytes | None]]]


def manager_of(path: Path, rules: list[Rule] | None = None) -> LogManager:
    filesystem = LocalFileSystem() if rules is None else FaultyFileSystem(LocalFileSystem(), rules)
    return LogManager.open(str(path), create=True, clock=ManualClock(NOW_MS), filesystem=filesystem)


def fill(manager: LogManager) -> None:
    """Topics orders, of two partitions with two closed segments and an active one, and users, which is compacted."""
    manager.create_topic("orders", partitions=2, configs={"retention.ms": "5", "file.delete.delay.ms": "0"})
    manager.create_topic("users", partitions=1, configs={"cleanup.policy": "compact"})
    for partition in (0, 1):
        log = manager.open_log("orders", partition)
        for n in range(3):
            append(log, b"%d" % n * 20, timestamps=NOW_MS - 100)
            if n < 2:
                log.roll()
    log = manager.open_log("users", 0)
    for n in range(3):
        log.append_records(records([b"%d" % n], keys=[b"k"], timestamps=NOW_MS))
        log.roll()


def everything(manager: LogManager) -> Rows:
    topics = manager.topics().values()
    return {
        (topic.name, partition): rows(manager.open_reader(topic.name, partition))
        for topic in topics
        for partition in topic.partitions
    }


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    """A directory for writing, with closed logs in it."""
    made = manager_of(tmp_path / "log")
    directory_with_internal_topics(tmp_path / "log")
    fill(made)
    GroupOffsets(made).commit("etl", {("orders", 0): CommittedOffset(2)})
    made.close()
    return made


def test_a_restored_directory_equals_the_original(manager: LogManager, tmp_path: Path) -> None:
    before = everything(manager)
    taken = take_snapshot(manager, str(tmp_path / "deep" / "snap"))
    assert read_snapshot(str(tmp_path / "deep" / "snap")) == taken
    assert len(taken.partitions) == 5
    restore_snapshot(taken.directory, str(tmp_path / "again"))
    with manager_of(tmp_path / "again") as again:
        assert again.topics() == manager.topics()
        assert everything(again) == before
        assert GroupOffsets(again).fetch("etl") == {("orders", 0): CommittedOffset(2)}
        assert again.all_marks() == manager.all_marks()
        assert append(again.open_log("orders", 0), b"more").first_offset == 3
    assert read_snapshot(taken.directory) == taken


def test_closed_segments_are_links_and_all_else_is_copied(manager: LogManager, tmp_path: Path) -> None:
    taken = take_snapshot(manager, str(tmp_path / "snap"))
    for path, file in taken.files.items():
        source, copy = Path(manager.directory, path), tmp_path / "snap" / "log" / path
        assert file.linked == (source.stat().st_ino == copy.stat().st_ino)
        assert copy.read_bytes() == source.read_bytes()
        assert file.modified_ms == copy.stat().st_mtime_ns // 1_000_000
    linked = sorted(path for path, file in taken.files.items() if file.linked and path.startswith("orders-0"))
    assert linked == [f"orders-0/{base:020d}.log" for base in (0, 1)]


def test_without_links_everything_is_copied(manager: LogManager, tmp_path: Path) -> None:
    with manager_of(tmp_path / "log", [fail("link", error=errno.EXDEV, lasting=True)]) as elsewhere:
        taken = take_snapshot(elsewhere, str(tmp_path / "snap"))
    assert not any(file.linked for file in taken.files.values())
    assert everything(manager_of(tmp_path / "snap" / "log")) == everything(manager)


def test_later_changes_of_the_log_leave_the_snapshot_alone(manager: LogManager, tmp_path: Path) -> None:
    before = everything(manager)
    taken = take_snapshot(manager, str(tmp_path / "snap"))
    contents = {path: (tmp_path / "snap" / "log" / path).read_bytes() for path in taken.files}
    append(manager.open_log("orders", 0), b"more")
    assert retain(manager.open_log("orders", 0)).plan.removed
    Cleaner(CleanerConfig()).clean(manager.open_log("users", 0), None, NOW_MS)
    manager.open_log("orders", 1).truncate_fully_and_start_at(0)
    manager.close()
    assert everything(manager) != before
    assert {path: (tmp_path / "snap" / "log" / path).read_bytes() for path in taken.files} == contents
    restore_snapshot(taken.directory, str(tmp_path / "again"))
    assert everything(manager_of(tmp_path / "again")) == before


def test_restoring_reports_what_truncating_the_log_cut_from_the_snapshot(manager: LogManager, tmp_path: Path) -> None:
    take_snapshot(manager, str(tmp_path / "snap"))
    with manager:
        manager.open_log("orders", 0).truncate_to(1)
        append(manager.open_log("orders", 0), b"x")
    with pytest.raises(
        SnapshotError, match=r"00000000000000000001\.log: it has .* bytes, but had .* when the snapshot was taken"
    ):
        restore_snapshot(str(tmp_path / "snap"), str(tmp_path / "again"))
    assert not (tmp_path / "again").exists()


def test_a_transaction_is_visible_completely_or_not_at_all(manager: LogManager, tmp_path: Path) -> None:
    """A writer commits to two partitions repeatedly, under both append locks, while snapshots are taken."""
    stop = threading.Event()

    def write() -> None:
        with manager_of(tmp_path / "log") as writing:
            logs = [writing.open_log("orders", partition) for partition in (0, 1)]
            for n in range(10_000):
                if stop.is_set():
                    return
                with logs[0].exclusively(), logs[1].exclusively():
                    for log in logs:
                        write_transactional(log, 7, log.next_sequence(Producer(7, 0)), b"%d" % n)
                    for log in logs:
                        end_transaction(log, 7, commit=True)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for attempt in range(2):
            taken = take_snapshot(manager_of(tmp_path / "log"), str(tmp_path / f"snap{attempt}"))
            restored = manager_of(Path(taken.directory, "log"))
            found = [
                rows(restored.open_reader("orders", partition), Isolation.READ_COMMITTED)[3:] for partition in (0, 1)
            ]
            assert [value for _, value in found[0]] == [value for _, value in found[1]]
            open_ones = [restored.open_reader("orders", partition) for partition in (0, 1)]
            assert all(reader.last_stable_offset == reader.log_end_offset for reader in open_ones)
    finally:
        stop.set()
        writer.join()


def test_a_swap_that_was_not_finished_is_finished_in_the_snapshot(manager: LogManager, tmp_path: Path) -> None:
    before = everything(manager)
    users = Path(manager.directory, "users-0")
    for suffix in (".log", ".index", ".timeindex"):
        path = users / f"{0:020d}{suffix}"
        (users / f"{path.name}.swap").write_bytes(path.read_bytes())
        path.write_bytes(b"")
    (users / f"{1:020d}.log.deleted").write_bytes(b"old")
    taken = take_snapshot(manager, str(tmp_path / "snap"))
    assert not [path for path in taken.files if path.endswith((".swap", ".deleted"))]
    assert everything(manager_of(tmp_path / "snap" / "log")) == before


def test_a_snapshot_of_a_brokers_directory_keeps_its_clean_shutdown_mark(tmp_path: Path) -> None:
    log_dir = broker_dirs.copy_to(tmp_path / "log", "plain/final")
    (log_dir / "topics.json").unlink()
    assert (log_dir / ".kafka_cleanshutdown").exists()
    with broker_dirs.open_manager(log_dir) as manager:
        before = everything(manager)
        taken = take_snapshot(manager, str(tmp_path / "snap"))
    assert (log_dir / ".kafka_cleanshutdown").exists()
    assert "meta.properties" in taken.files
    restore_snapshot(taken.directory, str(tmp_path / "again"))
    assert everything(broker_dirs.open_manager(tmp_path / "again")) == before


# Obstacles


def test_an_existing_target_is_left_alone(manager: LogManager, tmp_path: Path) -> None:
    for place in (tmp_path / "full", tmp_path / "file"):
        (tmp_path / "full").mkdir(exist_ok=True)
        (tmp_path / "full" / "note").write_text("mine")
        (tmp_path / "file").write_text("mine")
        with pytest.raises(SnapshotError, match="this is not an empty directory"):
            take_snapshot(manager, str(place))
    assert (tmp_path / "full" / "note").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    taken = take_snapshot(manager, f"{tmp_path}/empty/")
    with pytest.raises(SnapshotError, match="this is not an empty directory"):
        restore_snapshot(taken.directory, manager.directory)


@pytest.mark.parametrize("target", [".", "", "link", "link/", "mounted"])
def test_a_target_that_cannot_be_replaced_is_refused_before_anything_is_copied(
    target: str, manager: LogManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = take_snapshot(manager, str(tmp_path / "snap"))
    for each in ("cwd", "mounted"):
        (tmp_path / "new" / each).mkdir(parents=True)
    (tmp_path / "new" / "cwd" / "link").symlink_to(tmp_path / "new" / "mounted")
    monkeypatch.chdir(tmp_path / "new" / "cwd")
    if target in (".", "mounted"):
        (tmp_path / "new" / "cwd" / "link").unlink()
    disk = FaultyFileSystem(LocalFileSystem(), [fail("remove", "*mounted", error=errno.EBUSY)])
    with pytest.raises(SnapshotError):
        restore_snapshot(taken.directory, target.replace("mounted", "../mounted"), filesystem=disk)
    assert not [*(tmp_path / "new").rglob("*.unfinished"), *(tmp_path / "new").rglob("*.log")]


def test_a_snapshot_in_the_log_directory_is_refused(manager: LogManager, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="is in the log directory"):
        take_snapshot(manager, str(tmp_path / "log" / "snap"))
    assert not (tmp_path / "log" / "snap").exists()


def test_beside_a_running_broker_there_is_no_snapshot(tmp_path: Path) -> None:
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    manager = LogManager.open("/log", create=True, filesystem=disk, clock=ManualClock(NOW_MS))
    manager.create_topic("t", partitions=1)
    manager.close()
    assert disk.lock_as_broker("/log/.lock") is not None
    with pytest.raises(LogDirLockedError, match="running Kafka broker"):
        take_snapshot(manager, "/snap")
    assert disk.status("/snap") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "contains no snapshot.json"),
        (b"{", "the file is damaged"),
        (b'{"version": 2}', "version 2, but this engine knows 1"),
        (b'{"version": 1, "source": "", "taken_at_ms": 0, "files": {"../x": {}}}', "the file is damaged"),
        (
            b'{"version": 1, "source": "", "taken_at_ms": 0, "files": '
            b'{"../x": {"size": 1, "modified_ms": 0, "linked": false}}}',
            "lies outside the snapshot",
        ),
    ],
)
def test_a_directory_without_a_snapshot_is_reported(tmp_path: Path, content: bytes | None, said: str) -> None:
    (tmp_path / "snap").mkdir()
    if content is not None:
        (tmp_path / "snap" / "snapshot.json").write_bytes(content)
    with pytest.raises(SnapshotError, match=said):
        restore_snapshot(str(tmp_path / "snap"), str(tmp_path / "again"))


def test_a_missing_file_is_reported_before_anything_is_created(manager: LogManager, tmp_path: Path) -> None:
    taken = take_snapshot(manager, str(tmp_path / "snap"))
    (tmp_path / "snap" / "log" / sorted(taken.files)[-1]).unlink()
    with pytest.raises(SnapshotError, match="it is missing"):
        restore_snapshot(taken.directory, str(tmp_path / "again"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "snap"]


# Crashes


def small() -> MemoryFileSystem:
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with LogManager.open("/log", create=True, filesystem=disk, clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("t", partitions=1)
        log = manager.open_log("t", 0)
        append(log, b"a")
        log.roll()
        append(log, b"b")
    return disk.crash(0, unsynced="kept")


def on(disk: MemoryFileSystem, directory: str) -> LogManager:
    return LogManager.open(directory, filesystem=disk, clock=ManualClock(NOW_MS))


def test_after_a_power_cut_a_snapshot_is_complete_or_has_another_name() -> None:
    written, seen = small(), set()
    for operation, disk in crash_points(lambda each: take_snapshot(on(each, "/log"), "/snap"), written):
        left = disk.crash(5)
        seen.add(left.status("/snap") is not None)
        if left.status("/snap") is None:
            take_snapshot(on(left, "/log"), "/snap")  # over what is left of the first one
        assert left.status(f"/snap{file_names.UNFINISHED}") is None, operation
        restore_snapshot("/snap", "/again", filesystem=left)
        assert rows(on(left, "/again").open_reader("t", 0)) == [(0, b"a"), (1, b"b")], operation
        assert rows(on(left, "/log").open_reader("t", 0)) == [(0, b"a"), (1, b"b")], operation
    assert seen == {True, False}


def test_after_a_power_cut_a_restored_directory_is_complete_or_has_another_name() -> None:
    written, seen = small(), set()
    take_snapshot(on(written, "/log"), "/snap")
    for operation, disk in crash_points(lambda each: restore_snapshot("/snap", "/again", filesystem=each), written):
        for seed in range(2):
            left = disk.crash(seed)
            seen.add(left.status("/again") is not None)
            if left.status("/again") is None:
                restore_snapshot("/snap", "/again", filesystem=left)
            assert rows(on(left, "/again").open_reader("t", 0)) == [(0, b"a"), (1, b"b")], operation
    assert seen == {True, False}


def test_the_manifest_names_every_file(manager: LogManager, tmp_path: Path) -> None:
    taken = take_snapshot(manager, str(tmp_path / "snap"))
    there = {str(path.relative_to(tmp_path / "snap" / "log")) for path in (tmp_path / "snap" / "log").rglob("*.*")}
    named = json.loads((tmp_path / "snap" / "snapshot.json").read_text())["files"]
    assert {path for path in there if (tmp_path / "snap" / "log" / path).is_file()} <= {*named}
    assert {*named} == {*taken.files}
