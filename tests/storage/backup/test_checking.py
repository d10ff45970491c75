"""One changed bit anywhere in a backup is found, and named by what needs it."""

from __future__ import annotations

from pathlib import Path

from pyspark_commitlog.storage.backup.checking import verify_backup
from pyspark_commitlog.storage.backup.cuts import list_cuts
from tests.storage.backup.logs import back_up, check_flipped_bit_is_found, folder, made


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


def test_the_bytes_that_are_read_are_counted(tmp_path: Path) -> None:
    place = folder(tmp_path / "backup")
    cut = back_up(made(tmp_path / "log"), place).cut
    read: list[int] = []
    assert not [*verify_backup(place, read.append)]
    assert sum(read) == sum(piece.size for piece in cut.pieces) > 0
