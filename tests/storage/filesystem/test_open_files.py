"""A process uses more logs than it may have open files; if it needs too many locks, it refuses before it begins."""

from __future__ import annotations

import errno
import os
import random
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.admin import delete_topic
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.snapshots.taking import take_snapshot
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.filesystem import open_files
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.filesystem.port import File
from pyspark_commitlog.storage.maintenance.partitions import (
    compact_partitions,
    in_this_process,
    rebuild_partitions,
    retain_partitions,
    verify_partitions,
)
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.transaction import TransactionPart
from pyspark_commitlog.storage.transactions.writer import TransactionalWriter
from tests.support.logs.building import committed, open_files as open_below, records
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.logs.transactions import encoded

FEW = 40  # files that a process may have: half of them for logs
MANY = 100


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process have few open files; ignores the process's other locks."""
    monkeypatch.setattr(open_files, "limit", lambda: FEW)
    monkeypatch.setattr(open_files.OPEN_FILES, "files_max", open_files.FILES_MIN)


@pytest.fixture
def many(tmp_path: Path, few: None) -> list[File]:
    """Files to write, each containing its number."""
    made = [LocalFileSystem().open(str(tmp_path / f"{n:03}"), "create") for n in range(MANY)]
    for n, file in enumerate(made):
        file.write(0, b"%03d" % n)
    return made


def test_all_of_many_files_are_read_and_written_with_few_of_them_open(many: list[File], tmp_path: Path) -> None:
    for n, file in enumerate(many):
        assert bytes(file.read(0, 10)) == b"%03d" % n
        file.write(3, b"!")
        assert file.size() == 4
        assert open_below(tmp_path) <= FEW // 2
    for file in reversed(many):
        file.truncate(2)
        file.begin_sync()
        file.sync()
    assert {path.stat().st_size for path in tmp_path.iterdir()} == {2}
    for file in many:
        file.close()
    assert open_below(tmp_path) == 0


def test_the_file_of_a_lock_is_closed_for_others_unless_it_is_held(tmp_path: Path, few: None) -> None:
    before = set(open_files.OPEN_FILES.locks)
    locks = [LocalFileSystem().lock(str(tmp_path / name)) for name in ("held", "free")]
    for lock in locks:
        assert lock is not None
    held, free = (lock for lock in locks if lock is not None)
    free.unlock()
    others = [LocalFileSystem().open(str(tmp_path / f"{n:03}"), "create") for n in range(MANY)]
    assert LocalFileSystem().lock(str(tmp_path / "held"), wait=False) is None
    assert not free.lock_again()
    free.unlock()  # nothing to do
    held.unlock()
    assert held.lock_again()
    held.release()
    assert open_below(tmp_path) <= FEW // 2
    assert open_files.OPEN_FILES.locks == before
    for file in others:
        file.close()


def test_a_held_file_is_not_closed_for_others(tmp_path: Path, few: None) -> None:
    path = tmp_path / "held"
    path.write_bytes(b"x")
    file = LocalFileSystem().open(str(path), "read")
    held = file.hold()
    others = [LocalFileSystem().open(str(tmp_path / f"{n:03}"), "create") for n in range(MANY)]
    assert os.pread(held.descriptor, 1, 0) == b"x"
    held.release()
    for _ in range(2):
        for other in others:
            other.size()  # so that the file rests
    again = file.hold()
    assert os.pread(again.descriptor, 1, 0) == b"x"
    again.release()
    for other in (file, *others):
        other.close()
    assert open_below(tmp_path) == 0


def resting(many: list[File]) -> File:
    """A file that is closed for a while: the first, opened before all others."""
    many[-1].size()
    return many[0]


def test_what_was_written_is_synced_before_a_file_is_closed_for_others(
    tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))[1])
    file = LocalFileSystem().open(str(tmp_path / "written"), "create")
    file.write(0, b"x")
    others = [LocalFileSystem().open(str(tmp_path / "written"), "read") for _ in range(MANY)]
    assert synced == [str(tmp_path / "written")]
    file.sync()  # by its writer: others may have written to the file, too
    assert len(synced) == 2
    assert len(others) == MANY


