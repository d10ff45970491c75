"""``commitlog describe``: segments of brokers' directories and of ours, why each is kept, and until when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, Records, TopicPartition
from tests.cli import kafka_said
from tests.cli.in_process import commitlog
from tests.support.clock import ManualClock
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, records, write_transactional

DAY_MS = 86_400_000


def pair(timestamp_ms: int) -> Records:
    """Appends two records."""
    return records([b"a", b"b"], keys=[b"1", b"2"], timestamps=timestamp_ms)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topic days: three segments, one per day, kept for two days; topic users: compacted, two closed segments."""
    path = str(tmp_path_factory.mktemp("describe") / "log")
    with LogManager.open(path, create=True, clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("days", partitions=1, configs={"retention.ms": str(2 * DAY_MS)})
        manager.create_topic("users", partitions=2, configs={"cleanup.policy": "compact"})
        for place, count in ((("days", 0), 3), (("users", 1), 3)):
            log = manager.open_log(*place)
            for n in range(count):
                log.append_records(pair(NOW_MS - (count - 1 - n) * DAY_MS))
                if n < count - 1:
                    log.roll()
    return path


def described(directory: object, *arguments: object) -> list[dict[str, Any]]:
    done = commitlog("describe", "--log-dir", directory, *arguments, "--json")
    assert (done.code, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_segment_shows_until_when_and_why_it_is_kept(directory: str) -> None:
    [days] = described(directory, "-t", "days", "--as-of", NOW_MS + DAY_MS // 2)
    assert (days["log_start_offset"], days["log_end_offset"], days["dirty_ratio"]) == (0, 6, None)
    first, second, active = days["segments"]
    assert [each["base_offset"] for each in days["segments"]] == [0, 2, 4]
    assert (first["goes"], first["rule"], first["kept_until"]) == (True, "retention.ms", None)
    assert (second["goes"], second["kept_until"]) == (False, NOW_MS + DAY_MS)
    assert "its newest record is from 2023-11-13" in second["reason"]
    assert (active["active"], active["kept_until"]) == (True, NOW_MS + 2 * DAY_MS)
    assert sum(each["bytes"] for each in days["segments"]) == days["bytes"]


def test_the_dirty_ratio_of_a_compacted_log_is_shown(directory: str) -> None:
    empty, users = described(directory, "-t", "users")
    assert (empty["dirty_ratio"], empty["compaction_due"]) == (0.0, False)
    assert (users["dirty_ratio"], users["compaction_due"]) == (1.0, True)
    assert [each["compaction"] for each in users["segments"]] == ["dirty", "dirty", "uncleanable"]
    assert [each["kept_until"] for each in users["segments"]] == [None] * 3


def test_plain_text_has_one_row_per_segment(directory: str) -> None:
    done = commitlog("describe", "--log-dir", directory, "-t", "days", "--as-of", NOW_MS)
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[0].startswith("days-0: offsets 0 to 6, 3 segments, ")
    assert lines[1].split()[:3] == ["BASE-OFFSET", "NEXT-OFFSET", "BYTES"]
    assert [line.split()[:2] for line in lines[2:]] == [["0", "2"], ["2", "4"], ["4", "6"]]
    assert "2023-11-14 22:13:20.000 UTC" in lines[2]  # kept until


def test_on_a_terminal_segments_are_drawn_with_their_share_of_the_log(directory: str) -> None:
    done = commitlog("describe", "--log-dir", directory, "-t", "users", "-p", 1, terminal=True)
    assert "dirty ratio 1.00" in done.stdout
    rows = [line for line in done.stdout.splitlines() if "█" in line]
    assert [line.split()[0] for line in rows] == ["0", "2", "4"]
    assert ["dirty" in line for line in rows] == [True, True, False]
    bars = [line.index("█") for line in rows]
    assert bars == sorted(bars)
    assert "cleanup.policy has no delete" in done.stdout


def test_a_brokers_directory_is_described_and_not_changed() -> None:
    log_dir = broker_dirs.stage("retention/stopped") / "log"
    before = kafka_said.contents(log_dir)
    [found] = described(log_dir, "-t", "r-ms", "--as-of", "2026-11-20T23:41")
    logs = sorted(path for path in (log_dir / "r-ms-0").glob("*.log"))
    assert [each["bytes"] for each in found["segments"]] == [path.stat().st_size for path in logs]
    assert [each["base_offset"] for each in found["segments"]] == [int(path.stem) for path in logs]
    assert kafka_said.contents(log_dir) == before


def test_a_damaged_log_is_reported_with_exit_code_3() -> None:
    log_dir = broker_dirs.stage("recovery-damage/damaged") / "log"
    done = commitlog("describe", "--log-dir", log_dir, "-t", "d-torn")
    assert (done.code, done.stdout) == (3, "")
    assert "position 2765" in done.stderr


# --- all topics


def test_without_a_topic_there_is_a_line_for_each(directory: str) -> None:
    days, users = described(directory)
    size = sum(path.stat().st_size for path in Path(directory).glob("days-0/*.log"))
    assert days == {
        "topic": "days",
        "partitions": 1,
        "offsets": 6,
        "bytes": size,
        "first_timestamp": NOW_MS - 2 * DAY_MS,
        "last_timestamp": NOW_MS,
        "magics": [2],
        "open_transactions": 0,
        "lag": {},
    }
    assert (users["partitions"], users["offsets"]) == (2, 6)


def test_groups_and_open_transactions_are_beside_their_topics(tmp_path: Path) -> None:
    directory = str(tmp_path / "log")
    with LogManager.open(directory, create=True) as manager:
        manager.create_topic("t", partitions=2)
        manager.create_topic("empty", partitions=1)
        manager.open_log("t", 0).append_records(pair(NOW_MS))
        for partition in (0, 1):
            write_transactional(manager.open_log("t", partition), 777, 0, b"a")
        GroupOffsets(manager).commit("etl", {TopicPartition("t", 0): CommittedOffset(1)})
    empty, topic, internal = described(directory)
    assert (topic["lag"], topic["open_transactions"], topic["offsets"]) == ({"etl": 2}, 1, 4)
    assert (empty["offsets"], empty["first_timestamp"], empty["magics"]) == (0, None, [])
    groups = Path(directory).glob("__consumer_offsets-*/*.log")
    size = sum(path.stat().st_size for path in groups)
    assert internal == {"internal_topics": ["__consumer_offsets"], "partitions": 50, "bytes": size}
    lines = commitlog("describe", "--log-dir", directory).stdout.splitlines()
    assert [line.split()[0] for line in lines if line] == ["TOPIC", "empty", "t", "internal"]
    assert lines[3].endswith("2     1         etl 2")


def test_old_formats_of_a_broker_are_named() -> None:
    found = {each["topic"]: each["magics"] for each in described(broker_dirs.oldest()) if "topic" in each}
    assert {magic for magics in found.values() for magic in magics} == {0}


def test_damage_is_reported_after_the_other_topics() -> None:
    done = commitlog("describe", "--log-dir", broker_dirs.stage("recovery-damage/damaged") / "log", "--json")
    assert done.code == 3
    assert "position 2765" in done.stderr
    found = {each["topic"]: each for each in map(json.loads, done.stdout.splitlines()) if "topic" in each}
    assert (found["d-torn"]["partitions"], found["d-torn"]["bytes"]) == (1, 0)
    assert any(each["bytes"] for each in found.values())


def test_a_directory_with_the_log_in_it_names_that(directory: str) -> None:
    parent = Path(directory).parent
    for command in (("describe",), ("topics", "--list"), ("verify",), ("snapshot", "--to", f"{parent}/copy")):
        done = commitlog(command[0], "--log-dir", parent, *command[1:])
        assert done.code == 1
        assert f"did you mean {directory}?" in done.stderr


# --- wrong use


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["--as-of", "noon"], 2, "need --topic", id="a time without a topic"),
        pytest.param(["-t", "day"], 1, "did you mean 'days'?", id="no such topic"),
        pytest.param(["-t", "days", "-p", "4"], 1, "has partitions [0], but not 4", id="no such partition"),
        pytest.param(["-t", "days", "--as-of", "20231114"], 0, "", id="a date without dashes is a date"),
        pytest.param(["-t", "days", "--as-of", "noon"], 2, "ISO 8601, such as 2026-11-21T06:00", id="no time"),
    ],
)
def test_wrong_use_says_what_is_right(arguments: list[str], code: int, said: str, directory: str) -> None:
    done = commitlog("describe", "--log-dir", directory, *arguments)
    assert done.code == code
    assert said in done.stderr.replace("\n", " ")


def test_help_says_what_the_columns_mean() -> None:
    done = commitlog("describe", "--help")
    assert done.code == 0
    for word in ("--topic", "--partition", "--as-of", "KEPT-UNTIL", "COMPACTION"):
        assert word in done.stdout


def test_a_transaction_of_nobody_is_shown_with_the_command_that_ends_it(tmp_path: Path) -> None:
    directory = str(tmp_path / "log")
    with LogManager.open(directory, create=True) as manager:
        manager.create_topic("t", partitions=1)
        write_transactional(manager.open_log("t", 0), 777, 0, b"nobody's", epoch=2)
    [found] = described(directory, "-t", "t")
    [hanging] = found["hanging_transactions"]
    command = f"commitlog transactions --log-dir {directory} --abort --topic t --partition 0 --start-offset 0"
    assert (hanging["producer_id"], hanging["epoch"], hanging["abort"]) == (777, 2, command)
    shown = commitlog("describe", "--log-dir", directory, "-t", "t").stdout
    assert "producer 777, epoch 2" in shown
    assert f"abort it: {command}\n" in shown
    assert not commitlog(*command.split()[1:]).code
    assert "hanging_transactions" not in described(directory, "-t", "t")[0]
