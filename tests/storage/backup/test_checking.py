"""One changed bit anywhere in a backup is found, and named by what needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.backup import checking
from pyspark_commitlog.storage.backup.checking import verify_backup
from pyspark_commitlog.storage.backup.cuts import Cut, list_cuts, read_cut
from pyspark_commitlog.storage.backup.keeping import KeepRule, prune_backup
from pyspark_commitlog.storage.backup.places import BackupPlace, FolderPlace
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from tests.storage.backup.logs import append, back_up, check_flipped_bit_is_found, folder, made
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail


def test_any_flipped_bit_is_found_by_the_check_and_by_the_restore(tmp_path: Path) -> None:
    place = folder(tmp_path / "backup")
    back_up(made(tmp_path / "log"), place)
    files = [path for path in (tmp_path / "backup").rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert len(files) > 10
    for n, path in enumerate(files):
        position = n * 7919 % path.stat().st_size
        check_flipped_bit_is_found(place, path, position, n % 8, tmp_path / "again")
    assert not [*verify_backup(place)]


def test_a_problem_names_the_backups_and_files_that_need_the_piece(tmp_path: Path) -> None:
    place, directory = folder(tmp_path / "backup"), made(tmp_path / "log")
    cut = back_up(directory, place).cut
    back_up(directory, place)
    piece = cut.files["prices-0/00000000000000000000.log"].pieces[0]
    (tmp_path / "backup" / piece.name).unlink()
    (problem,) = verify_backup(place)
    assert problem.cuts == tuple(each.name for each in list_cuts(place))
    assert problem.files == ("prices-0/00000000000000000000.log",)
    assert "missing" in problem.what


def test_what_is_deleted_by_the_rule_during_the_check_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, directory = folder(tmp_path / "backup"), made(tmp_path / "log")
    back_up(directory, place)
    with LogManager.open(str(directory)) as manager:
        append(manager, 0, 9)
    newest = back_up(directory, place).cut.name

    def read(place: BackupPlace, name: str) -> Cut:
        found = read_cut(place, name)
        if name == newest:
            assert prune_backup(place, KeepRule.parse("last=1")).objects
        return found

    monkeypatch.setattr(checking, "read_cut", read)
    assert not [*verify_backup(place)]


def test_a_file_that_the_disk_cannot_read_is_reported_and_the_rest_is_checked(tmp_path: Path) -> None:
    back_up(made(tmp_path / "log"), folder(tmp_path / "backup"))
    disk = FaultyFileSystem(LocalFileSystem(), [fail("read", "*/objects/*", call=call) for call in (1, 3)])
    problems = [*verify_backup(FolderPlace(str(tmp_path / "backup"), disk))]
    assert ["the disk cannot read the file" in each.what for each in problems] == [True, True]


def test_the_bytes_that_are_read_are_counted(tmp_path: Path) -> None:
    place = folder(tmp_path / "backup")
    cut = back_up(made(tmp_path / "log"), place).cut
    read: list[int] = []
    assert not [*verify_backup(place, read.append)]
    assert sum(read) == sum(piece.size for piece in cut.pieces) > 0