def test_a_sync_that_fails_while_closing_is_raised_by_the_next_sync(
    tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    file = LocalFileSystem().open(str(tmp_path / "written"), "create")
    file.write(0, b"x")
    monkeypatch.setattr(os, "fsync", broken)
    others = [LocalFileSystem().open(str(tmp_path / "written"), "read") for _ in range(MANY)]
    monkeypatch.setattr(os, "fsync", fsync)
    assert bytes(file.read(0, 1)) == b"x"
    with pytest.raises(OSError, match=r"sync: Input/output error.*written"):
        file.sync()
    assert len(others) == MANY


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_replaced_file_is_not_taken_for_the_one_kept_open(
    is_replaced: bool, many: list[File], tmp_path: Path
) -> None:
    file = resting(many)
    (tmp_path / "000").rename(tmp_path / "moved")
    if is_replaced:
        (tmp_path / "000").write_bytes(b"another")
    with pytest.raises(FileNotFoundError):
        file.read(0, 3)
    with pytest.raises(FileNotFoundError):
        file.sync()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 3)


def test_a_file_in_use_is_not_closed(many: list[File], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptor number would soon be another file's."""
    reading, opened = threading.Event(), threading.Event()
    pread, wanted = os.pread, many[0]
    wanted.size()

    def slow(descriptor: int, length: int, position: int) -> bytes:
        if threading.current_thread() is not threading.main_thread():
            reading.set()
            assert opened.wait(60)
        return pread(descriptor, length, position)

    monkeypatch.setattr(os, "pread", slow)
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(bytes(wanted.read(0, 3))))
    thread.start()
    assert reading.wait(60)
    for n, file in enumerate(many[1:], 1):
        assert bytes(file.read(0, 3)) == b"%03d" % n
    opened.set()
    thread.join()
    assert found == [b"000"]


