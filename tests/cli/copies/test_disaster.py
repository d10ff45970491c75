"""A shop loses its log, a topic, and a person: a disaster that shows the promises of docs/backup.md and docs/erase.md.

Told in commands, in the order in which it happens. Each function is a chapter, and each comment is a promise of a page.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from tests.cli.in_process import Done, commitlog
from tests.storage.backup.logs import tree
from tests.support.logs import raw_scan
from tests.support.logs.building import end_transaction, write_transactional
from tests.support.logs.directories import directory_with_internal_topics

ANN, IDA = "ann@example.org", "ida@example.org"
SHOP, BACKUP = Path("shop"), Path("backup")


def ok(*arguments: object, stdin: bytes = b"") -> str:
    done = commitlog(*arguments, stdin=stdin)
    assert done.code == 0, done.stderr
    return done.stdout


def refused(*arguments: object, code: int = 1) -> str:
    done: Done = commitlog(*arguments)
    assert done.code == code, done
    return done.stderr + done.stdout


def order(topic: str, key: str, text: str) -> None:
    ok("produce", "--log-dir", SHOP, "-t", topic, "-K", ":", stdin=f"{key}:{text}\n".encode())


def rows(log_dir: object, topic: str = "orders") -> list[tuple[int, str]]:
    """Offset and value of what a reader of committed records sees."""
    shown = ok("cat", "--log-dir", log_dir, "-t", topic, "-e", "-q", "-f", "%o %s\\n").splitlines()
    return [(int(offset), value) for offset, value in (line.split(" ", 1) for line in shown)]


def group(log_dir: object, topic: str = "orders") -> int:
    shown = ok("groups", "--log-dir", log_dir, "--describe", "--group", "packers", "--json").splitlines()
    return next(each["current_offset"] for each in map(json.loads, shown) if each["topic"] == topic)


def pack_up_to(offset: int) -> None:
    where = ("--group", "packers", "--topic", "orders", "--to-offset", offset, "--execute")
    ok("groups", "--log-dir", SHOP, "--reset-offsets", *where)


def back_up(*more: object) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(ok("backup", "--log-dir", SHOP, "--to", BACKUP, "--json", *more))
    return row


@pytest.fixture
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders and mails, with a transaction that is open in both."""
    monkeypatch.chdir(tmp_path)
    directory_with_internal_topics(SHOP)
    for topic in ("orders", "mails"):
        ok(
            "topics",
            "--log-dir",
            SHOP,
            "--create",
            "--topic",
            topic,
            "--partitions",
            "1",
            "--config",
            "retention.ms=-1",
        )
    order("orders", ANN, "a lamp")
    order("orders", IDA, "a chair")
    with LogManager.open(str(SHOP)) as manager:
        for topic in ("orders", "mails"):
            write_transactional(manager.open_log(topic, 0), 7, 0, b"in doubt")
    pack_up_to(1)


@pytest.mark.usefixtures("_shop")
def test_a_shop_loses_its_log_a_topic_and_the_records_of_a_person() -> None:
    before = _monday()
    _the_disk_is_lost(before)
    _a_topic_is_deleted()
    _bits_rot()
    _somebody_wants_to_be_forgotten()
    _and_in_the_backups_too()


def _monday() -> dict[str, bytes]:
    """Backups are taken."""
    first = back_up()
    before = tree(SHOP)
    # A group is there with its offset, whether or not records came after it; a backup stores only what is new.
    pack_up_to(2)
    second = back_up()
    assert 0 < second["stored_bytes"] < first["stored_bytes"]
    # What is committed later is in no earlier backup: one that is open in a backup is open in what is restored.
    with LogManager.open(str(SHOP)) as manager:
        for topic in ("orders", "mails"):
            end_transaction(manager.open_log(topic, 0), 7, commit=True)
    assert [value for _, value in rows(SHOP)] == ["a lamp", "a chair", "in doubt"]
    assert "sound" in ok("backup", "--to", BACKUP, "--verify")
    # Only one process at a time changes a backup.
    lock = LocalFileSystem().lock(str(BACKUP / ".backup.lock"), wait=False)
    assert lock is not None
    with lock:
        assert "another process changes this backup" in refused("backup", "--log-dir", SHOP, "--to", BACKUP)
    return before


def _the_disk_is_lost(before: dict[str, bytes]) -> None:
    newest_rows = rows(SHOP)
    shutil.rmtree(SHOP)
    first = ok("backup", "--to", BACKUP, "--list").split()[0]
    # Byte for byte, to any moment, as often as you like.
    for target in ("first", "once-more"):
        ok("restore", "--from", BACKUP, "--log-dir", target, "--at", first)
        assert tree(Path(target)) == before
    ok("restore", "--from", BACKUP, "--log-dir", SHOP)
    assert (group("first"), group(SHOP)) == (1, 2)
    # A transaction is in all its partitions or in none, and readers of committed records do not see an open one.
    assert rows(SHOP) == newest_rows[:2] == [(0, "a lamp"), (1, "a chair")]
    assert rows(SHOP, "mails") == []
    # A consumer that had read further is told; the log goes on where it was.
    assert group(SHOP) <= 3
    with LogManager.open(str(SHOP)) as manager:
        for topic in ("orders", "mails"):
            end_transaction(manager.open_log(topic, 0), 7, commit=False)
    order("orders", IDA, "a table")
    assert rows(SHOP)[-1] == (4, "a table")
    # The target must be missing or empty.
    assert "shop" in refused("restore", "--from", BACKUP, "--log-dir", SHOP)


