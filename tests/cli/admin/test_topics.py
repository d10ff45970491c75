"""``commitlog topics``: compared with kafka-topics for the same directory, and its changes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from tests.cli import kafka_said
from tests.cli.in_process import commitlog
from tests.support.logs.building import NOW_MS, records


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker's log directory with the configs of its topics, for reading only."""
    return kafka_said.directory(tmp_path_factory.mktemp("topics"), with_configs=True)


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Topics orders, with two partitions and three records in the first, and other."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=2, configs={"retention.ms": "7"})
        manager.create_topic("other", partitions=1)
        manager.open_log("orders", 0).append_records(records([b"a", b"b", b"c"], timestamps=NOW_MS))
    return str(tmp_path / "log")


# --- beside Kafka's tool


def comparable(line: str) -> tuple[object, ...]:
    """Removes from a line of --describe what only a broker knows, and sorts the configs."""
    fields = [field.partition(": ")[::2] for field in line.strip().split("\t")]
    known = {"Topic", "TopicId", "PartitionCount", "ReplicationFactor", "Partition"}
    plain = tuple((name, value) for name, value in fields if name in known)
    configs = dict(fields).get("Configs", "").strip()
    return (*plain, frozenset(configs.split(",")))


@pytest.mark.parametrize("name", [name for name in kafka_said.calls("topics", 0) if name.startswith("topics --list")])
def test_the_same_topics_are_listed(name: str, broker: Path) -> None:
    done = commitlog("topics", "--log-dir", broker, *kafka_said.SAID[name]["arguments"])
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == kafka_said.lines(name)


@pytest.mark.parametrize(
    "name", [name for name in kafka_said.calls("topics", 0) if name.startswith("topics --describe")]
)
def test_topics_are_described_as_kafka_does(name: str, broker: Path) -> None:
    done = commitlog("topics", "--log-dir", broker, *kafka_said.SAID[name]["arguments"])
    assert (done.code, done.stderr) == (0, "")
    assert sorted(map(comparable, done.stdout.splitlines())) == sorted(map(comparable, kafka_said.lines(name)))


@pytest.mark.parametrize(
    "name",
    sorted({*kafka_said.calls("topics", 1)} - {"topics no action", "topics two actions"}),
)
def test_changes_that_kafka_refuses_are_refused(name: str, tmp_path: Path) -> None:
    log_dir = kafka_said.directory(tmp_path, with_configs=True)
    before = (log_dir / "topics.json").read_bytes()
    if name == "alter to as many":
        commitlog("topics", "--log-dir", log_dir, "--alter", "--topic", "orders", "--partitions", "5")
    if name == "delete again":
        commitlog("topics", "--log-dir", log_dir, "--delete", "--topic", "empty")
    if name not in ("alter to as many", "delete again"):
        assert (log_dir / "topics.json").read_bytes() == before
    assert kafka_said.SAID[name]["exit"] == 1
    done = commitlog("topics", "--log-dir", log_dir, *kafka_said.SAID[name]["arguments"])
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("commitlog: ")


def test_a_brokers_directory_after_the_same_changes_is_listed_the_same(tmp_path: Path) -> None:
    log_dir = kafka_said.directory(tmp_path, with_configs=True)
    for name in ("topics --alter --topic orders --partitions 5", "topics --delete --topic empty"):
        assert commitlog("topics", "--log-dir", log_dir, *kafka_said.SAID[name]["arguments"]).code == 0
    listed = commitlog("topics", "--log-dir", log_dir, "--list", "--exclude-internal")
    assert listed.stdout.splitlines() == kafka_said.lines("list after delete")
    described = commitlog("topics", "--log-dir", log_dir, "--describe", "--topic", "orders").stdout.splitlines()
    assert list(map(comparable, described)) == list(map(comparable, kafka_said.lines("describe after alter")))


def test_a_brokers_directory_without_topics_json_shows_no_configs(tmp_path: Path) -> None:
    log_dir = kafka_said.directory(tmp_path)
    before = kafka_said.contents(log_dir)
    [line, *_] = commitlog("topics", "--log-dir", log_dir, "--describe", "--topic", "orders").stdout.splitlines()
    assert comparable(line)[:-1] == comparable(kafka_said.lines("topics --describe --topic orders")[0])[:-1]
    assert line.endswith("Configs: ")
    assert kafka_said.contents(log_dir) == before


# --- changes


