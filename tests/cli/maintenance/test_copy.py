"""``commitlog copy``: topics from a directory to an object store and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, TopicPartition
from tests.cli.in_process import commitlog
from tests.support.logs.building import records
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"


@pytest.fixture
def directory(tmp_path: Path) -> str:
    path = str(tmp_path / "log")
    with LogManager.open(path, create=True) as manager:
        for topic in ("orders", "users"):
            manager.create_topic(topic, partitions=2)
            manager.open_log(topic, 1).append_records(records([b"a", b"b"]))
        GroupOffsets(manager).commit("g", {TopicPartition("orders", 1): CommittedOffset(1)})
    return path


def printed(log: str, topic: str) -> str:
    return commitlog("cat", "--log-dir", log, "-t", topic, "-e", "-q").stdout


def test_topics_go_to_an_object_store_and_back(directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ServedStores(monkeypatch).create(URL)
    done = commitlog("copy", "--from", directory, "--to", URL, "--json")
    assert (done.code, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["topic"], row["partition"], row["log_end_offset"]) for row in rows] == [
        ("orders", 0, 0),
        ("orders", 1, 2),
        ("users", 0, 0),
        ("users", 1, 2),
    ]
    assert printed(URL, "orders") == printed(directory, "orders") == "a\nb\n"
    back = str(tmp_path / "back")
    assert commitlog("copy", "--from", URL, "--to", back, "-t", "users").code == 0
    assert commitlog("topics", "--list", "--log-dir", back).stdout == "users\n"
    assert printed(back, "users") == "a\nb\n"
    again = commitlog("copy", "--from", URL, "--to", back, "-t", "users")
    assert (again.code, again.stdout) == (1, "")
    assert "topic 'users' exists" in again.stderr


def test_a_snapshot_of_an_object_store_is_restored_to_a_directory_and_to_another_store(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = ServedStores(monkeypatch)
    stores.create(URL)
    stores.create("s3://memory/again")
    assert commitlog("copy", "--from", directory, "--to", URL).code == 0
    snapshot, restored = str(tmp_path / "snapshot"), str(tmp_path / "restored")
    done = commitlog("snapshot", "--log-dir", URL, "--to", snapshot)
    assert (done.code, done.stderr) == (0, "")
    assert f"of {URL}" in done.stdout
    for target in (restored, "s3://memory/again"):
        done = commitlog("restore", "--from", snapshot, "--log-dir", target)
        assert (done.code, done.stderr) == (0, "")
        assert printed(target, "orders") == "a\nb\n"
        with LogManager.open(target) as manager:
            [offset] = GroupOffsets(manager).fetch("g").values()
        assert offset.offset == 1
        assert commitlog("verify", "--log-dir", target).code == 0
    again = commitlog("restore", "--from", snapshot, "--log-dir", restored)
    assert again.code == 1
    assert "not an empty directory" in again.stderr


# --- damage in the source


@pytest.fixture
def damaged(directory: str) -> Path:
    """The log of orders-1, in which a byte is flipped: its two records are one batch."""
    [log] = Path(directory).glob("orders-1/*.log")
    flip(log)
    return log


def flip(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


def test_a_copy_of_a_damaged_log_has_the_sound_partitions_and_shows_the_other(
    directory: str, damaged: Path, tmp_path: Path
) -> None:
    copy = str(tmp_path / "copy")
    done = commitlog("copy", "--from", directory, "--to", copy)
    assert (done.code, [line.split(":")[0] for line in done.stdout.splitlines()]) == (
        3,
        ["orders-0", "users-0", "users-1"],
    )
    assert f"orders-1: damaged, not copied: {damaged}, position 0" in done.stderr
    assert "copy: 4 partitions: 3 done, 1 damaged; " in done.stderr.splitlines()[-1]
    for command in (["verify"], ["recover"]):
        found = commitlog(*command, "--log-dir", copy, "-t", "orders")
        assert (found.code, found.stdout.count("orders-1.unfinished: the copy of this partition to here")) == (3, 1)
        assert found.stdout.splitlines()[-1].endswith("2 partitions: 1 done, 1 damaged")
    assert printed(copy, "users") == "a\nb\n"


def test_a_copy_goes_on_once_its_source_is_repaired(directory: str, damaged: Path, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    assert commitlog("copy", "--from", directory, "--to", copy).code == 3
    flip(damaged)
    again = commitlog("copy", "--from", directory, "--to", copy, "-t", "orders")
    assert (again.code, [line.split(":")[0] for line in again.stdout.splitlines()]) == (0, ["orders-1"])
    assert printed(copy, "orders") == "a\nb\n"
    assert commitlog("verify", "--log-dir", copy).code == 0
    assert not list(Path(copy).glob("*.unfinished"))
    assert "topic 'orders' exists" in commitlog("copy", "--from", directory, "--to", copy, "-t", "orders").stderr


def test_deleting_a_topic_that_was_not_copied_to_its_end_leaves_nothing_of_it(
    directory: str, damaged: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    assert commitlog("copy", "--from", directory, "--to", copy).code == 3
    assert commitlog("topics", "--delete", "--topic", "orders", "--log-dir", copy).code == 0
    assert not list(copy.glob("orders*"))


def test_a_copy_to_an_object_store_goes_on_after_damage_and_once_it_is_repaired(
    directory: str, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ServedStores(monkeypatch).create(URL)
    done = commitlog("copy", "--from", directory, "--to", URL)
    assert (done.code, done.stdout.count("\n")) == (3, 3)
    assert "orders-1: damaged, not copied: " in done.stderr
    assert (printed(URL, "orders"), printed(URL, "users")) == ("", "a\nb\n")
    shown = commitlog("verify", "--log-dir", URL, "-t", "orders")  # nothing on the store marks it as unfinished
    assert (shown.code, "orders-1: sound; " in shown.stdout) == (0, True)
    flip(damaged)
    assert commitlog("copy", "--from", directory, "--to", URL).code == 0
    assert printed(URL, "orders") == "a\nb\n"
