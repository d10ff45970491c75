"""Encrypted backups: what is in them, and what a wrong key, exchanged files and changed bits do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.backup.checking import verify_backup
from pyspark_commitlog.storage.backup.cuts import list_cuts
from pyspark_commitlog.storage.backup.encryption import OVERHEAD, BackupKey, unlock_backup
from pyspark_commitlog.storage.backup.keeping import KeepRule, prune_backup
from pyspark_commitlog.storage.backup.places import BackupPlace, StorePlace
from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.extras import MissingExtraError
from tests.storage.backup.logs import append, back_up, check_flipped_bit_is_found, folder, made, restored, tree
from tests.support.stores.memory_store import MemoryStore

KEY, OTHER = BackupKey.derived(b"k" * 32), BackupKey.derived(b"o" * 32)


def encrypted(path: Path, key: BackupKey = KEY) -> BackupPlace:
    return unlock_backup(folder(path), key)


def files_of(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith("."))


def test_a_directory_comes_back_byte_for_byte_from_a_folder_and_from_a_store(tmp_path: Path) -> None:
    directory, store = made(tmp_path / "log"), MemoryStore()
    for n, place in enumerate((folder(tmp_path / "backup"), StorePlace(store))):
        back_up(directory, unlock_backup(place, KEY))
        again = unlock_backup(place, KEY)
        assert restored(again, tmp_path / f"restored-{n}") == tree(directory)
        assert not [*verify_backup(again)]


def test_nothing_of_the_log_can_be_read_and_no_name_is_a_hash_that_others_could_make(tmp_path: Path) -> None:
    directory = made(tmp_path / "log")
    back_up(directory, folder(tmp_path / "plain"))
    back_up(directory, encrypted(tmp_path / "backup"))
    plain, there = files_of(tmp_path / "plain"), files_of(tmp_path / "backup")
    assert len(plain) == len(there)
    assert not {each.name for each in plain} & {each.name for each in there}
    readable, content = (b"".join(each.read_bytes() for each in files) for files in (plain, there))
    for word in (b"orders", b"doubt", b"readers", b"0" * 40):
        assert word in readable
        assert word not in content
    back_up(directory, encrypted(tmp_path / "with-another-key", OTHER))
    others = {each.name for each in files_of(tmp_path / "with-another-key")}
    assert not others & {each.name for each in there}


def test_only_what_is_new_is_stored_and_equal_content_is_encrypted_otherwise_elsewhere(tmp_path: Path) -> None:
    directory, place = made(tmp_path / "log"), encrypted(tmp_path / "backup")
    first = back_up(directory, place)
    with LogManager.open(str(directory)) as manager:
        append(manager, 0, 9)
    second = back_up(directory, encrypted(tmp_path / "backup"))
    assert 0 < second.stored_pieces < first.stored_pieces / 4
    assert first.stored_bytes == sum(piece.size for piece in first.cut.pieces)
    back_up(directory, encrypted(tmp_path / "twice"))
    both = [{each.name: each.read_bytes() for each in files_of(tmp_path / at)} for at in ("backup", "twice")]
    same = both[0].keys() & both[1].keys()
    assert len(same) > 10
    assert all(both[0][name] != both[1][name] for name in same)


def test_any_flipped_bit_is_found_by_the_check_and_by_the_restore(tmp_path: Path) -> None:
    place = encrypted(tmp_path / "backup")
    back_up(made(tmp_path / "log"), place)
    files = files_of(tmp_path / "backup")
    for n, path in enumerate(files * 2):
        position = n % OVERHEAD if n < len(files) else path.stat().st_size - 1 - n % OVERHEAD
        check_flipped_bit_is_found(place, path, position, n % 8, tmp_path / "again")
    assert not [*verify_backup(place)]


def test_exchanged_files_are_found_pieces_and_lists(tmp_path: Path) -> None:
    directory, place = made(tmp_path / "log"), encrypted(tmp_path / "backup")
    back_up(directory, place)
    with LogManager.open(str(directory)) as manager:
        append(manager, 0, 9)
    back_up(directory, place)
    pieces = [path for path in files_of(tmp_path / "backup") if path.parent.parent.name == "objects"]
    lists = [path for path in files_of(tmp_path / "backup") if path.parent.name == "cuts"]
    for one, other in ((pieces[0], pieces[1]), (lists[0], lists[1])):
        before = one.read_bytes(), other.read_bytes()
        one.write_bytes(before[1])
        other.write_bytes(before[0])
        problems = [each.what for each in verify_backup(place)]
        assert all(any(str(path) in what for what in problems) for path in (one, other))
        one.write_bytes(before[0])
        other.write_bytes(before[1])


def test_a_wrong_key_and_a_missing_one_are_said_as_such(tmp_path: Path) -> None:
    back_up(made(tmp_path / "log"), encrypted(tmp_path / "backup"))
    with pytest.raises(InvalidConfigError, match="another key than that in --key-file"):
        encrypted(tmp_path / "backup", OTHER)
    with pytest.raises(InvalidConfigError, match="is encrypted: give its key with --key-file"):
        unlock_backup(folder(tmp_path / "backup"), None)
    back_up(tmp_path / "log", folder(tmp_path / "plain"))
    with pytest.raises(InvalidConfigError, match="is not encrypted: leave --key-file out"):
        encrypted(tmp_path / "plain")


def test_a_damaged_newest_list_does_not_make_a_key_wrong(tmp_path: Path) -> None:
    directory, place = made(tmp_path / "log"), encrypted(tmp_path / "backup")
    for _ in range(2):
        back_up(directory, place)
    newest = files_of(tmp_path / "backup" / "cuts")[-1]
    for position in (0, 6):
        data = bytearray(newest.read_bytes())
        data[position] ^= 1
        newest.write_bytes(data)
        (problem,) = verify_backup(encrypted(tmp_path / "backup"))
        assert str(newest) in problem.what
        with pytest.raises(InvalidConfigError, match="is encrypted"):
            unlock_backup(folder(tmp_path / "backup"), None)
    newest.write_bytes(b"{}")
    with pytest.raises(InvalidConfigError):
        encrypted(tmp_path / "backup")


def test_old_backups_are_deleted_as_others_are(tmp_path: Path) -> None:
    directory, place = made(tmp_path / "log"), encrypted(tmp_path / "backup")
    for n in range(3):
        back_up(directory, place)
        with LogManager.open(str(directory)) as manager:
            append(manager, 0, n)
    pruned = prune_backup(place, KeepRule.parse("last=1"))
    assert (pruned.cuts, len(list_cuts(place))) == (2, 1)
    assert not [*verify_backup(place)]


@pytest.mark.parametrize("content", ["", "secret", "ab" * 31, "ab" * 33, "xy" * 32])
def test_a_file_that_has_no_key_is_refused_with_what_makes_one(content: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(content)
    with pytest.raises(InvalidConfigError, match="openssl rand -hex 32"):
        BackupKey.read(str(tmp_path / "key"))


def test_a_key_is_read_with_its_newline_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(b"k".hex() * 32 + "\n")
    assert BackupKey.read(str(tmp_path / "key")) == KEY
    assert "content" not in repr(KEY)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.startswith("cryptography"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=r"spark-commitlog\[encryption\]"):
        BackupKey.derived(b"k" * 32)
