"""Temporary folders: those of killed processes are removed, and those in use stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_commitlog.storage.filesystem.temporary import LOCK, temporary_folder

KILLED = """
import os, signal, sys
from pyspark_commitlog.storage.filesystem.temporary import temporary_folder

with temporary_folder("commitlog-", sys.argv[1]) as folder:
    open(f"{folder}/file", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def abandoned(path: Path) -> Path:
    path.mkdir()
    (path / LOCK).touch()
    return path


def test_folder_is_removed_after_its_use_and_after_an_error(tmp_path: Path) -> None:
    with temporary_folder("commitlog-", str(tmp_path)) as folder:
        assert names(Path(folder)) == []
        Path(folder, "file").touch()
    assert names(tmp_path) == []
    with pytest.raises(RuntimeError, match="of the caller"), temporary_folder("commitlog-", str(tmp_path)):
        raise RuntimeError("of the caller")
    assert names(tmp_path) == []


def test_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    with temporary_folder("commitlog-", str(tmp_path)) as folder:
        assert names(tmp_path) == [Path(folder).parent.name]


def test_folder_in_use_stays(tmp_path: Path) -> None:
    with temporary_folder("commitlog-", str(tmp_path)) as first:
        Path(first, "file").touch()
        with temporary_folder("commitlog-", str(tmp_path)) as second:
            assert len({first, second}) == 2
        assert names(Path(first)) == ["file"]


def test_what_is_not_surely_an_abandoned_folder_of_this_user_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commitlog-without-a-lock").mkdir()
    (tmp_path / "commitlog-file").touch()
    abandoned(tmp_path / "other-prefix")
    (tmp_path / "commitlog-link").symlink_to(abandoned(tmp_path / "elsewhere"))
    before = names(tmp_path)
    with temporary_folder("commitlog-", str(tmp_path)):
        pass
    assert names(tmp_path) == before
    assert names(tmp_path / "elsewhere") == [LOCK]
    abandoned(tmp_path / "commitlog-of-another-user")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with temporary_folder("commitlog-", str(tmp_path)):
        pass
    assert "commitlog-of-another-user" in names(tmp_path)
