"""Internal topics on the command line: every change is refused in one line with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import COORDINATOR_TOPICS, LogManager, Marks
from tests.cli.in_process import commitlog
from tests.support.logs.building import records
from tests.support.logs.directories import directory_with_internal_topics


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """A directory where each internal topic has a record."""
    path = directory_with_internal_topics(tmp_path / "log")
    with LogManager.open(path) as manager:
        for name in COORDINATOR_TOPICS:
            manager.open_log(name, 0).append_records(records([b"progress"], keys=[b"query"]))
    return path


def test_internal_topics_are_described_after_the_others(directory: str) -> None:
    with LogManager.open(directory) as manager:
        manager.create_topic("mine", partitions=1)
    done = commitlog("topics", "--log-dir", directory, "--describe", "--json")
    names = [json.loads(line)["topic"] for line in done.stdout.splitlines()]
    assert names == ["mine", *sorted(COORDINATOR_TOPICS)]


@pytest.mark.parametrize("topic", COORDINATOR_TOPICS)
@pytest.mark.parametrize("is_dry", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        ("configs", "--alter", "--add-config", "cleanup.policy=delete"),
        ("configs", "--alter", "--add-config", "retention.ms=1"),
        ("configs", "--alter", "--delete-config", "cleanup.policy"),
        ("topics", "--alter", "--partitions", "60"),
        ("topics", "--delete"),
    ],
    ids=" ".join,
)
def test_no_command_changes_an_internal_topic(
    command: tuple[str, ...], is_dry: bool, topic: str, directory: str
) -> None:
    dry = ["--dry-run"] if is_dry else []
    done = commitlog(command[0], "--log-dir", directory, *command[1:], "--topic", topic, *dry)
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"commitlog: topic '{topic}' is internal, and ")
    assert len(done.stderr.splitlines()) == 1
    with LogManager.open(directory) as manager:
        assert manager.topic(topic).configs == COORDINATOR_TOPICS[topic]


@pytest.mark.parametrize("topic", COORDINATOR_TOPICS)
def test_no_record_of_an_internal_topic_is_deleted(topic: str, directory: str, tmp_path: Path) -> None:
    asked = {"partitions": [{"topic": topic, "partition": 0, "offset": -1}], "version": 1}
    (tmp_path / "offsets.json").write_text(json.dumps(asked))
    for dry in ([], ["--dry-run"]):
        done = commitlog(
            "delete-records", "--log-dir", directory, "--offset-json-file", tmp_path / "offsets.json", *dry
        )
        assert done.code == 1
        assert f"{topic}-0\terror: PolicyViolationError: topic '{topic}' is internal" in done.stdout
    with LogManager.open(directory) as manager:
        assert manager.marks((topic, 0)) in (Marks(), Marks(1, 0))


@pytest.mark.parametrize("topic", COORDINATOR_TOPICS)
@pytest.mark.parametrize("place", [(), ("-p", "0")])
def test_nothing_is_produced_into_an_internal_topic(place: tuple[str, ...], topic: str, directory: str) -> None:
    done = commitlog("produce", "--log-dir", directory, "-t", topic, "-K", ":", *place, stdin=b"query:value\n")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"commitlog: topic '{topic}' is internal, and writing records into it is refused")
    assert f"use commitlog {'groups' if topic == '__consumer_offsets' else 'transactions'} --" in done.stderr
    with LogManager.open(directory) as manager:
        assert manager.open_reader(topic, 0).log_end_offset == 1


def test_a_broker_s_state_of_share_groups_is_internal_for_every_command(directory: str) -> None:
    with LogManager.open(directory) as manager:
        manager.create_topic("__share_group_state", partitions=1)
        manager.create_topic("orders", partitions=1)
    listed = commitlog("topics", "--log-dir", directory, "--list", "--json").stdout.splitlines()
    assert json.loads(next(each for each in listed if "__share_group_state" in each))["internal"]
    for command in (["topics", "--list", "--exclude-internal"], ["offsets", "--exclude-internal-topics"]):
        shown = commitlog(command[0], "--log-dir", directory, *command[1:]).stdout
        assert "orders" in shown
        assert "__" not in shown
