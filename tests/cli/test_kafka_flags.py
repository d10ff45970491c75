"""Flags of Kafka's tools and of kcat that mean nothing on a log directory, or have another name here."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.cli import COMMANDS, _Commands
from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import commitlog

TAKE_TOPICS = [
    name for name, command in _Commands().items() if any("--topic" in parameter.opts for parameter in command.params)
]
NO_SERVER = "there is no server; name the log directory with --log-dir"


@pytest.fixture
def directory(tmp_path: Path) -> str:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
    return str(tmp_path / "log")


def test_every_command_with_topics_takes_each_spelling() -> None:
    assert {"topics", "configs", "offsets", "cat", "produce", "groups", "verify", "retain"} <= {*TAKE_TOPICS}
    for name in TAKE_TOPICS:
        (topic,) = [each for each in _Commands()[name].params if "--topic" in each.opts]
        assert {"--topic", "-t", "--topics"} <= {*topic.opts}, name


@pytest.mark.parametrize("spelling", ["--topic", "-t", "--topics"])
def test_a_topic_is_found_by_each_spelling(spelling: str, directory: str) -> None:
    done = commitlog("offsets", "--log-dir", directory, spelling, "orders")
    assert (done.code, done.stdout) == (0, "orders:0:0\n")


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (("produce", "-P"), ("cat", "-C", "-e")),
        (("-P",), ("-C", "-e")),
        (("produce",), ("cat", "-Ce")),
    ],
)
def test_kcats_modes_are_accepted(write: tuple[str, ...], read: tuple[str, ...], directory: str) -> None:
    at = ("--log-dir", directory, "-t", "orders")
    assert commitlog(*write, *at, stdin=b"tea\n").code == 0
    assert commitlog(*read, *at, "-q").stdout == "tea\n"
    assert commitlog(*at, *read, "-q").stdout == "tea\n" if read[0] == "-C" else True


WITHOUT_SERVER = ["", *(name for name, module in COMMANDS.items() if module != ".spark_jobs" and name != "tier")]


@pytest.mark.parametrize("name", WITHOUT_SERVER)  # tier publish asks a broker
def test_flags_about_brokers_are_answered_with_what_to_do(name: str) -> None:
    for flag in ("--bootstrap-server", "--bootstrap-servers", "-b"):
        done = commitlog(*filter(None, [name]), flag, "localhost:9092")
        assert (done.code, NO_SERVER in one_line(done.stderr)) == (2, True)
    if name != "topics":
        done = commitlog(*filter(None, [name]), "--replication-factor", "3")
        assert (done.code, "one copy of each partition; leave it out" in one_line(done.stderr)) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("cat", "-P"), "-P: use commitlog produce"),
        (("produce", "-C"), "-C: use commitlog cat"),
        (("cat", "-L"), "use commitlog topics --describe"),
        (("-L",), "use commitlog topics --describe"),
        (("cat", "-G", "g"), "use commitlog cat --group GROUP --offset stored"),
    ],
)
def test_another_mode_of_kcat_is_answered_with_the_command(arguments: tuple[str, ...], told: str) -> None:
    done = commitlog(*arguments)
    assert (done.code, told in one_line(done.stderr)) == (2, True)


def one_line(text: str) -> str:
    return " ".join(text.split())
