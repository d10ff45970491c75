"""``commitlog users``."""

from __future__ import annotations

from pathlib import Path

from pyspark_commitlog.gateway.security.scram import has_password
from pyspark_commitlog.gateway.security.users import UsersFile
from tests.cli.in_process import commitlog


def test_users_are_added_listed_changed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    assert commitlog("users", "--file", file, "--add", "bob", stdin=b"one\n").stdout == "added bob\n"
    assert commitlog("users", "--file", file, "--add", "alice", stdin=b"two").stdout == "added alice\n"
    changed = commitlog("users", "--file", file, "--add", "bob", "--iterations", "8192", stdin=b" a=b, c \n")
    assert changed.stdout == "changed the password of bob\n"
    assert commitlog("users", "--file", file, "--list").stdout == "alice\nbob\n"
    found = UsersFile(str(file)).find("bob", "SCRAM-SHA-256")
    assert found is not None
    assert found.iterations == 8192
    assert has_password("SCRAM-SHA-256", found, " a=b, c ")
    assert commitlog("users", "--file", file, "--remove", "bob").stdout == "removed bob\n"
    assert commitlog("users", "--file", file, "--list").stdout == "alice\n"


def test_wrong_use_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    for arguments, code, said in (
        (["--list"], 1, "users.json: No such file or directory"),
        (["--remove", "bob"], 1, "there is no user 'bob'"),
        (["--add", "bob"], 1, "give the password on stdin"),
        (["--add", "bob", "--list"], 2, "give exactly one of --add, --remove, --list"),
        (["--add", "bob", "--iterations", "1"], 1, "clients require at least 4096"),
    ):
        done = commitlog("users", "--file", file, *arguments, stdin=b"x" if "--iterations" in arguments else b"")
        assert (done.code, said in done.stderr) == (code, True), done.stderr
