"""``commitlog configs``: compared with the output of kafka-configs for the same topics, and its changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli import kafka_said
from tests.cli.in_process import commitlog


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker's log directory with the configs of its topics, for reading only."""
    return kafka_said.directory(tmp_path_factory.mktemp("configs"), with_configs=True)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy of it that tests may change."""
    return kafka_said.directory(tmp_path, with_configs=True)


def blocks(lines: list[str]) -> dict[str, set[str]]:
    """Groups the lines by the topic's heading: Kafka's topics and configs are in no order."""
    found: dict[str, set[str]] = {}
    for line in lines:
        if not line.startswith("  "):
            heading = line
        found.setdefault(heading, set()).update([line] if line.startswith("  ") else [])
    return found


# --- beside Kafka's tool

DESCRIBED = [name for name in kafka_said.calls("configs", 0) if name.startswith("configs --describe")]


@pytest.mark.parametrize("name", DESCRIBED)
def test_topics_are_described_as_kafka_does(name: str, broker: Path) -> None:
    done = commitlog("configs", "--log-dir", broker, *kafka_said.SAID[name]["arguments"])
    assert (done.code, done.stderr) == (0, "")
    ours_alone = ("max.decompressed.bytes", "keyfilter.enable")
    lines = [line for line in done.stdout.splitlines() if not any(name in line for name in ours_alone)]
    kafka, ours = blocks(kafka_said.lines(name)), blocks(lines)
    internal = "Dynamic configs for topic __transaction_state are:"
    assert kafka.keys() == ours.keys()
    # A broker's own settings count for its internal topics: of those, what concerns a log is here.
    assert {key: value for key, value in kafka.items() if key != internal} == {
        key: value for key, value in ours.items() if key != internal
    }
    assert ours.get(internal, set()) <= kafka.get(internal, set())


def test_the_same_changes_leave_the_same_configs(directory: Path) -> None:
    names = [name for name in kafka_said.calls("configs", 0) if "--alter" in name]
    after = ["configs after add", "configs after delete"]
    assert len(names) == len(after)
    for change, then in zip(names, after, strict=True):
        done = commitlog("configs", "--log-dir", directory, *kafka_said.SAID[change]["arguments"])
        assert (done.code, done.stdout) == (0, kafka_said.SAID[change]["stdout"])
        shown = commitlog("configs", "--log-dir", directory, *kafka_said.SAID[then]["arguments"])
        assert blocks(shown.stdout.splitlines()) == blocks(kafka_said.lines(then))


@pytest.mark.parametrize("name", kafka_said.calls("configs", 1))
def test_changes_that_kafka_refuses_are_refused(name: str, directory: Path) -> None:
    before = kafka_said.contents(directory)
    done = commitlog("configs", "--log-dir", directory, *kafka_said.SAID[name]["arguments"])
    assert done.code in (1, 2)
    assert (done.stdout, bool(done.stderr)) == ("", True)
    assert {path: data for path, (_, data) in kafka_said.contents(directory).items()} == {
        path: data for path, (_, data) in before.items()
    }


# --- changes


def configs_of(directory: Path, topic: str) -> dict[str, str]:
    done = commitlog("configs", "--log-dir", directory, "--describe", "--topic", topic, "--json")
    return {row["config"]: row["value"] for row in map(json.loads, done.stdout.splitlines())}


def test_configs_from_a_file_can_be_set_and_reset_in_one_command(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "more.properties").write_text("# for tests\nflush.messages = 1\n\ncleanup.policy=compact,delete\n")
    alter = ("configs", "--log-dir", directory, "--alter", "--entity-name", "orders")
    done = commitlog(
        *alter,
        *("--add-config-file", tmp_path / "more.properties", "--delete-config", "retention.ms, segment.bytes"),
        *("--add-config", "flush.messages=2,segment.ms=9"),
    )
    assert done.code == 0, done.stderr
    assert configs_of(directory, "orders") == {
        "flush.messages": "2",
        "cleanup.policy": "compact,delete",
        "segment.ms": "9",
    }


def test_a_dry_run_prints_what_would_happen_and_changes_nothing(directory: Path) -> None:
    before = kafka_said.contents(directory)
    alter = ("configs", "--log-dir", directory, "--alter", "--topic", "orders", "--dry-run")
    done = commitlog(*alter, "--add-config", "segment.ms=9", "--delete-config", "retention.ms")
    assert done.stdout == "would leave topic orders with these configs: segment.bytes=16384, segment.ms=9\n"
    assert commitlog(*alter, "--add-config", "segment.ms=nine").code == 2
    assert kafka_said.contents(directory) == before


def test_a_config_without_effect_is_set_with_a_warning(directory: Path) -> None:
    alter = ("configs", "--log-dir", directory, "--alter", "--topic", "orders", "--add-config")
    done = commitlog(*alter, "min.insync.replicas=2", "--json")
    assert (done.code, done.stderr) == (0, "min.insync.replicas: has no effect here\n")
    assert json.loads(done.stdout)["configs"]["min.insync.replicas"] == "2"


def test_on_a_terminal_it_is_a_table_with_the_meaning_of_each(broker: Path) -> None:
    done = commitlog("configs", "--log-dir", broker, "--describe", "--topic", "orders", terminal=True)
    [row] = [line for line in done.stdout.splitlines() if "retention.ms" in line]
    assert re.match(r"\s*orders\s+retention\.ms\s+-1\s+604800000\s+Segments whose newest record", row)


# --- wrong use


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "--describe, --alter", id="nothing to do"),
        pytest.param(["--alter", "--topic", "orders"], "--delete-config", id="nothing to alter"),
        pytest.param(["--alter", "--add-config", "retention.ms=1"], "needs --topic", id="no topic"),
        pytest.param(["--describe", "--add-config", "retention.ms=1"], "with --alter only", id="a change to describe"),
        pytest.param(["--alter", "--topic", "orders", "--add-config", "retention"], "retention.ms=1000", id="no value"),
        pytest.param(
            ["--alter", "--entity-type", "brokers", "--entity-name", "1"], "clients change", id="change of a broker"
        ),
        pytest.param(["--describe", "--entity-type", "groups", "--topic", "orders"], "--entity-name", id="not a topic"),
        pytest.param(["--describe", "--entity-type", "users"], "has no configs here", id="of a user"),
        pytest.param(["--describe", "--entity-default"], "needs --entity-type brokers", id="a default of topics"),
        pytest.param(["--describe", "--broker-defaults", "--topic", "orders"], "no names here", id="a broker's name"),
        pytest.param(["--alter", "--broker-defaults"], "--delete-config", id="nothing to alter for all"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_right(arguments: list[str], said: str, broker: Path) -> None:
    done = commitlog("configs", "--log-dir", broker, *arguments)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--describe", "--topic", "order"], 1, "did you mean 'orders'?"),
        (["--alter", "--topic", "orders", "--add-config", "retention.msec=1"], 2, "did you mean 'retention.ms'?"),
        (["--alter", "--topic", "orders", "--add-config", "log.retention.ms=1"], 2, "for a topic it is retention.ms"),
        (["--alter", "--topic", "orders", "--add-config-file", "/nowhere"], 1, "/nowhere: no such file"),
    ],
)
def test_what_is_not_there_is_one_line_that_tells_what_is(
    arguments: list[str], code: int, said: str, broker: Path
) -> None:
    done = commitlog("configs", "--log-dir", broker, *arguments)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert said in done.stderr


def test_help_names_kafkas_flags() -> None:
    done = commitlog("configs", "--help")
    assert done.code == 0
    for flag in ("--entity-type", "--entity-name", "--add-config-file", "--delete-config", "--all"):
        assert flag in done.stdout
