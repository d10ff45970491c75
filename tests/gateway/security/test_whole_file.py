"""Files that are replaced as a whole: a change that fails at any step leaves the old file or the new one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.gateway.security.whole_file import locked, replace, stamp


def failing(number: int) -> Callable[..., Any]:
    """Returns what stands for a call of the system and fails at the call of this number."""
    calls = [0]

    def call(*arguments: Any, real: Callable[..., Any]) -> Any:
        calls[0] += 1
        if calls[0] == number:
            raise OSError(errno.EIO, "Input/output error")
        return real(*arguments)

    return call


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        pytest.param("utime", 1, "old", id="written in part"),
        pytest.param("fsync", 1, "old", id="the new file cannot be synced"),
        pytest.param("replace", 1, "old", id="it cannot be renamed"),
        pytest.param("fsync", 2, "new", id="the folder cannot be synced"),
    ],
)
def test_a_change_that_fails_leaves_one_whole_file_and_the_next_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int, text: str
) -> None:
    path = tmp_path / "file"
    replace(str(path), "old")
    call, real = failing(number), getattr(os, name)
    with monkeypatch.context() as patch:
        patch.setattr(os, name, lambda *arguments, **named: call(*arguments, real=lambda *a: real(*a, **named)))
        with pytest.raises(OSError, match="Input/output error"), locked(str(path)):
            replace(str(path), "new")
    assert path.read_text() == text
    with locked(str(path)):
        replace(str(path), "newest")
    assert path.read_text() == "newest"
    assert not (tmp_path / "file.tmp").exists()


def test_a_missing_file_has_no_stamp(tmp_path: Path) -> None:
    assert stamp(str(tmp_path / "file")) is None


def test_a_file_from_the_future_is_replaced_by_one_that_is_newer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace(str(path), "old")
    far_ns = 4_000_000_000 * 10**9
    os.utime(path, ns=(far_ns, far_ns))
    replace(str(path), "new")
    assert path.stat().st_mtime_ns > far_ns


def test_a_login_that_could_not_be_changed_keeps_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = UsersFile(str(tmp_path / "users.json"))
    users.add("alice", "first")
    before = users.find("alice", "SCRAM-SHA-256")
    call, real = failing(1), os.replace
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *arguments: call(*arguments, real=real))
        with pytest.raises(OSError, match="Input/output error"):
            users.add("alice", "second")
    assert users.find("alice", "SCRAM-SHA-256") == before