def _a_topic_is_deleted() -> None:
    back_up()
    ok("topics", "--log-dir", SHOP, "--delete", "--topic", "orders")
    order("mails", IDA, "where is my table?")
    ok("restore", "--from", BACKUP, "--log-dir", SHOP, "--topics", "orders")
    # The other topics go on, and the groups' offsets for it are back.
    assert [value for _, value in rows(SHOP)] == ["a lamp", "a chair", "a table"]
    assert [value for _, value in rows(SHOP, "mails")] == ["where is my table?"]
    assert group(SHOP) == 2
    # Beside itself, under another name, with its groups.
    ok("restore", "--from", BACKUP, "--log-dir", SHOP, "--rename", "orders=orders-of-monday")
    assert rows(SHOP, "orders-of-monday") == rows(SHOP)
    assert group(SHOP, "orders-of-monday") == 2
    ok("topics", "--log-dir", SHOP, "--delete", "--topic", "orders-of-monday")


def _bits_rot() -> None:
    piece = max(BACKUP.glob("objects/*/*"), key=lambda path: path.stat().st_size)
    sound = piece.read_bytes()
    piece.write_bytes(bytes([sound[0] ^ 1]) + sound[1:])
    # Each changed bit is found and named, and nothing is restored from it.
    assert str(piece) in refused("backup", "--to", BACKUP, "--verify", code=3)
    assert str(piece) in refused("restore", "--from", BACKUP, "--log-dir", "rotten", code=3)
    assert not Path("rotten").exists()
    # The next backup stores pieces again that are missing.
    piece.unlink()
    shutil.copytree(SHOP, "aside")
    back_up()
    piece.write_bytes(sound)
    assert "sound" in ok("backup", "--to", BACKUP, "--verify")


def _somebody_wants_to_be_forgotten() -> None:
    Path("keys").write_text(f"{ANN}\n")
    erase = ("erase", "--log-dir", SHOP, "--topics", "orders", "--reason", "request 17")
    before, kept = tree(SHOP), [row for row in rows(SHOP) if row[1] != "a lamp"]
    # A dry run counts and changes nothing; a broker must be stopped.
    assert "1 record would be erased" in ok(*erase, "--keys-file", "keys", "--dry-run")
    broker = LocalFileSystem().lock_as_broker(str(SHOP / ".lock"))
    assert broker is not None
    with broker:
        refused(*erase, "--keys-file", "keys", "--certificate", "c.json")
    assert tree(SHOP) == before
    ok(*erase, "--keys-file", "keys", "--certificate", "c.json")
    # No byte of any file has the key; all others keep their offsets, and the group its own.
    assert not raw_scan.has(SHOP, ANN.encode())
    assert rows(SHOP) == kept
    assert group(SHOP) == 2
    # The certificate states it without the key, can be checked, and is not overwritten by another erasure.
    assert ANN not in Path("c.json").read_text()
    assert json.loads(Path("c.json").read_text())["is_complete"]
    ok("erase", "--log-dir", SHOP, "--check", "c.json")
    assert "another erasure" in refused(*erase, "--where", "true", "--certificate", "c.json", code=1)
    # By a condition: what find finds goes.
    chair = ("--where", "value_text = 'a chair'")
    assert len(ok("find", "--log-dir", SHOP, "-t", "orders", *chair).splitlines()) == 1
    ok(*erase, *chair, "--certificate", "d.json")
    assert [value for _, value in rows(SHOP)] == ["a table"]
    assert json.loads(Path("d.json").read_text())["chosen"]["orders-0"][0]["offsets"] == [[1, 1]]


def _and_in_the_backups_too() -> None:
    # Erasing does not reach backups: what is restored from one has the record again, and the check says so.
    ok("restore", "--from", BACKUP, "--log-dir", "old")
    assert raw_scan.has(Path("old"), ANN.encode())
    assert "1 have one of the keys" in refused("erase", "--log-dir", "old", "--check", "c.json")
    # --keep deletes old backups, and then the record is nowhere.
    assert back_up("--keep", "last=1")["deleted"]["cuts"] >= 3
    assert not raw_scan.has(BACKUP, ANN.encode())
    assert not any(ANN.encode() in path.read_bytes() for path in BACKUP.rglob("*") if path.is_file())
    # A backup with a key tells nobody else anything, and needs this key.
    Path("key").write_text("5b" * 32)
    Path("wrong").write_text("5c" * 32)
    ok("backup", "--log-dir", SHOP, "--to", "secret", "--key-file", "key")
    assert not any(IDA.encode() in path.read_bytes() for path in Path("secret").rglob("*") if path.is_file())
    assert "another key" in refused("restore", "--from", "secret", "--log-dir", "new", "--key-file", "wrong", code=2)
    ok("restore", "--from", "secret", "--log-dir", "new", "--key-file", "key")
    assert tree(Path("new")) == tree(SHOP)