def test_creating_a_topic_creates_its_directory(tmp_path: Path) -> None:
    create = ("topics", "--log-dir", tmp_path / "new", "--create", "--topic", "clicks", "--replication-factor", "3")
    configs = ("--config", "cleanup.policy=compact,delete", "--config", "retention.ms=5")
    done = commitlog(*create, "--partitions", "2", *configs)
    assert (done.code, done.stdout) == (0, "Created topic clicks.\n")
    assert "one copy of each partition; for another copy, use commitlog snapshot or commitlog mirror" in done.stderr
    described = json.loads(commitlog("topics", "--log-dir", tmp_path / "new", "--describe", "--json").stdout)
    assert described["partitions"] == [0, 1]
    assert described["configs"] == {"cleanup.policy": "compact,delete", "retention.ms": "5"}
    assert commitlog(*create).code == 1
    assert commitlog(*create, "--if-not-exists").code == 0


def test_a_dry_run_changes_nothing(directory: str) -> None:
    before = kafka_said.contents(Path(directory))
    printed = [
        commitlog("topics", "--log-dir", directory, "--dry-run", *arguments).stdout
        for arguments in (
            ("--create", "--topic", "new"),
            ("--alter", "--topic", "orders", "--partitions", "9"),
            ("--delete", "--topic", "o.*"),
        )
    ]
    assert printed[0] == "would create topic new\n"
    assert printed[1] == "would enlarge topic orders to 9 partitions; it has 2\n"
    assert [line.partition(":")[0] for line in printed[2].splitlines()] == [
        "would delete topic orders",
        "would delete topic other",
    ]
    assert kafka_said.contents(Path(directory)) == before


