"""``commitlog groups``: compared with Kafka's own tool for the same directory, and its changes to ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, TransactionCoordinator
from tests.cli.in_process import commitlog
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, records
from tests.support.logs.directories import directory_with_internal_topics

GOLDEN = Path(__file__).parents[2] / "golden" / "groups"
TO_MEMBERS_A = ("--group", "members-a", "--topic", "g-in")


def said_by_kafka(name: str) -> list[str]:
    return [line.rstrip() for line in (GOLDEN / f"{name}.txt").read_text().splitlines() if line.strip()]


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def broker() -> Path:
    """A broker's log directory, for reading only."""
    return broker_dirs.stage("groups/final") / "log"


# --- beside Kafka's tool


def test_groups_and_states_are_those_kafka_lists(broker: Path) -> None:
    done = commitlog("groups", "--log-dir", broker, "--list", "--state")
    assert sorted(lines(done.stdout)) == sorted(said_by_kafka("list-state"))
    names = commitlog("groups", "--log-dir", broker, "--list").stdout.split()
    assert names == sorted(line.split()[0] for line in said_by_kafka("list-state")[1:])


def test_offsets_lag_and_members_are_kafkas_line_by_line(broker: Path) -> None:
    done = commitlog("groups", "--log-dir", broker, "--describe", "--all-groups")
    assert (done.code, done.stderr) == (0, "")
    assert lines(done.stdout) == said_by_kafka("describe-all")


def test_states_are_kafkas_but_for_the_coordinator(broker: Path) -> None:
    done = commitlog("groups", "--log-dir", broker, "--describe", "--all-groups", "--state")
    header = ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    rows = [line.split() for line in said_by_kafka("describe-state") if line.split() != header]
    assert [line.split() for line in lines(done.stdout)][1:] == [[row[0], *row[3:]] for row in rows]
    as_json = commitlog("groups", "--log-dir", broker, "--describe", "--group", "members-b", "--state", "--json")
    assert json.loads(as_json.stdout) == {
        "group": "members-b",
        "assignment_strategy": "range",
        "state": "Stable",
        "members": 1,
    }


def test_members_and_their_assignments_are_those_kafka_shows(broker: Path) -> None:
    describe = ("groups", "--log-dir", broker, "--describe", "--all-groups", "--members")
    [kafka] = [line.split() for line in said_by_kafka("describe-members") if not line.startswith("GROUP")]
    group, consumer_id, instance_id, host, client_id, count, assignment = kafka
    rows = [line.split() for line in lines(commitlog(*describe).stdout) if not line.startswith("GROUP")]
    assert rows == [[group, consumer_id, host, client_id, count]]
    assert json.loads(commitlog(*describe, "--json").stdout) == {
        **{"group": group, "consumer_id": consumer_id, "group_instance_id": instance_id},
        **{"host": host, "client_id": client_id},
        "partitions": [{"topic": "g-in", "partition": int(each)} for each in assignment.strip("()").split(",")],
    }


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("reset-datetime", (*TO_MEMBERS_A, "--to-datetime", "2026-11-20T23:26:16.000")),
        ("reset-datetime", (*TO_MEMBERS_A, "--to-datetime", "2026-11-21T00:26:16+01:00")),
        ("reset-shift", (*TO_MEMBERS_A, "--shift-by", "-10")),
        ("reset-offset-high", (*TO_MEMBERS_A, "--to-offset", "3000000")),
        ("reset-all-topics", ("--group", "payments", "--all-topics", "--to-latest")),
        ("reset-new-group", ("--group", "fresh", "--topic", "g-in:1,2", "--to-earliest")),
    ],
)
def test_a_reset_would_go_where_kafkas_would(name: str, arguments: tuple[str, ...], broker: Path) -> None:
    done = commitlog("groups", "--log-dir", broker, "--reset-offsets", *arguments)
    assert done.code == 0
    assert "nothing was changed; add --execute" in done.stderr
    assert done.stdout.split() == (GOLDEN / f"{name}.txt").read_text().split()


SAID: dict[str, Any] = json.loads((GOLDEN / "flags.json").read_text())


