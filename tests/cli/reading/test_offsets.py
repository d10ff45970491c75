"""``commitlog offsets``: compared with kafka-get-offsets for the same directory, line by line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli import kafka_said
from tests.cli.in_process import commitlog
from tests.cli.kafka_said import T
from tests.support.kafka import broker_dirs

# Where Kafka found the end of a transaction, which is no record: its line, and ours.
MARKERS = {
    "get-offsets --time 1700000000003": {"new.topic:0:1": None, "new.topic:1:1": None},
    "get-offsets --time -3 --exclude-internal-topics": {
        "new.topic:0:3": "new.topic:0:2",
        "new.topic:1:1": "new.topic:1:0",
    },
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker's log directory, for reading only."""
    return kafka_said.directory(tmp_path_factory.mktemp("offsets"))


@pytest.mark.parametrize("name", [name for name in kafka_said.calls("get-offsets", 0) if name.startswith("get-")])
def test_the_lines_are_those_kafkas_tool_prints(name: str, broker: Path) -> None:
    done = commitlog("offsets", "--log-dir", broker, *kafka_said.SAID[name]["arguments"])
    assert (done.code, done.stderr) == (0, "")
    markers = MARKERS.get(name, {})
    assert markers.keys() <= set(kafka_said.lines(name))
    expected = [markers.get(line, line) for line in kafka_said.lines(name)]
    assert done.stdout.splitlines() == [line for line in expected if line is not None]


@pytest.mark.parametrize("name", kafka_said.calls("get-offsets", 1))
def test_flags_that_kafka_refuses_are_refused(name: str, broker: Path) -> None:
    done = commitlog("offsets", "--log-dir", broker, *kafka_said.SAID[name]["arguments"])
    assert done.code in (1, 2)
    assert done.stdout == ""
    assert done.stderr


def test_reading_changes_nothing(broker: Path) -> None:
    before = kafka_said.contents(broker)
    for time in ("-1", "-2", "-3", str(T)):
        commitlog("offsets", "--log-dir", broker, "--time", time)
    assert kafka_said.contents(broker) == before


def test_a_damaged_partition_does_not_hide_the_others() -> None:
    log_dir = broker_dirs.stage("recovery-damage/damaged") / "log"
    done = commitlog("offsets", "--log-dir", log_dir, "--topic", "d-(ok|torn)")
    assert done.code == 3
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["d-ok"]
    assert "d-torn-0/00000000000000000174.log, position 2765" in done.stderr


def test_a_time_may_be_iso_8601(broker: Path) -> None:
    text = datetime.fromtimestamp(T / 1000 + 5, UTC).isoformat()
    asked = [("offsets", "--log-dir", broker, "--topic", "orders", "--time", time) for time in (T + 5000, text)]
    assert commitlog(*asked[0]).stdout == commitlog(*asked[1]).stdout == "orders:0:5\norders:1:0\n"


def test_json_has_the_time_of_the_record_that_was_found(broker: Path) -> None:
    done = commitlog("offsets", "--log-dir", broker, "--topic", "orders", "--time", T + 5000, "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"topic": "orders", "partition": 0, "offset": 5, "timestamp": T + 5000},
        {"topic": "orders", "partition": 1, "offset": 0, "timestamp": T + 50_000},
    ]


def test_on_a_terminal_it_is_a_table_with_times_only_of_records(broker: Path) -> None:
    asked = ("offsets", "--log-dir", broker, "--topic", "orders")
    rows = [line.split() for line in commitlog(*asked, terminal=True).stdout.splitlines()]
    assert ["orders", "0", "10"] in rows
    rows = [line.split() for line in commitlog(*asked, "--time", T + 5000, terminal=True).stdout.splitlines()]
    assert ["orders", "0", "5", str(T + 5000)] in rows


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--time", "soon"], "max-timestamp", id="no time"),
        pytest.param(["--time", "soon"], "neither ISO 8601, such as 2026-11-21T06:00, nor milliseconds", id="no form"),
        pytest.param(["--partitions", "x"], "of the form 0,2", id="no number"),
        pytest.param(["--topic-partitions", "orders:x"], "orders:0-2", id="no rule"),
        pytest.param(["--topic", "orders", "--topic-partitions", "orders"], "cannot be used with", id="both"),
        pytest.param(["--topic", "order("], "regular expression", id="no pattern"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_right(arguments: list[str], said: str, broker: Path) -> None:
    done = commitlog("offsets", "--log-dir", broker, *arguments)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr.replace("\n", " ")


def test_what_is_not_there_is_one_line_that_tells_what_is(broker: Path) -> None:
    assert "did you mean 'orders'?" in commitlog("offsets", "--log-dir", broker, "--topic", "order").stderr
    done = commitlog("offsets", "--log-dir", broker, "--topic", "orders", "--partitions", "7")
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "commitlog topics --describe" in done.stderr


def test_help_names_kafkas_flags() -> None:
    done = commitlog("offsets", "--help")
    assert done.code == 0
    for flag in ("--topic-partitions", "--partitions", "--time", "--exclude-internal-topics", "max-timestamp"):
        assert flag in done.stdout
