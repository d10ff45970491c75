"""``commitlog backup`` and ``restore``: several moments, one of them restored, and what is damaged or refused."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.backup import taking
from pyspark_commitlog.storage.transfer import copying
from tests.cli.in_process import Done, commitlog
from tests.support.logs.directories import directory_with_internal_topics


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log directory with two topics and a group, whose backups are in ``backup`` in the working directory."""
    monkeypatch.chdir(tmp_path)
    directory_with_internal_topics(tmp_path / "log")
    for topic in ("orders", "others"):
        commitlog("topics", "--log-dir", "log", "--create", "--topic", topic, "--partitions", "1")
        commitlog("produce", "--log-dir", "log", "-t", topic, stdin=b"one\ntwo\n")
    commit_group("--to-offset", "1")
    return tmp_path / "log"


def commit_group(*where: str, log_dir: object = "log") -> None:
    done = commitlog(
        "groups", "--log-dir", log_dir, "--reset-offsets", "--group", "g", "--topic", "orders", *where, "--execute"
    )
    assert done.code == 0, done.stderr


def group_offset(log_dir: object) -> int:
    rows = rows_of(commitlog("groups", "--log-dir", log_dir, "--describe", "--group", "g", "--json"))
    return int(rows[0]["current_offset"])


def values(log_dir: object, topic: str = "orders") -> list[str]:
    return commitlog("cat", "--log-dir", log_dir, "-t", topic, "-e", "-q", "-f", "%s\\n").stdout.splitlines()


def rows_of(done: Done) -> list[dict[str, Any]]:
    assert done.code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def backup(*options: object) -> Done:
    return commitlog("backup", "--to", "backup", *options)


def test_the_newest_and_an_earlier_moment_are_restored_with_their_groups(directory: Path) -> None:
    (first,) = rows_of(backup("--log-dir", directory, "--json"))
    commitlog("produce", "--log-dir", directory, "-t", "orders", stdin=b"three\n")
    commit_group("--to-offset", "3")
    done = backup("--log-dir", directory)
    assert done.code == 0, done.stderr
    assert "partitions of" in done.stdout
    assert len(backup("--list").stdout.splitlines()) == 2
    assert commitlog("restore", "--from", "backup", "--log-dir", "newest").code == 0
    assert (values("newest"), group_offset("newest")) == (["one", "two", "three"], 3)
    for n, at in enumerate((first["backup"]["name"], first["backup"]["taken_at"])):
        done = commitlog("restore", "--from", "backup", "--log-dir", f"first-{n}", "--at", at)
        assert (done.code, done.stderr) == (0, "")
        assert done.stdout.startswith("restored 4 partitions, ")
        assert (values(f"first-{n}"), group_offset(f"first-{n}")) == (["one", "two"], 1)


def test_a_topic_is_restored_into_a_log_that_goes_on_with_others(directory: Path) -> None:
    backup("--log-dir", directory)
    commitlog("topics", "--log-dir", directory, "--delete", "--topic", "orders")
    commitlog("produce", "--log-dir", directory, "-t", "others", stdin=b"three\n")
    done = commitlog("restore", "--from", "backup", "--log-dir", directory, "--topics", "orders", "--json")
    assert rows_of(done)[0]["topics"] == ["orders"]
    assert values(directory) == ["one", "two"]
    assert values(directory, "others") == ["one", "two", "three"]
    assert group_offset(directory) == 1
    again = commitlog("restore", "--from", "backup", "--log-dir", directory, "--topics", "orders")
    assert again.code == 1
    assert "orders" in again.stderr


