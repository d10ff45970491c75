"""commitlog tier restore: topics and groups of a log directory that is lost come back from its tier."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pyspark_commitlog import storage
from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, TopicPartition
from tests.cli.in_process import Done, commitlog
from tests.support.logs.building import append, rows

CONFIGS = {"remote.storage.enable": "true", "retention.ms": "-1", "max.message.bytes": "2000000"}


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """A tier with two of three records, and a backup with two groups, one of them ahead; the log is deleted."""
    directory = tmp_path / "lost"
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic("orders", partitions=2, configs=CONFIGS)
        log = manager.open_log("orders", 0)
        for value in (b"1", b"2", b"3"):
            append(log, value)
            if value != b"3":
                log.roll()
        for group, offset in {"slow": 1, "fast": 3}.items():
            GroupOffsets(manager, partitions=1).commit(group, {TopicPartition("orders", 0): CommittedOffset(offset)})
    assert commitlog("tier", "copy", "--log-dir", directory, "--tier", tmp_path / "tier").code == 0
    assert commitlog("backup", "--log-dir", directory, "--to", tmp_path / "backup").code == 0
    shutil.rmtree(directory)
    return tmp_path


def restore(lost: Path, *arguments: object) -> Done:
    place = ["--tier", lost / "tier", "--backup", lost / "backup", "--log-dir", lost / "new"]
    return commitlog("tier", "restore", *place, *arguments)


def test_a_dry_run_shows_what_would_come_back(lost: Path) -> None:
    done = restore(lost, "--dry-run")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "would restore orders-0: offsets 0 to 2",
        "would restore orders-1: offsets 0 to 0",
        "group fast was at offset 3 of orders-0, which the tier does not have: it stands at 2",
        "2 groups with offsets",
    ]
    assert not (lost / "new").exists()


def test_topics_settings_and_groups_come_back(lost: Path) -> None:
    done = restore(lost, "--json")
    assert (done.code, done.stderr) == (0, "2 groups with offsets\n")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["partition"], each["log_end_offset"]) for each in found[:2]] == [(0, 2), (1, 0)]
    with LogManager.open(str(lost / "new")) as manager:
        assert manager.topic("orders").configs == CONFIGS
        with manager.open_reader("orders", 0) as reader:
            assert rows(reader) == [(0, b"1"), (1, b"2")]
    assert groups(lost / "new") == {"slow": 1, "fast": 2}


def groups(directory: Path) -> dict[str, int]:
    with LogManager.open(str(directory)) as manager:
        found = GroupOffsets(manager).groups()
    return {name: each[TopicPartition("orders", 0)].offset for name, each in found.items()}


def test_groups_come_back_in_a_second_run_if_the_first_was_killed_before(
    lost: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as until_then:
        until_then.setattr(storage, "restore_groups", killed)
        with pytest.raises(KilledError):
            restore(lost)
    assert groups(lost / "new") == {}
    done = restore(lost)
    assert (done.code, done.stderr) == (0, "commitlog: orders: passed over: an earlier run has completed it\n")
    assert groups(lost / "new") == {"slow": 1, "fast": 2}


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--topic", "order"], 1, "has no segment of a topic 'order' (did you mean 'orders'?)"),
        (["--at", "1999-01-01"], 1, "0 backups are of"),
    ],
)
def test_what_cannot_be_restored_is_named(lost: Path, arguments: list[str], code: int, reason: str) -> None:
    done = restore(lost, *arguments)
    assert (done.code, reason in done.stderr) == (code, True), done.stderr
    assert not (lost / "new").exists()