def test_threads_that_share_files_read_what_is_in_them(many: list[File]) -> None:
    wrong: list[tuple[int, bytes]] = []

    def read(seed: int) -> None:
        numbers = random.Random(seed)
        for _ in range(500):
            n = numbers.randrange(MANY)
            if (got := bytes(many[n].read(0, 3))) != b"%03d" % n:
                wrong.append((n, got))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_forked_child_reads_files_kept_open_by_its_parent(many: list[File]) -> None:
    file = resting(many)
    child = os.fork()
    if not child:
        os._exit(0 if bytes(file.read(0, 3)) == b"000" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(file.read(0, 3)) == b"000"


# The limit itself


@pytest.fixture
def full() -> Iterator[int]:
    """A limit of which all but a few files are used up by other parts of this process; returns how many remain."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 12, limits[1]))
    yield highest + 12
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_files_are_closed_where_others_used_up_the_limit(tmp_path: Path, full: int) -> None:
    disk = LocalFileSystem()
    files = [disk.open(str(tmp_path / f"{n}"), "create") for n in range(30)]
    others = []
    while True:
        try:
            others.append(os.open(str(tmp_path / "0"), os.O_RDONLY))
        except OSError:
            break
    assert disk.list(str(tmp_path))
    disk.sync_directory(str(tmp_path))
    lock = disk.lock(str(tmp_path / "lock"))
    assert lock is not None
    assert files[0].size() == 0
    lock.release()
    for each in others:
        os.close(each)


def test_if_nothing_can_be_closed_the_error_names_the_limit_to_raise(tmp_path: Path, full: int) -> None:
    locks = []

    def lock_more() -> None:
        for n in range(full):  # many of the numbers below may be free
            locks.append(LocalFileSystem().lock(str(tmp_path / f"{n}")))

    said = rf"Too many open files; this process may have {full:,}: raise that limit, with 'ulimit -n'"
    with pytest.raises(OSError, match=said):
        lock_more()
    for lock in locks:
        assert lock is not None
        lock.release()


def test_the_limit_is_raised_as_far_as_the_user_may(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [1024, 1500]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.__setitem__(slice(None), new))
    files = open_files.OpenFiles()
    files.check_room_for_locks(900, "it")
    assert limits == [1024, 1500]
    files.check_room_for_locks(1200, "it")
    assert limits == [1272, 1500]
    assert open_files._raise_limit(100)
    assert limits == [1272, 1500]  # never lowered
    said = "it needs 2,072 open files at a time; this process may have 1,272: raise that limit, with 'ulimit -n 2072'"
    with pytest.raises(StorageError, match=said):
        files.check_room_for_locks(2000, "it")


# Logs

PARTITIONS = 30


@pytest.fixture
def directory(tmp_path: Path, few: None) -> str:
    """A topic of more partitions than files may be open, with three records in each."""
    path = directory_with_internal_topics(tmp_path / "log")
    with LogManager.open(path) as manager:
        manager.create_topic("wide", partitions=PARTITIONS, configs={"segment.index.bytes": "1000"})
        for value in (b"a", b"b", b"c"):  # so that each log is used again when others were
            for partition in range(PARTITIONS):
                manager.open_log("wide", partition).append_records(records([value], keys=[b"k"]))
                assert open_below(tmp_path) <= FEW
    return path


def test_many_logs_are_written_and_read_side_by_side(directory: str, tmp_path: Path) -> None:
    with LogManager.open(directory) as manager:
        watchers = [manager.open_watcher("wide", partition) for partition in range(PARTITIONS)]
        for watcher in (*watchers, *watchers):
            watcher.catch_up()
            assert committed(watcher) == [(0, b"a"), (1, b"b"), (2, b"c")]
            assert open_below(tmp_path) <= FEW
        for watcher in watchers:
            watcher.close()


def test_maintenance_of_many_logs(directory: str) -> None:
    run = MaintenanceRun(directory, overrides=ConfigOverrides.parse([]))
    with run.manager() as manager:
        chosen = select_partitions(manager, ["wide"], run.overrides)
    for work in (verify_partitions, rebuild_partitions, retain_partitions, compact_partitions):
        assert [each for each in work(run, chosen, in_this_process) if each.status.value != "done"] == []


def commit_everywhere(manager: LogManager, coordinator: TransactionCoordinator) -> None:
    places = [("wide", partition) for partition in range(PARTITIONS)]
    transaction = coordinator.begin(places)
    with coordinator.syncing(transaction) as left:
        writer = TransactionalWriter(manager, transaction, unsynced=left)
        for place in places:
            writer.append(*place, encoded(b"d"))
        writer.sync()
    coordinator.commit(transaction, [TransactionPart(*place, 1) for place in places])
    coordinator.checkpoint()


def test_a_transaction_over_many_logs(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commit holds a lock for each log; these stay open."""
    limit = PARTITIONS + open_files.FILES_MIN + open_files.OTHERS + 1
    monkeypatch.setattr(open_files, "limit", lambda: limit)
    with (
        LogManager.open(directory) as manager,
        LogManager.open(directory) as tasks,
        TransactionCoordinator.open(manager, "copy") as coordinator,
    ):
        commit_everywhere(tasks, coordinator)
        for partition in range(PARTITIONS):
            assert committed(manager.open_reader("wide", partition))[3:] == [(3, b"d")]


def test_needing_more_locks_than_possible_is_refused_before_anything_is_done(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "_raise_limit", lambda _: False)
    said = "open files at a time; this process may have 40: raise that limit"
    before = sorted(tmp_path.rglob("*"))
    with LogManager.open(directory) as manager:
        with pytest.raises(StorageError, match=f"a snapshot of .* needs .* {said}"):
            take_snapshot(manager, str(tmp_path / "snapshot"))
        with pytest.raises(StorageError, match=f"deleting topic 'wide' needs .* {said}"):
            delete_topic(manager, "wide")
        with (
            TransactionCoordinator.open(manager, "copy") as coordinator,
            pytest.raises(StorageError, match=f"a transaction over 30 partitions needs .* {said}"),
        ):
            commit_everywhere(manager, coordinator)
        assert committed(manager.open_reader("wide", 7)) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before and path.suffix != ".lock"] == []