def test_a_topic_is_restored_beside_itself_with_its_groups_and_both_go_on(directory: Path) -> None:
    backup("--log-dir", directory)
    commitlog("produce", "--log-dir", directory, "-t", "orders", stdin=b"three\n")
    commit_group("--to-offset", "3")
    again = ("restore", "--from", "backup", "--log-dir", directory)
    done = commitlog(*again, "--rename", "orders=old.orders")
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("restored topics orders as old.orders, as they were")
    rows = rows_of(commitlog(*again, "--topics", "orders,others", "--prefix", "copy-", "--json"))
    assert [each["topic"] for each in rows[0]["copied"]] == ["copy-orders", "copy-others"]
    assert values(directory) == ["one", "two", "three"]
    for name in ("old.orders", "copy-orders"):
        assert values(directory, name) == ["one", "two"]
    described = rows_of(commitlog("groups", "--log-dir", directory, "--describe", "--group", "g", "--json"))
    offsets = {row["topic"]: row["current_offset"] for row in described}
    assert offsets == {"orders": 3, "old.orders": 1, "copy-orders": 1}
    commitlog("produce", "--log-dir", directory, "-t", "old.orders", stdin=b"four\n")
    assert values(directory, "old.orders") == ["one", "two", "four"]
    ids = [(directory / f"{name}-0" / "partition.metadata").read_text() for name in (*offsets, "copy-others")]
    assert len({*ids}) == len(ids)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--rename", "orders"), "must be OLD=NEW"),
        (("--rename", "order=x"), "no topic 'order'"),
        (("--rename", "orders=a", "--rename", "orders=b"), "has a topic twice"),
        (("--rename", "orders=others", "--topics", "others"), "both become 'others'"),
        (("--rename", "orders=a/b"), "a/b"),
        (("--rename", "orders=__consumer_offsets"), "Kafka's own"),
        (("--rename", "orders=others"), "others"),
    ],
)
def test_names_that_topics_cannot_have_are_refused(options: tuple[str, ...], error: str, directory: Path) -> None:
    backup("--log-dir", directory)
    done = commitlog("restore", "--from", "backup", "--log-dir", directory, *options)
    assert done.code in (1, 2)
    assert error in done.stderr
    assert values(directory, "others") == ["one", "two"]


def test_an_encrypted_backup_needs_its_key_for_everything_but_the_list(directory: Path) -> None:
    Path("key").write_text("5b" * 32 + "\n")
    Path("other").write_text("5c" * 32 + "\n")
    done = backup("--log-dir", directory, "--key-file", "key")
    assert done.code == 0, done.stderr
    assert len(backup("--list").stdout.splitlines()) == 1
    assert "sound" in backup("--verify", "--key-file", "key").stdout
    for more, error in (((), "give its key with --key-file"), (("--key-file", "other"), "another key than")):
        for done in (
            backup("--verify", *more),
            backup("--log-dir", directory, *more),
            commitlog("restore", "--from", "backup", "--log-dir", "again", *more),
        ):
            assert done.code == 2
            assert error in done.stderr
    assert commitlog("restore", "--from", "backup", "--log-dir", "again", "--key-file", "key").code == 0
    assert values("again") == ["one", "two"]


def test_an_unknown_topic_or_moment_is_refused_and_named(directory: Path) -> None:
    backup("--log-dir", directory)
    for more in ((), ("--dry-run",)):
        done = commitlog("restore", "--from", "backup", "--log-dir", "again", "--topics", "order", *more)
        assert (done.code, done.stdout) == (1, "")
        assert "did you mean 'orders'?" in done.stderr
        assert not Path("again").exists()
    done = commitlog("restore", "--from", "backup", "--log-dir", "again", "--at", "2020-01-01T00:00")
    assert done.code == 1
    assert "0 backups are of" in done.stderr


