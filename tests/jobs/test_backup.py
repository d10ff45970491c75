"""``jobs/backup.py``: what it prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.jobs.backup import main
from pyspark_commitlog.storage import find_cut, list_cuts, open_backup, restore_backup
from tests.storage.backup.logs import made, tree


def test_a_backup_is_taken_checked_and_pruned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = made(tmp_path / "log")
    options = ["--log-dir", str(directory), "--to", str(tmp_path / "backup"), "--keep", "last=1", "--verify"]
    assert main(options) == 0
    assert main(options) == 0
    printed = capsys.readouterr().out
    assert printed.count("backup --verify: sound") == 2
    assert "deleted 1 backup," in printed
    place = open_backup(str(tmp_path / "backup"))
    assert len(list_cuts(place)) == 1
    restore_backup(place, find_cut(place), str(tmp_path / "again"))
    assert tree(tmp_path / "again") == tree(directory)


def test_damage_ends_with_3_and_wrong_usage_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--log-dir", str(made(tmp_path / "log")), "--to", str(tmp_path / "backup")]
    assert main(options) == 0
    damaged = max((tmp_path / "backup" / "objects").glob("*/*"), key=lambda path: path.stat().st_size)
    damaged.write_bytes(b"?" * damaged.stat().st_size)
    assert main([*options, "--verify"]) == 3
    assert str(damaged) in capsys.readouterr().out
    assert main([*options, "--keep", "often"]) == 2
    assert main(["--log-dir", str(tmp_path / "nowhere"), "--to", str(tmp_path / "backup")]) == 1


def test_an_encrypted_backup_is_taken_and_checked_with_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("5b" * 32)
    options = ["--log-dir", str(made(tmp_path / "log")), "--to", str(tmp_path / "backup"), "--verify"]
    assert main([*options, "--key-file", str(tmp_path / "key")]) == 0
    assert main(options) == 2
    assert "give its key with --key-file" in capsys.readouterr().err