@pytest.mark.parametrize("call", SAID["calls"], ids=lambda call: " ".join(call["arguments"]))
def test_other_flags_give_what_kafkas_tool_prints(
    call: dict[str, Any], broker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except for the order of groups, which is that of a hash table in Kafka, and line breaks in its tables."""
    monkeypatch.chdir(tmp_path)
    for name, content in SAID["files"].items():
        Path(name).write_text(content)
    done = commitlog("groups", "--log-dir", broker, *call["arguments"])
    assert done.code == 0
    assert sorted(done.stdout.split()) == sorted(call["stdout"].split())
    if "--export" in call["arguments"]:
        assert sorted(lines(done.stdout)) == sorted(lines(call["stdout"]))


def test_reading_changes_nothing(broker: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in broker.rglob("*")}
    commitlog("groups", "--log-dir", broker, "--describe", "--all-groups")
    commitlog("groups", "--log-dir", broker, "--reset-offsets", *TO_MEMBERS_A, "--to-latest")
    commitlog("groups", "--log-dir", broker, "--delete", "--all-groups", "--dry-run")
    assert {path: path.stat().st_mtime_ns for path in broker.rglob("*")} == before


# --- on a directory of ours


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[str]:
    """Topic orders with two partitions of 5 records; group etl has read some, sink copy wrote 3 batches."""
    path = directory_with_internal_topics(tmp_path)
    with LogManager.open(path) as manager:
        manager.create_topic("orders", partitions=2)
        for partition in (0, 1):
            manager.open_log("orders", partition).append_records(records([b"v"] * 5, timestamps=NOW_MS))
        groups = GroupOffsets(manager)
        groups.commit("etl", {("orders", 0): CommittedOffset(2), ("orders", 1): CommittedOffset(5)})
        groups.commit("copy", {("__sink.orders", 0): CommittedOffset(3, '{"records":10}')})
    return path


def described(directory: str, *arguments: str) -> list[dict[str, Any]]:
    done = commitlog("groups", "--log-dir", directory, "--describe", "--json", *(arguments or ["--all-groups"]))
    assert done.code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def offsets_of(directory: str, group: str) -> dict[tuple[str, int], int]:
    with LogManager.open(directory) as manager:
        return {place: each.offset for place, each in GroupOffsets(manager).fetch(group).items()}


def test_json_has_lag_in_records_and_seconds_and_the_commits_metadata(directory: str) -> None:
    behind, done = described(directory, "--group", "etl")
    assert (behind["topic"], behind["partition"], behind["current_offset"], behind["lag"]) == ("orders", 0, 2, 3)
    assert behind["lag_seconds"] > 0
    assert (behind["log_start_offset"], behind["last_stable_offset"], behind["log_end_offset"]) == (0, 5, 5)
    assert (done["lag"], done["lag_seconds"]) == (0, 0)
    assert (done["consumer_id"], done["host"], done["client_id"]) == (None, None, None)


def test_the_progress_of_a_sink_is_shown_without_lag_and_explained(directory: str) -> None:
    done = commitlog("groups", "--log-dir", directory, "--describe", "--group", "copy")
    assert lines(done.stdout)[1].split() == ["copy", "__sink.orders", "0", "3", "-", "-", "-", "-", "-"]
    assert "__sink.orders is no topic: its offset is the number of the micro-batch" in done.stderr
    assert "__sink" not in commitlog("groups", "--log-dir", directory, "--describe", "--group", "etl").stderr
    [sink] = described(directory, "--group", "copy")
    assert (sink["current_offset"], sink["lag"], sink["lag_seconds"]) == (3, None, None)
    assert json.loads(sink["metadata"]) == {"records": 10}
    assert sink["sink_topic"] == "orders"
    assert "sink_topic" not in described(directory, "--group", "etl")[0]


def test_an_offset_of_a_deleted_topic_is_shown_without_lag(directory: str) -> None:
    with LogManager.open(directory) as manager:
        GroupOffsets(manager).commit("etl", {("gone", 0): CommittedOffset(9)})
    assert [row["lag"] for row in described(directory, "--group", "etl")] == [None, 3, 0]


def test_on_a_terminal_it_is_a_table_that_says_the_same(directory: str) -> None:
    done = commitlog("groups", "--log-dir", directory, "--describe", "--group", "etl", terminal=True)
    assert "━" in done.stdout or "─" in done.stdout
    assert any({"etl", "orders", "2", "5", "3"} <= {*line.split()} for line in done.stdout.splitlines())


def test_offsets_are_reset_with_execute(directory: str) -> None:
    reset = ("groups", "--log-dir", directory, "--reset-offsets", "--group", "etl", "--topic", "orders:0")
    commitlog(*reset, "--to-earliest")
    commitlog(*reset, "--to-earliest", "--dry-run")
    assert offsets_of(directory, "etl") == {("orders", 0): 2, ("orders", 1): 5}
    done = commitlog(*reset, "--to-earliest", "--execute")
    assert (done.code, done.stderr) == (0, "")
    assert offsets_of(directory, "etl") == {("orders", 0): 0, ("orders", 1): 5}
    commitlog(*reset, "--to-latest", "--execute")
    commitlog(*reset, "--to-offset", "0", "--execute")
    assert offsets_of(directory, "etl") == {("orders", 0): 0, ("orders", 1): 5}
    done = commitlog(*reset, "--shift-by", "4", "--execute", "--json")
    assert json.loads(done.stdout) == {
        **{"group": "etl", "topic": "orders", "partition": 0},
        **{"new_offset": 4, "committed": True},
    }
    assert offsets_of(directory, "etl")["orders", 0] == 4


@pytest.mark.parametrize(
    "change",
    [
        ("--reset-offsets", "--topic", "g-in", "--to-earliest", "--execute"),
        ("--delete-offsets", "--topic", "g-in"),
        ("--delete",),
    ],
)
def test_members_in_the_log_of_a_copy_are_named_and_stop_no_change(
    change: tuple[str, ...], tmp_path: Path, broker: Path
) -> None:
    log_dir = Path(shutil.copytree(broker, tmp_path / "log"))
    done = commitlog("groups", "--log-dir", log_dir, "--group", "members-b", *change)
    said = (
        "commitlog: the last state of group 'members-b' was Stable with 1 member, "
        "but no gateway or broker runs here that has them\n"
    )
    assert (done.code, done.stderr) == (0, said)
    with LogManager.open(str(log_dir)) as manager:
        left = GroupOffsets(manager).fetch("members-b")
    assert {each.offset for each in left.values()} == ({0} if "--execute" in change else set())


def test_to_current_is_the_log_end_if_nothing_was_committed(directory: str) -> None:
    reset = ("groups", "--log-dir", directory, "--reset-offsets", "--topic", "orders", "--to-current", "--execute")
    commitlog(*reset, "--group", "etl", "--group", "new")
    assert offsets_of(directory, "etl") == {("orders", 0): 2, ("orders", 1): 5}
    assert offsets_of(directory, "new") == {("orders", 0): 5, ("orders", 1): 5}


def test_by_duration_goes_back_from_now(directory: str) -> None:
    reset = ("groups", "--log-dir", directory, "--reset-offsets", "--group", "etl", "--all-topics", "--execute")
    commitlog(*reset, "--by-duration", "P36500D")  # the records are from 2023
    assert offsets_of(directory, "etl") == {("orders", 0): 0, ("orders", 1): 0}
    done = commitlog(*reset, "--by-duration", "PT0.5S")
    assert "no record is of that time or later" in done.stderr
    assert offsets_of(directory, "etl") == {("orders", 0): 5, ("orders", 1): 5}


def test_an_error_with_one_group_is_raised_before_any_is_changed(directory: str) -> None:
    reset = ("groups", "--log-dir", directory, "--reset-offsets", "--topic", "orders", "--shift-by", "-1", "--execute")
    done = commitlog(*reset, "--group", "etl", "--group", "new")
    assert done.code == 1
    assert "--shift-by needs a committed offset" in done.stderr
    assert offsets_of(directory, "etl") == {("orders", 0): 2, ("orders", 1): 5}


def test_all_topics_leaves_the_progress_of_sinks_alone(directory: str) -> None:
    done = commitlog(
        *("groups", "--log-dir", directory, "--reset-offsets", "--all-groups", "--all-topics", "--to-earliest"),
        "--execute",
    )
    assert done.code == 0
    assert offsets_of(directory, "copy") == {("__sink.orders", 0): 3}
    assert offsets_of(directory, "etl") == {("orders", 0): 0, ("orders", 1): 0}


def test_a_group_is_deleted_and_only_that_one(directory: str) -> None:
    delete = ("groups", "--log-dir", directory, "--delete", "--group", "etl")
    assert commitlog(*delete, "--dry-run").stdout == "would delete groups 'etl'\n"
    assert offsets_of(directory, "etl")
    assert commitlog(*delete).stdout == "deleted groups 'etl'\n"
    assert commitlog("groups", "--log-dir", directory, "--list").stdout == "copy\n"


def test_single_offsets_are_deleted(directory: str) -> None:
    delete = ("groups", "--log-dir", directory, "--delete-offsets", "--group", "etl")
    done = commitlog(*delete, "--topic", "orders:1", "--json")
    assert json.loads(done.stdout) == {"group": "etl", "topic": "orders", "partition": 1, "deleted": True}
    assert offsets_of(directory, "etl") == {("orders", 0): 2}
    assert commitlog(*delete, "--topic", "orders").code == 0
    assert offsets_of(directory, "etl") == {}
    commitlog("groups", "--log-dir", directory, "--delete-offsets", "--group", "copy", "--topic", "__sink.orders")
    assert offsets_of(directory, "copy") == {}


@pytest.mark.parametrize(
    "flags", [("--topic", "orders:1"), ("--all-topics",), ("--to-offset", "0"), ("--to-earliest",)]
)
def test_a_flag_of_other_actions_does_not_delete_the_whole_group(flags: tuple[str, ...], directory: str) -> None:
    before = offsets_of(directory, "etl")
    done = commitlog("groups", "--log-dir", directory, "--delete", "--group", "etl", *flags)
    assert (done.code, done.stdout) == (2, "")
    assert f"{flags[0]} goes with --reset-offsets" in done.stderr.replace("\n", " ")
    assert offsets_of(directory, "etl") == before


@pytest.mark.parametrize("action", ["--delete", "--delete-offsets"])
def test_the_progress_of_a_running_sink_cannot_be_changed(action: str, directory: str) -> None:
    topic = [] if action == "--delete" else ["--topic", "__sink.orders"]
    with LogManager.open(directory) as manager, TransactionCoordinator.open(manager, "copy", holder="query 7"):
        done = commitlog("groups", "--log-dir", directory, action, "--group", "copy", *topic)
        assert done.code == 1
        assert "query 7" in done.stderr
    assert offsets_of(directory, "copy") == {("__sink.orders", 0): 3}
    assert commitlog("groups", "--log-dir", directory, action, "--group", "copy", *topic).code == 0
    assert offsets_of(directory, "copy") == {}


# Holds the file of its argument as a broker holds .lock (Java's FileChannel.tryLock is lockf), until its input ends.
BROKER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


def test_beside_a_running_broker_commands_read_but_cannot_change(directory: str) -> None:
    change = ("--group", "etl", "--topic", "orders")
    with subprocess.Popen(
        [sys.executable, "-c", BROKER, f"{directory}/.lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == "held\n"
        assert len(described(directory, "--group", "etl")) == 2
        for arguments in (
            ("--reset-offsets", *change, "--to-latest", "--execute"),
            ("--delete-offsets", *change),
            ("--delete", "--group", "etl"),
            ("--delete", "--group", "copy"),
        ):
            done = commitlog("groups", "--log-dir", directory, *arguments)
            assert (done.code, done.stdout) == (1, "")
            assert "a running Kafka broker holds this directory" in done.stderr
        broker.communicate()
    assert offsets_of(directory, "etl") == {("orders", 0): 2, ("orders", 1): 5}
    assert offsets_of(directory, "copy") == {("__sink.orders", 0): 3}


# --- wrong use


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--describe"], "--all-groups", id="no group"),
        pytest.param(["--describe", "--group", "etl", "--all-groups"], "--all-groups", id="one and all"),
        pytest.param([], "--describe", id="nothing to do"),
        pytest.param(["--describe", "--all-groups", "--state", "--members"], "only one of --members", id="two views"),
        pytest.param(["--list", "--describe"], "exactly one", id="two things to do"),
        pytest.param(["--reset-offsets", "--group", "etl", "--topic", "orders"], "--to-earliest", id="no target"),
        pytest.param(
            ["--reset-offsets", "--group", "etl", "--topic", "orders", "--to-latest", "--to-earliest"],
            "exactly one of",
            id="two targets",
        ),
        pytest.param(["--reset-offsets", "--group", "etl", "--to-latest"], "--all-topics", id="no topic to reset"),
        pytest.param(
            ["--reset-offsets", "--group", "etl", "--all-topics", "--to-datetime", "tomorrow"],
            "2026-11-21T06",
            id="no time",
        ),
        pytest.param(
            ["--reset-offsets", "--group", "etl", "--all-topics", "--by-duration", "2 h"], "P1DT2H", id="no duration"
        ),
        pytest.param(
            ["--reset-offsets", "--group", "etl", "--topic", "orders:x", "--to-latest"], "orders:0,2", id="no partition"
        ),
        pytest.param(["--delete-offsets", "--group", "etl"], "--topic", id="no topic to forget"),
        pytest.param(
            ["--reset-offsets", "--group", "etl", "--all-topics", "--to-latest", "--execute", "--dry-run"],
            "cannot be used together",
            id="do and do not",
        ),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_right(arguments: list[str], said: str, directory: str) -> None:
    done = commitlog("groups", "--log-dir", directory, *arguments)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--describe", "--group", "elt"], "did you mean 'etl'?", id="no such group"),
        pytest.param(["--delete", "--group", "nobody"], "there are copy, etl", id="no group like it"),
        pytest.param(
            ["--reset-offsets", "--group", "etl", "--topic", "order", "--to-latest"], "orders", id="no such topic"
        ),
        pytest.param(
            ["--reset-offsets", "--group", "etl", "--topic", "orders:7", "--to-latest"],
            "[0, 1]",
            id="no such partition",
        ),
        pytest.param(
            ["--delete-offsets", "--group", "copy", "--topic", "orders"], "__sink.orders", id="no such offsets"
        ),
    ],
)
def test_what_is_not_there_is_one_line_that_tells_what_is(arguments: list[str], said: str, directory: str) -> None:
    done = commitlog("groups", "--log-dir", directory, *arguments)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("commitlog: ")
    assert said in done.stderr


def test_help_names_kafkas_flags() -> None:
    done = commitlog("groups", "--help")
    assert done.code == 0
    for flag in ("--all-groups", "--reset-offsets", "--to-datetime", "--shift-by", "--execute", "--delete-offsets"):
        assert flag in done.stdout


# --- partitions of __consumer_offsets that are not here


@pytest.fixture
def lossy(tmp_path: Path) -> tuple[Path, str, str]:
    """A directory without one partition of __consumer_offsets, a group that exists, and one that was lost with it."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        manager.open_log("orders", 0).append_records(records([b"v"] * 5, timestamps=NOW_MS))
        for group in ("here", "lost"):
            GroupOffsets(manager).commit(group, {("orders", 0): CommittedOffset(2)})
        _, number = GroupOffsets(manager).partition_of("lost")
    shutil.rmtree(tmp_path / "log" / f"__consumer_offsets-{number}")
    return tmp_path / "log", "here", f"__consumer_offsets-{number}, which holds 'lost', is not in"


@pytest.mark.parametrize(
    "action", [("--list",), ("--describe", "--all-groups"), ("--delete", "--all-groups", "--dry-run")]
)
def test_existing_groups_are_listed_with_a_warning_about_missing_ones(
    action: tuple[str, ...], lossy: tuple[Path, str, str]
) -> None:
    log_dir, here, _ = lossy
    done = commitlog("groups", "--log-dir", log_dir, *action)
    assert (done.code, here in done.stdout, "lost" in done.stdout) == (0, True, False)
    assert "1 of the 50 partitions of __consumer_offsets is not in" in done.stderr


def test_an_existing_group_is_described_without_warnings(lossy: tuple[Path, str, str]) -> None:
    log_dir, here, _ = lossy
    done = commitlog("groups", "--log-dir", log_dir, "--describe", "--group", here)
    assert (done.code, done.stderr, here in done.stdout) == (0, "", True)


@pytest.mark.parametrize(
    "action",
    [
        ("--describe",),
        ("--delete",),
        ("--delete-offsets", "--topic", "orders"),
        ("--reset-offsets", "--topic", "orders", "--to-latest", "--execute"),
        ("--reset-offsets", "--group", "here", "--topic", "orders", "--to-latest", "--execute"),
    ],
)
def test_a_group_whose_partition_is_missing_is_an_error_that_says_so(
    action: tuple[str, ...], lossy: tuple[Path, str, str]
) -> None:
    log_dir, here, said = lossy
    done = commitlog("groups", "--log-dir", log_dir, *action, "--group", "lost")
    assert (done.code, done.stdout) == (1, "")
    assert said in done.stderr
    assert offsets_of(str(log_dir), here) == {("orders", 0): 2}  # neither was changed


def test_a_reset_that_would_be_refused_says_so_without_execute(lossy: tuple[Path, str, str]) -> None:
    log_dir, _, said = lossy
    reset = ("--reset-offsets", "--group", "lost", "--topic", "orders", "--to-latest")
    done = commitlog("groups", "--log-dir", log_dir, *reset)
    assert done.code == 0
    assert f"--execute would be refused: {said}" in done.stderr


def test_other_groups_are_described_where_the_partition_of_one_is_missing(lossy: tuple[Path, str, str]) -> None:
    log_dir, here, said = lossy
    done = commitlog("groups", "--log-dir", log_dir, "--describe", "--group", "lost", "--group", here)
    assert (done.code, here in done.stdout, said in done.stderr) == (1, True, True)


@pytest.mark.parametrize(
    "action",
    [
        ("--describe",),
        ("--delete",),
        ("--delete-offsets", "--topic", "orders"),
        ("--reset-offsets", "--topic", "orders", "--shift-by", "1", "--execute"),
        ("--reset-offsets", "--topic", "orders", "--to-latest", "--execute"),
    ],
)
def test_a_group_whose_partition_is_damaged_is_not_said_to_be_missing(action: tuple[str, ...], tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        manager.open_log("orders", 0).append_records(records([b"v"] * 5, timestamps=NOW_MS))
        GroupOffsets(manager).commit("g", {("orders", 0): CommittedOffset(2)})
        _, number = GroupOffsets(manager).partition_of("g")
    [log] = (tmp_path / "log" / f"__consumer_offsets-{number}").glob("*.log")
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    before = log.read_bytes()
    done = commitlog("groups", "--log-dir", tmp_path / "log", *action, "--group", "g")
    assert (done.code, done.stdout, log.read_bytes()) == (3, "", before)
    assert str(log) in done.stderr
    assert "no group" not in done.stderr


def test_a_damaged_partition_is_reported_after_the_other_groups(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        for group in ("here", "lost"):
            GroupOffsets(manager).commit(group, {("orders", 0): CommittedOffset(2)})
        _, number = GroupOffsets(manager).partition_of("lost")
    [log] = (tmp_path / "log" / f"__consumer_offsets-{number}").glob("*.log")
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    done = commitlog("groups", "--log-dir", tmp_path / "log", "--list")
    assert (done.code, done.stdout) == (3, "here\n")
    assert str(log) in done.stderr


def test_a_lost_partition_of_a_topic_is_named_behind_the_others(tmp_path: Path) -> None:
    log_dir = directory_with_internal_topics(tmp_path)
    with LogManager.open(log_dir) as manager:
        manager.create_topic("orders", partitions=2)
        for partition in range(2):
            manager.open_log("orders", partition).append_records(records([b"v"] * 5, timestamps=NOW_MS))
        for group in ("etl", "other"):
            GroupOffsets(manager).commit(group, {("orders", each): CommittedOffset(2) for each in range(2)})
    shutil.rmtree(tmp_path / "orders-0")
    done = commitlog("groups", "--log-dir", log_dir, "--describe", "--all-groups", "--json")
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    figures = [(row["group"], row["partition"], row["current_offset"], row["lag"]) for row in shown]
    assert figures == [("etl", 0, 2, None), ("etl", 1, 2, 3), ("other", 0, 2, None), ("other", 1, 2, 3)]
    assert done.code == 1
    assert [f"{tmp_path}/orders-0: no such directory" in line for line in done.stderr.splitlines()] == [True]


# --- from and to a file


def test_exported_offsets_can_be_imported_again(directory: str, tmp_path: Path) -> None:
    reset = ("groups", "--log-dir", directory, "--reset-offsets")
    one, both = tmp_path / "one.csv", tmp_path / "both.csv"
    one.write_text(commitlog(*reset, "--group", "etl", "--all-topics", "--to-current", "--export").stdout)
    to_latest = ("--group", "etl", "--group", "a, b", "--topic", "orders", "--to-latest", "--export")
    both.write_text(commitlog(*reset, *to_latest).stdout)
    assert one.read_text() == "orders,0,2\norders,1,5\n"
    assert both.read_text() == 'etl,orders,0,5\netl,orders,1,5\n"a, b",orders,0,5\n"a, b",orders,1,5\n'
    done = commitlog(*reset, "--group", "etl", "--group", "a, b", "--from-file", both, "--execute", "--json")
    assert [json.loads(line)["committed"] for line in done.stdout.splitlines()] == [True] * 4
    assert offsets_of(directory, "etl") == offsets_of(directory, "a, b") == {("orders", 0): 5, ("orders", 1): 5}
    done = commitlog(*reset, "--group", "etl", "--from-file", one, "--execute")
    assert (done.code, done.stderr) == (0, "")
    assert offsets_of(directory, "etl") == {("orders", 0): 2, ("orders", 1): 5}
    assert offsets_of(directory, "a, b") == {("orders", 0): 5, ("orders", 1): 5}


def test_a_group_without_rows_is_named_and_the_others_are_reset(directory: str, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("etl,orders,0,1\n\nother,orders,0,1\n")
    reset = ("groups", "--log-dir", directory, "--reset-offsets", "--group", "etl", "--group", "copy")
    done = commitlog(*reset, "--from-file", tmp_path / "o.csv", "--execute")
    assert done.code == 0
    assert "o.csv has no offsets of group 'copy'" in done.stderr
    assert offsets_of(directory, "etl")["orders", 0] == 1
    with LogManager.open(directory) as manager:
        assert GroupOffsets(manager).fetch("other") == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("orders,0,1\norders,zero,1\n", "line 2: 'orders,zero,1' is not of the form topic,partition,offset or group"),
        ("orders,0\n", "line 1: 'orders,0' is not of the form"),
        ("a,b,orders,0,1\n", "line 1: 'a,b,orders,0,1' is not of the form"),
        ("order,0,1\n", "there are no partitions of topic 'order'; topics with partitions: "),
        ("orders,7,1\n", "topic 'orders' has partitions [0, 1], but not [7]"),
    ],
)
def test_an_invalid_file_changes_nothing(content: str, said: str, directory: str, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text(content)
    before = offsets_of(directory, "etl")
    reset = ("groups", "--log-dir", directory, "--reset-offsets", "--group", "etl", "--execute")
    done = commitlog(*reset, "--from-file", tmp_path / "o.csv")
    assert (done.code, done.stdout) == (1, "")
    assert said in done.stderr
    assert offsets_of(directory, "etl") == before
    done = commitlog(*reset, "--from-file", tmp_path / "none.csv")
    assert (done.code, "none.csv: No such file" in done.stderr) == (1, True)


def test_rows_of_one_group_are_not_taken_for_those_of_several(directory: str, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("orders,0,1\n")
    reset = ("groups", "--log-dir", directory, "--reset-offsets", "--group", "etl", "--group", "copy")
    done = commitlog(*reset, "--from-file", tmp_path / "o.csv")
    assert (done.code, "group,topic,partition,offset, which several groups need" in done.stderr) == (1, True)


# --- groups of the newer protocols


@pytest.fixture(scope="module")
def kafka_4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a 4.3.1 broker with active members, in which a classic group was upgraded."""
    root = tmp_path_factory.mktemp("kafka-4")
    with tarfile.open(GOLDEN / "kafka-4.tar.xz") as packed:
        packed.extractall(root, filter="data")
    return root


def test_groups_of_kafka_4_are_listed_with_their_types(kafka_4: Path) -> None:
    said = json.loads((kafka_4 / "said.json").read_text())["classic upgraded"].rstrip(";").split(";")
    rows = [[part.removeprefix("Optional[").rstrip("]") for part in row.split("|")] for row in said]
    log_dir = ("groups", "--log-dir", kafka_4 / "live" / "log")
    listed = [line.split() for line in lines(commitlog(*log_dir, "--list", "--type", "--state").stdout)]
    assert listed[0] == ["GROUP", "TYPE", "STATE"]
    assert sorted(listed[1:]) == sorted([name, type_, state] for name, type_, _, state in rows)
    shares = commitlog(*log_dir, "--list", "--type", "share").stdout
    assert sorted(line.split()[0] for line in lines(shares)[1:]) == ["share-e", "share-s"]
    as_json = commitlog(*log_dir, "--list", "--type", "--json").stdout
    assert {each["type"] for each in map(json.loads, as_json.splitlines())} == {"Consumer", "Share"}


def test_offsets_and_members_of_kafka_4_are_those_its_tool_shows(kafka_4: Path) -> None:
    """Leaves out the classic group, since the output is from before its upgrade."""
    [said] = [
        each["stdout"]
        for each in json.loads((kafka_4 / "said.json").read_text())["tools"]
        if each["arguments"][2:] == ["--describe", "--all-groups"] and "ConsumerGroup" in each["main"]
    ]
    describe = (
        "groups",
        "--log-dir",
        kafka_4 / "live" / "log",
        "--describe",
        "--group",
        "new-a",
        "--group",
        "new-regex",
    )
    ours = lines(commitlog(*describe).stdout)
    assert ours == [line for line in lines(said[said.index("GROUP", 10) :]) if not line.startswith("classic-b")]
    members = [json.loads(line) for line in commitlog(*describe, "--members", "--json").stdout.splitlines()]
    assert {each["client_id"]: (each["epoch"], len(each["target_partitions"])) for each in members} == {
        "a1": (3, 3),
        "a2": (3, 3),
        "re": (2, 8),
    }


def test_members_of_kafka_4_are_shown_in_the_columns_of_its_tool(kafka_4: Path) -> None:
    [said] = [
        each["stdout"]
        for each in json.loads((kafka_4 / "said.json").read_text())["tools"]
        if "--members" in each["arguments"]
    ]
    members = ("groups", "--log-dir", kafka_4 / "live" / "log", "--describe", "--members", "--verbose")
    assert sorted(lines(commitlog(*members, "--group", "new-a").stdout)) == sorted(lines(said))
    [head, *rows] = [line.split() for line in lines(commitlog(*members, "--group", "classic-b").stdout)]
    assert head[-5:] == ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"]
    assert {row[3]: row[-5:] for row in rows} == {
        "c1": ["2", "n-in:0,1", "2", "n-in:0,1", "false"],
        "c2": ["2", "n-in:2,3", "2", "n-in:2,3", "true"],
    }
    [head, row] = [line.split() for line in lines(commitlog(*members, "--group", "share-s").stdout)]
    assert (head[-2:], row[-2:]) == (["MEMBER-EPOCH", "ASSIGNMENT"], ["3", "n-share:0,1"])


@pytest.mark.parametrize("stage", ["live", "final"])
def test_share_groups_are_described_as_kafkas_tool_describes_them(stage: str, kafka_4: Path) -> None:
    said = [
        each["stdout"]
        for each in json.loads((kafka_4 / "said.json").read_text())["tools"]
        if each["main"].endswith("ShareGroupCommand")
    ]
    log_dir = ("groups", "--log-dir", kafka_4 / stage / "log")
    shares = (*log_dir, "--describe", "--group", "share-e", "--group", "share-s")
    assert lines(commitlog(*shares).stdout) == lines(said[0])
    every = [json.loads(line) for line in lines_of((*log_dir, "--describe", "--all-groups", "--json"))]
    assert {row["lag"] for row in every if row["group"].startswith("share-")} == {0}
    assert sum("start_offset" in row for row in every) == 4


def test_resetting_offsets_that_kafka_4_committed_keeps_the_topics_id(kafka_4: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(kafka_4 / "final" / "log", tmp_path / "log")
    log_dir = ("groups", "--log-dir", directory)
    described = (*log_dir, "--describe", "--group", "new-a", "--json")
    before = {(row["topic"], row["partition"]): row["topic_id"] for row in map(json.loads, lines_of(described))}
    assert len(set(before.values())) == 2
    done = commitlog(*log_dir, "--reset-offsets", "--group", "new-a", "--all-topics", "--to-earliest", "--execute")
    assert done.code == 0, done.stderr
    after = [json.loads(line) for line in lines_of(described)]
    assert {(row["topic"], row["partition"]): row["topic_id"] for row in after} == before
    assert {row["current_offset"] for row in after} == {0}


def lines_of(arguments: tuple[object, ...]) -> list[str]:
    return commitlog(*arguments).stdout.splitlines()


def test_choosing_types_or_states_with_describe_is_wrong_use(broker: Path) -> None:
    for flags in (("--describe", "--state", "Empty"), ("--describe", "--type")):
        done = commitlog("groups", "--log-dir", broker, *flags, "--all-groups")
        assert (done.code, "need --list" in done.stderr.replace("\n", " ")) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--list", "--state", "Nope"], "choose from PreparingRebalance, CompletingRebalance, Stable, Dead, Empty"),
        (["--list", "--type", "nope"], "choose from Classic, Consumer, Share, Streams"),
        (
            ["--describe", "--members", "--offsets", "--all-groups"],
            "only one of --members, --offsets and --state can be used",
        ),
        (["--reset-offsets", "--group", "g", "--to-latest", "--from-file", "f"], "exactly one of --to-earliest"),
        (["--reset-offsets", "--group", "g", "--topic", "t", "--from-file", "f"], "--from-file names the topics"),
        (
            ["--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--export", "--json"],
            "--export and --json",
        ),
    ],
)
def test_flags_that_exclude_each_other_are_wrong_use(arguments: list[str], said: str, broker: Path) -> None:
    done = commitlog("groups", "--log-dir", broker, *arguments)
    assert (done.code, said in " ".join(done.stderr.split())) == (2, True)


@pytest.mark.parametrize("shown", [["--list"], ["--list", "--state"], ["--describe", "--all-groups"]])
@pytest.mark.parametrize("terminal", [True, False])
def test_the_name_of_a_group_cannot_steer_a_terminal_or_look_like_another_line(
    tmp_path: Path, shown: list[str], terminal: bool
) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
        GroupOffsets(manager).commit("g\n\x1b[31mshop", {("t", 0): CommittedOffset(0)})
    done = commitlog("groups", "--log-dir", tmp_path / "log", *shown, terminal=terminal)
    assert done.code == 0
    assert "g\\n\\x1b[31mshop" in done.stdout
    assert "[31mshop" not in done.stdout.replace("g\\n\\x1b[31mshop", "")


def test_a_log_without_groups_says_so(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
    done = commitlog("groups", "--log-dir", tmp_path / "log", "--describe", "--all-groups")
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr == f"commitlog: there are no groups in {tmp_path / 'log'}\n"
