"""commitlog tier: copies to a tier, beside retention, and what publish refuses before it asks a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import Done, commitlog
from tests.support.logs.building import append, write_transactional

TIERED = {"remote.storage.enable": "true", "local.retention.ms": "1", "retention.ms": "-1"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A topic with two closed segments, one with none, and one without a tier."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        for name, configs in {"orders": TIERED, "young": TIERED, "plain": {"retention.ms": "-1"}}.items():
            manager.create_topic(name, partitions=1, configs=configs)
            log = manager.open_log(name, 0)
            for value in (b"1", b"2") if name == "orders" else ():
                append(log, value)
                log.roll()
            append(log, b"3")
    return tmp_path / "log"


def tier(directory: Path, *arguments: object) -> Done:
    return commitlog("tier", *arguments, "--log-dir", directory, "--tier", directory.parent / "tier")


def logs_in(folder: Path) -> int:
    return len([*folder.rglob("*.log")])


def test_copies_and_then_local_segments_may_go(directory: Path) -> None:
    assert tier(directory, "copy", "--dry-run").stdout.splitlines()[0].startswith("orders-0: would copy 2 segments, ")
    assert not (directory.parent / "tier").exists()
    done = tier(directory, "copy")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "orders-0: copied 2 segments, 138 bytes; the tier has offsets 0 to 2",
        "tier: 3 partitions: 3 done; tiered 2 segments, 138 bytes, of 1 topic",
    ]
    assert logs_in(directory.parent / "tier") == 2
    assert commitlog("retain", "--log-dir", directory).code == 0
    left = {path.name for path in (directory / "orders-0").glob("*.log")}
    assert left == {"00000000000000000002.log"}
    again = [json.loads(line) for line in tier(directory, "copy", "--topics", "orders", "--json").stdout.splitlines()]
    assert [(each["copied"], each["tier_start_offset"], each["tier_end_offset"]) for each in again] == [(0, 0, 2)]


def test_what_retention_takes_from_the_tier_at_once_is_in_the_last_line(directory: Path) -> None:
    """The records are of 2023, and ``retention.ms`` is a week: they are copied, and deleted."""
    altered = ("--alter", "--topic", "orders", "--add-config", "retention.ms=604800000")
    assert commitlog("configs", "--log-dir", directory, *altered).code == 0
    assert tier(directory, "copy").stdout.splitlines() == [
        "orders-0: copied 2 segments, 138 bytes, deleted 2 segments; the tier has nothing of it",
        "tier: 3 partitions: 3 done; tiered 2 segments, 138 bytes, of 1 topic; deleted 2 segments from the tier, "
        "which has nothing of 1 topic",
    ]
    assert logs_in(directory.parent / "tier") == 0
    assert tier(directory, "copy").stdout.endswith(" done; nothing to tier\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["copy"], "give --tier"),
        (["publish", "--topic", "orders"], "give --bootstrap-server or --broker-log-dir"),
        (["publish", "-b", "127.0.0.1:1", "--tier", "t"], "give --topic"),
    ],
)
def test_a_missing_flag_is_named(directory: Path, arguments: list[str], reason: str) -> None:
    done = commitlog("tier", *arguments, "--log-dir", directory)
    assert done.code == 2
    assert reason in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["copy", "--tier", "t", "--at", "2026-11-21"], "--at goes with restore only, not with copy"),
        (["publish", "--topic", "orders", "-b", "h:1", "--every", "1 hour"], "--every goes with copy only"),
        (["restore", "--tier", "t", "--config", "retention.ms=1"], "with --bootstrap-server only"),
    ],
)
def test_a_flag_of_another_action_is_refused(directory: Path, arguments: list[str], reason: str) -> None:
    done = commitlog("tier", *arguments, "--log-dir", directory)
    assert (done.code, done.stdout) == (2, "")
    assert reason in done.stderr.replace("\n", " ")


def test_publish_refuses_what_a_broker_would_lose_or_show(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        write_transactional(manager.open_log("plain", 0), 7, 0, b"open")
        manager.create_topic("compacted", partitions=1, configs={"cleanup.policy": "compact"})
    for topic, reason in {"plain": "a transaction is open from offset 1 on", "compacted": "no compacted topic"}.items():
        done = tier(directory, "publish", "--topic", topic, "-b", "127.0.0.1:1")
        assert done.code == 1
        assert reason in done.stderr
    done = tier(directory, "publish", "--topic", "orders", "-b", "127.0.0.1:1", "--config", "retention.ms=1000")
    assert (done.code, "delete them at once" in done.stderr) == (1, True)


def test_a_directory_whose_broker_knows_no_segment_is_left_as_it_is(directory: Path) -> None:
    before = sorted(path.name for path in (directory / "orders-0").iterdir())
    done = commitlog("tier", "publish", "--topic", "orders", "--broker-log-dir", directory)
    assert done.code == 1
    assert "has no segment of topic 'orders' in the tier" in done.stderr
    assert sorted(path.name for path in (directory / "orders-0").iterdir()) == before