def test_changes_are_json_too(directory: str) -> None:
    def row(*arguments: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(commitlog("topics", "--log-dir", directory, *arguments, "--json").stdout)
        return found

    for dry in ([], ["--dry-run"]):
        made = row("--create", "--topic", f"new{len(dry)}", "--partitions", "2", *dry)
        assert made == {"topic": f"new{len(dry)}", "partitions": 2, "created": not dry}
        assert row("--alter", "--topic", "new0", "--partitions", str(3 + len(dry)), *dry)["altered"] is not bool(dry)
    for more in ([], ["--dry-run"]):
        done = commitlog("topics", "--log-dir", directory, "--create", "--topic", "new0", *more)
        assert (done.code, done.stdout) == (1, "")
        assert "topic 'new0' exists" in done.stderr


@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_an_internal_topic_that_would_lose_its_records_is_refused(directory: str, dry: list[str]) -> None:
    asked = ("--create", "--topic", "__consumer_offsets", "--config", "cleanup.policy=delete")
    done = commitlog("topics", "--log-dir", directory, *asked, *dry)
    assert (done.code, done.stdout) == (1, "")
    assert "stays compacted" in done.stderr


def test_deleting_a_topic_prints_its_size(directory: str) -> None:
    done = commitlog("topics", "--log-dir", directory, "--delete", "--topic", "orders", "--json")
    printed = json.loads(done.stdout)
    assert (printed["topic"], printed["deleted"]) == ("orders", True)
    assert printed["bytes"] > 0
    assert commitlog("topics", "--log-dir", directory, "--list").stdout == "other\n"
    assert commitlog("topics", "--log-dir", directory, "--delete", "--topic", "orders", "--if-exists").code == 0


def test_if_exists_deletes_what_a_pattern_matches(directory: str) -> None:
    delete = ("topics", "--log-dir", directory, "--delete", "--if-exists", "--topic")
    assert commitlog(*delete, "nothing.*") == (0, "", "")
    assert commitlog(*delete, "ord.*").stdout.startswith("deleted topic orders: ")
    assert commitlog("topics", "--log-dir", directory, "--list", "--if-exists").stdout == "other\n"


def test_the_size_is_that_of_records_and_not_of_allocated_indexes(directory: str) -> None:
    files = list(Path(directory, "orders-0").iterdir())
    index = next(each for each in files if each.suffix == ".index")
    os.truncate(index, 10 << 20)  # as while a gateway has the log open
    size = sum(each.stat().st_size for each in files if each.suffix == ".log")
    done = commitlog("topics", "--log-dir", directory, "--delete", "--topic", "orders", "--dry-run")
    assert done.stdout == f"would delete topic orders: 2 partitions, {size} bytes\n"


def test_a_pattern_deletes_no_internal_topic(directory: str) -> None:
    with LogManager.open(directory) as manager:
        manager.create_topic("__consumer_offsets", partitions=1)
    commitlog("topics", "--log-dir", directory, "--delete", "--topic", ".*")
    assert commitlog("topics", "--log-dir", directory, "--list").stdout == "__consumer_offsets\n"
    assert commitlog("topics", "--log-dir", directory, "--delete", "--topic", "__consumer_offsets").code == 0
    assert commitlog("topics", "--log-dir", directory, "--list").stdout == ""


def test_on_a_terminal_it_is_a_table(directory: str) -> None:
    done = commitlog("topics", "--log-dir", directory, "--describe", terminal=True)
    assert any({"orders", "2", "retention.ms=7"} <= {*line.split()} for line in done.stdout.splitlines())
    listed = commitlog("topics", "--log-dir", directory, "--list", "--json").stdout.splitlines()
    assert [json.loads(line) for line in listed] == [
        {"topic": "orders", "internal": False},
        {"topic": "other", "internal": False},
    ]


# --- wrong use


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "--describe", id="nothing to do"),
        pytest.param(["--list", "--create"], "exactly one of --list", id="two things to do"),
        pytest.param(["--create"], "--create needs --topic", id="no topic to make"),
        pytest.param(["--delete"], "--delete needs --topic", id="no topic to delete"),
        pytest.param(["--alter", "--topic", "orders"], "commitlog configs", id="nothing to alter"),
        pytest.param(["--create", "--topic", "a", "--config", "x"], "retention.ms=86400000", id="a config without ="),
        pytest.param(
            ["--delete", "--topic", "orders", "--partitions", "1"], "with --create or --alter", id="a part to delete"
        ),
        pytest.param(
            ["--alter", "--topic", "orders", "--partitions", "9", "--config", "retention.ms=1"],
            "--config goes with --create only",
            id="a config to alter",
        ),
        pytest.param(["--list", "--topic", "o("], "regular expression", id="an invalid pattern"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_right(arguments: list[str], said: str, directory: str) -> None:
    done = commitlog("topics", "--log-dir", directory, *arguments)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr.replace("\n", " ")


def test_an_unknown_topic_is_answered_with_the_nearest_name(directory: str) -> None:
    done = commitlog("topics", "--log-dir", directory, "--describe", "--topic", "order")
    assert (done.code, done.stdout) == (1, "")
    assert "did you mean 'orders'?" in done.stderr


def test_help_names_kafkas_flags() -> None:
    done = commitlog("topics", "--help")
    assert done.code == 0
    for flag in ("--create", "--alter", "--delete", "--if-not-exists", "--exclude-internal", "--topics-with-overrides"):
        assert flag in done.stdout


# --- internal topics that a broker made


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_the_number_of_partitions_of_a_brokers_internal_topic_is_recorded(topic: str, tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic(topic, partitions=3)
        for number in (0, 2):
            manager.open_log(topic, number)
    (tmp_path / "topics.json").unlink()
    shutil.rmtree(tmp_path / f"{topic}-1")
    create = ("topics", "--log-dir", tmp_path, "--create", "--topic", topic)
    said = f"that topic {topic} has 8 partitions, 2 of them here"
    assert said in commitlog(*create, "--partitions", 8, "--dry-run").stdout
    assert not (tmp_path / "topics.json").exists()
    done = commitlog(*create, "--partitions", 2)
    assert (done.code, "cannot have 2 partitions: the directory has partition 2" in done.stderr) == (1, True)
    done = commitlog(*create)
    assert (done.code, "give the number of its partitions" in done.stderr.replace("\n", " ")) == (2, True)
    assert commitlog(*create, "--partitions", 8).stdout == f"Recorded {said}.\n"
    with LogManager.open(str(tmp_path)) as manager:
        assert manager.topic(topic).partitions == tuple(range(8))
    assert not (tmp_path / f"{topic}-1").exists()


# --- by id


def test_a_topic_is_described_by_its_id(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        for name in ("a", "b"):
            manager.create_topic(name, partitions=1)
        topic_id = manager.topic("b").topic_id
    describe = ("topics", "--log-dir", tmp_path, "--describe")
    assert commitlog(*describe, "--topic-id", topic_id).stdout == commitlog(*describe, "--topic", "b").stdout
    missing = commitlog(*describe, "--topic-id", "A" * 22)
    assert (missing.code, f"no topic has the id '{'A' * 22}'" in missing.stderr) == (1, True)
    assert commitlog(*describe, "--topic-id", "A" * 22, "--if-exists") == (0, "", "")
    done = commitlog(*describe, "--topic-id", topic_id, "--topic", "b")
    assert (done.code, "--topic-id needs --describe" in done.stderr) == (2, True)