def test_the_beginning_of_a_name_is_not_taken_for_an_earlier_time(directory: Path) -> None:
    (first,) = rows_of(backup("--log-dir", directory, "--json"))
    digest = first["backup"]["name"].partition("-")[2]
    Path(f"backup/cuts/{first['backup']['name']}.json").rename(f"backup/cuts/20260101T000000.500Z-{digest}.json")
    commitlog("produce", "--log-dir", directory, "-t", "orders", stdin=b"three\n")
    (second,) = rows_of(backup("--log-dir", directory, "--json"))
    for at, wanted in (("20260101T000000", ["one", "two"]), (second["backup"]["name"][:15], ["one", "two", "three"])):
        done = commitlog("restore", "--from", "backup", "--log-dir", f"of-{at}", "--at", at)
        assert (done.code, done.stderr) == (0, "")
        assert values(f"of-{at}") == wanted


def test_a_dry_run_restores_nothing(directory: Path) -> None:
    backup("--log-dir", directory)
    done = commitlog("restore", "--from", "backup", "--log-dir", "again", "--dry-run")
    assert done.stdout.startswith("would restore 4 partitions")
    assert not Path("again").exists()


def test_a_backup_in_its_log_directory_is_refused_and_leaves_nothing_there(directory: Path) -> None:
    before = {*directory.iterdir()}
    done = commitlog("backup", "--log-dir", "log", "--to", "log/backup")
    assert (done.code, done.stdout) == (1, "")
    assert "is in the log directory log" in done.stderr
    assert {*directory.iterdir()} == before


def test_sigterm_removes_what_was_made_for_a_backup_or_a_restore(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminated(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    backup("--log-dir", directory)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(copying, "copy_groups", terminated)
    done = commitlog("restore", "--from", "backup", "--log-dir", "again", "--topics", "orders")
    assert (done.code, done.stdout) == (143, "")
    monkeypatch.setattr(taking, "write_cut", terminated)
    assert backup("--log-dir", directory).code == 143
    assert not [*(tmp_path / "temporary").iterdir(), *tmp_path.glob("commitlog-backup-*")]
    assert signal.getsignal(signal.SIGTERM) is before


def test_damage_is_found_and_ends_with_3(directory: Path) -> None:
    backup("--log-dir", directory)
    assert "1 backup," in backup("--verify").stdout
    damaged = max(Path("backup/objects").glob("*/*"), key=lambda path: path.stat().st_size)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    done = backup("--verify")
    assert done.code == 3
    assert str(damaged) in done.stdout
    (row,) = [json.loads(line) for line in backup("--verify", "--json").stdout.splitlines()]
    assert row["cuts"]
    restored = commitlog("restore", "--from", "backup", "--log-dir", "again")
    assert restored.code == 3
    assert str(damaged) in restored.stderr
    assert not Path("again").exists()


def test_old_backups_are_deleted_by_the_rule(directory: Path) -> None:
    for n in range(3):
        commitlog("produce", "--log-dir", directory, "-t", "orders", stdin=b"%d\n" % n)
        (row,) = rows_of(backup("--log-dir", directory, "--keep", "last=2", "--json"))
    assert row["deleted"]["cuts"] == 1
    assert len(backup("--list", "--json").stdout.splitlines()) == 2
    assert backup("--log-dir", directory, "--keep", "sometimes=2").code == 2


def test_what_is_no_backup_and_what_is_missing_is_said(directory: Path) -> None:
    for what in ("--verify", "--list"):
        done = backup(what)
        assert (done.code, done.stdout) == (1, "")
        assert "is no backup" in done.stderr
    assert backup("--verify", "--list").code == 2
    for flags in (("--verify", "--keep", "last=1"), ("--list", "--staging", "links")):
        done = backup("--log-dir", directory, *flags)
        assert (done.code, done.stdout) == (2, "")
        assert "leave --keep and --staging out" in done.stderr.replace("\n", " ")
    done = commitlog("backup", "--to", "backup")
    assert done.code == 2
    assert "--log-dir" in done.stderr
    commitlog("snapshot", "--log-dir", directory, "--to", "snapshot")
    done = commitlog("restore", "--from", "snapshot", "--log-dir", "again", "--topics", "orders")
    assert done.code == 2
    assert "are for backups" in done.stderr
