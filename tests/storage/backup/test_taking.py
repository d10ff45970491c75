"""Backups of a log directory, and what restoring them gives."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_commitlog.storage import GroupOffsets, LogManager
from pyspark_commitlog.storage.backup import taking
from pyspark_commitlog.storage.backup.checking import verify_backup
from pyspark_commitlog.storage.backup.cuts import list_cuts
from pyspark_commitlog.storage.backup.places import FolderPlace, StorePlace
from pyspark_commitlog.storage.backup.taking import take_backup
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.directory.admin import delete_topic
from pyspark_commitlog.storage.directory.snapshots.building import check_outside
from pyspark_commitlog.storage.errors import LogDirLockedError, SnapshotError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus
from pyspark_commitlog.storage.maintenance.partitions import in_this_process, verify_partitions
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from tests.storage.backup.logs import append, back_up, folder, made, restored, tree
from tests.support.logs.building import NOW_MS
from tests.support.stores.memory_store import MemoryStore


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return made(tmp_path / "log")


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    return folder(tmp_path / "backup")


def test_a_restored_directory_is_byte_for_byte_what_it_was(directory: Path, place: FolderPlace, tmp_path: Path) -> None:
    before = tree(directory)
    back_up(directory, place)
    assert restored(place, tmp_path / "again") == before
    assert not [*tmp_path.glob("*.unfinished")]
    with LogManager.open(str(tmp_path / "again")) as manager:
        offsets = GroupOffsets(manager).fetch("readers")
        assert {str(each): one.offset for each, one in offsets.items()} == {"orders-0": 4, "prices-0": 2}


def test_each_backup_restores_its_own_moment(directory: Path, place: FolderPlace, tmp_path: Path) -> None:
    moments = []
    for n in range(3):
        with LogManager.open(str(directory)) as manager:
            append(manager, 0, 10 + n)
        moments.append((back_up(directory, place).cut, tree(directory)))
    for n, (cut, content) in enumerate(moments):
        assert restored(place, tmp_path / f"again-{n}", cut.name) == content
    assert restored(place, tmp_path / "by-time", moments[1][0].taken_at_ms) == moments[1][1]


def test_an_unchanged_directory_is_neither_read_nor_stored_again(
    directory: Path, place: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in directory.rglob("*.log"):
        os.utime(path, (0, 0))  # some time before the backup
    assert back_up(directory, place).stored_bytes > 0
    read: list[str] = []
    spans = taking._bounds

    def noting(file: object, *arguments: object) -> object:
        read.append(str(getattr(file, "path")))  # noqa: B009
        return spans(file, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(taking, "_bounds", noting)
    assert back_up(directory, place).stored_bytes == 0
    assert not [path for path in read if path.endswith(".log")]


def test_a_write_that_leaves_size_and_time_of_a_segment_is_in_the_next_backup(
    directory: Path, place: FolderPlace, tmp_path: Path
) -> None:
    """As in a preallocated segment, if it comes within the step of the file system's clock."""
    back_up(directory, place)
    segment = max((directory / "orders-0").glob("*.log"))
    before, data = segment.stat(), segment.read_bytes()
    segment.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(segment, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert segment.stat().st_ino == before.st_ino
    back_up(directory, place)
    assert restored(place, tmp_path / "again") == tree(directory)


@pytest.mark.parametrize("where", ["log", "log/backup", "link/orders-0/backup"])
def test_a_place_in_the_log_directory_is_refused(where: str, directory: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(directory)
    with LogManager.open(str(directory)) as manager:
        with pytest.raises(SnapshotError, match="is in the log directory"):
            check_outside(str(tmp_path / where), manager)
        with pytest.raises(SnapshotError, match="is in the log directory"):
            take_backup(manager, folder(tmp_path / "backup"), staging=str(tmp_path / where))
        check_outside(str(tmp_path / "log-backup"), manager)


@pytest.mark.parametrize("spelled", [".", "../link"])
def test_links_are_made_beside_the_log_directory_however_it_is_spelled(
    spelled: str, directory: Path, place: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    directory.rename(tmp_path / "disk" / "log")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "log")
    monkeypatch.chdir(tmp_path / "disk" / ("log" if spelled == "." else ""))
    store, seen = taking._Storing.store, list[Path]()

    def noting(self: taking._Storing, found: object) -> object:
        seen.extend((tmp_path / "disk").glob("commitlog-backup-*"))
        return store(self, found)  # type: ignore[arg-type]

    monkeypatch.setattr(taking._Storing, "store", noting)
    with LogManager.open(spelled) as manager, place.locked():
        take_backup(manager, place)
    assert len(seen) == 1


def test_what_was_appended_is_all_that_is_stored(directory: Path, place: FolderPlace, tmp_path: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        append(manager, 0, 1, size=100_000)  # so that the last piece is not a small one
        append(manager, 1, 1, size=100_000)
    back_up(directory, place)
    with LogManager.open(str(directory)) as manager:
        append(manager, 0, 2, size=2000)
    taken = back_up(directory, place)
    assert 8000 < taken.stored_bytes < 12_000
    assert restored(place, tmp_path / "again") == tree(directory)


def _retention(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        manager.open_log("orders", 0).delete_records(8)
        for path in (directory / "orders-0").glob("00000000000000000000.*"):
            path.unlink()


def _compaction(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        assert Cleaner().clean(manager.open_log("prices", 0), None, NOW_MS).segments_before == 4


def _deletion(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        delete_topic(manager, "orders")


def _appends(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        for n in range(5):
            append(manager, 1, n)
            manager.open_log("prices", 0).roll()


@pytest.mark.parametrize("change", [_retention, _compaction, _deletion, _appends])
def test_what_happens_while_pieces_are_stored_is_not_in_the_backup(
    change: Callable[[Path], None],
    directory: Path,
    place: FolderPlace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = tree(directory)
    store = taking._Storing.store

    def changing(self: taking._Storing, found: object) -> object:
        change(directory)
        return store(self, found)  # type: ignore[arg-type]

    monkeypatch.setattr(taking._Storing, "store", changing)
    back_up(directory, place)
    assert tree(directory) != before
    again = restored(place, tmp_path / "again")
    assert {path: data for path, data in again.items() if path in before} == before
    assert again.keys() == before.keys()


def test_compaction_replaces_segments_whose_times_stay_and_the_backup_notices(
    directory: Path, place: FolderPlace, tmp_path: Path
) -> None:
    back_up(directory, place)
    _compaction(directory)
    back_up(directory, place)
    again = restored(place, tmp_path / "again")
    now = tree(directory)
    assert again == {path: data for path, data in now.items() if not path.endswith(".deleted")}


def test_on_a_disk_without_links_all_is_copied_while_writers_wait(
    directory: Path, place: FolderPlace, tmp_path: Path
) -> None:
    class NoLinks(LocalFileSystem):
        def link(self, source: str, target: str) -> None:
            raise OSError(errno.EXDEV, "another disk", source)

    with LogManager.open(str(directory), filesystem=NoLinks()) as manager, place.locked():
        take_backup(manager, place, staging=str(tmp_path / "elsewhere"))
    assert restored(place, tmp_path / "again") == tree(directory)
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_a_backup_on_an_object_store_is_the_same(directory: Path, tmp_path: Path) -> None:
    place = StorePlace(MemoryStore())
    back_up(directory, place)
    assert restored(place, tmp_path / "again") == tree(directory)
    assert not [*verify_backup(place)]


def test_a_second_run_to_an_object_store_leaves_the_links_of_the_first(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, store = StorePlace(MemoryStore()), taking._Storing.store

    def second(self: taking._Storing, found: object) -> object:
        monkeypatch.undo()
        with pytest.raises(SnapshotError, match="another process backs up this log to the same place"):
            back_up(directory, place)
        return store(self, found)  # type: ignore[arg-type]

    monkeypatch.setattr(taking._Storing, "store", second)
    back_up(directory, place)
    assert restored(place, tmp_path / "again") == tree(directory)
    back_up(directory, place)
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("commitlog-backup-")]


def test_a_piece_that_is_missing_is_stored_again(directory: Path, place: FolderPlace, tmp_path: Path) -> None:
    back_up(directory, place)
    objects = [path for path in (tmp_path / "backup" / "objects").rglob("*") if path.is_file()]
    objects[0].unlink()
    objects[1].write_bytes(b"")
    assert len([*verify_backup(place)]) == 2
    back_up(directory, place)
    assert not [*verify_backup(place)]
    assert restored(place, tmp_path / "again") == tree(directory)


def test_a_backup_is_refused_while_a_broker_runs_and_beside_another_one(directory: Path, place: FolderPlace) -> None:
    broker = LocalFileSystem().lock_as_broker(str(directory / ".lock"))
    assert broker is not None
    with broker, pytest.raises(LogDirLockedError):
        back_up(directory, place)
    with place.locked(), pytest.raises(SnapshotError, match="another process changes this backup"):
        back_up(directory, place)
    assert not list_cuts(place)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_run_that_fails_leaves_the_earlier_backups_and_the_next_one_completes(
    at: int, directory: Path, place: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, before = back_up(directory, place).cut, tree(directory)
    with LogManager.open(str(directory)) as manager:
        for number in range(2):
            manager.open_log("orders", number).roll()
            append(manager, number, 20)
    put, done = FolderPlace.put, 0

    def failing(self: FolderPlace, name: str, data: bytes) -> None:
        nonlocal done
        done += 1
        if done > at:
            Path(self.path, name).parent.mkdir(parents=True, exist_ok=True)
            Path(self.path, name).write_bytes(data[:-1])  # as a power cut may leave it
            raise OSError(errno.ENOSPC, "No space left on device", name)
        put(self, name, data)

    with monkeypatch.context() as patched:
        patched.setattr(FolderPlace, "put", failing)
        with pytest.raises(OSError, match="No space left"):
            back_up(directory, place)
    assert [each.name for each in list_cuts(place)] == [first.name]
    assert restored(place, tmp_path / "again", first.name) == before
    back_up(directory, place)
    assert not [*verify_backup(place)]
    assert restored(place, tmp_path / "newest") == tree(directory)


def test_a_restored_directory_is_sound_and_takes_records(directory: Path, place: FolderPlace, tmp_path: Path) -> None:
    back_up(directory, place)
    restored(place, tmp_path / "again")
    run = MaintenanceRun(str(tmp_path / "again"))
    with run.manager() as manager:
        selection = select_partitions(manager, (), ConfigOverrides())
        assert {each.status for each in verify_partitions(run, selection, in_this_process)} == {OutcomeStatus.DONE}
        end = manager.open_log("orders", 1).log_end_offset
        append(manager, 1, 30)
        assert manager.open_log("orders", 1).log_end_offset == end + 4
