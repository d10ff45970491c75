"""``commitlog groups --migrate-offsets``: offsets between the registry and the log, both ways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.operations import put
from pyspark_commitlog.registry.port import Registry
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, TopicPartition
from tests.cli.in_process import commitlog
from tests.support.kafka.zookeeper import ZooKeeper

TO_LOG = ("--from", "zookeeper", "--to", "log")
TO_ZOOKEEPER = ("--from", "log", "--to", "zookeeper")


@pytest.fixture
def directory(tmp_path: Path) -> str:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("alpha", partitions=2)
    return str(tmp_path / "log")


@pytest.fixture
def registry(directory: str) -> Iterator[Registry]:
    with FileRegistry(directory) as opened:
        yield opened


def migrate(directory: str, *arguments: str) -> Any:
    return commitlog("groups", "--log-dir", directory, "--migrate-offsets", *arguments)


def in_log(directory: str, group: str) -> dict[tuple[str, int], int]:
    with LogManager.open(directory) as manager:
        return {(*key,): each.offset for key, each in GroupOffsets(manager).fetch(group).items()}


def commit(directory: str, group: str, offsets: dict[int, int]) -> None:
    with LogManager.open(directory) as manager:
        GroupOffsets(manager).commit(
            group, {TopicPartition("alpha", number): CommittedOffset(offset) for number, offset in offsets.items()}
        )


def register(registry: Registry, group: str, offsets: dict[int, int]) -> None:
    for number, offset in offsets.items():
        put(registry, kafka_nodes.offset_path(group, "alpha", number), b"%d" % offset)


def test_offsets_of_old_consumers_are_copied_to_the_log(directory: str, registry: Registry) -> None:
    register(registry, "g", {0: 5, 1: 7})
    register(registry, "other", {0: 1})
    done = migrate(directory, *TO_LOG, "--group", "g")
    assert "nothing was changed" in done.stderr
    assert in_log(directory, "g") == {}
    assert migrate(directory, *TO_LOG, "--group", "g", "--execute").code == 0
    assert in_log(directory, "g") == {("alpha", 0): 5, ("alpha", 1): 7}
    assert in_log(directory, "other") == {}
    migrate(directory, *TO_LOG, "--all-groups", "--execute")
    assert in_log(directory, "other") == {("alpha", 0): 1}


def test_offsets_in_the_log_are_copied_back_as_decimal_text(directory: str, registry: Registry) -> None:
    commit(directory, "g", {0: 5, 1: 0})
    done = migrate(directory, *TO_ZOOKEEPER, "--group", "g", "--execute", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["partition"], row["offset"], row["before"], row["copied"]) for row in rows] == [
        (0, 5, None, True),
        (1, 0, None, True),
    ]
    assert registry.get("/consumers/g/offsets/alpha/0").data == b"5"
    assert registry.get("/consumers/g/offsets/alpha/1").data == b"0"


def test_the_larger_of_two_offsets_counts(directory: str, registry: Registry) -> None:
    register(registry, "g", {0: 5, 1: 7})
    commit(directory, "g", {0: 6, 1: 6})
    done = migrate(directory, *TO_LOG, "--group", "g", "--execute")
    assert "alpha-0: offset 6 of group 'g' is kept, 5 is not beyond it" in done.stderr
    assert in_log(directory, "g") == {("alpha", 0): 6, ("alpha", 1): 7}
    migrate(directory, *TO_ZOOKEEPER, "--group", "g", "--execute")
    assert registry.get("/consumers/g/offsets/alpha/0").data == b"6"
    assert registry.get("/consumers/g/offsets/alpha/1")[:2] == (b"7", 0)


def test_a_group_with_consumers_is_refused(directory: str, registry: Registry) -> None:
    register(registry, "g", {0: 5})
    registry.create(kafka_nodes.consumer_path("g", "g_host-1"), b"{}", ephemeral=True)
    done = migrate(directory, *TO_LOG, "--group", "g", "--execute")
    assert done.code == 1
    assert "group 'g' has consumers, which would commit over the copy" in done.stderr
    assert in_log(directory, "g") == {}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [("0-1", b"494", "Kafka 0.7 counts bytes"), ("0", b"x", "is no offset"), ("0", None, "is no offset")],
)
def test_what_is_no_offset_is_refused(
    directory: str, registry: Registry, name: str, data: bytes | None, said: str
) -> None:
    put(registry, f"/consumers/g/offsets/alpha/{name}", data)
    done = migrate(directory, *TO_LOG, "--group", "g", "--execute")
    assert done.code == 1
    assert said in done.stderr


def test_a_partition_that_is_not_here_is_left_out(directory: str, registry: Registry) -> None:
    register(registry, "g", {0: 5, 9: 1})
    done = migrate(directory, *TO_LOG, "--group", "g", "--execute")
    assert "alpha-9 is not here; its offset of group 'g' is left out" in done.stderr
    assert in_log(directory, "g") == {("alpha", 0): 5}


def test_a_group_without_offsets_is_unknown(directory: str, registry: Registry) -> None:
    register(registry, "group", {0: 5})
    done = migrate(directory, *TO_LOG, "--group", "grup")
    assert done.code == 1
    assert "no offsets of group 'grup' in the registry" in done.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("--from", "log"), ("--from", "log", "--to", "log"), ("--from", "zk", "--to", "log"), TO_LOG]
)
def test_a_direction_and_groups_must_be_given(directory: str, arguments: tuple[str, ...]) -> None:
    assert migrate(directory, *arguments).code == 2


def test_offsets_are_copied_from_a_real_zookeeper(directory: str, tmp_path: Path) -> None:
    with ZooKeeper(tmp_path / "zookeeper") as server:
        connect = f"{server.connect}/kafka"
        with ZooKeeperRegistry(connect) as registry:
            register(registry, "g", {0: 5})
        done = migrate(directory, *TO_LOG, "--group", "g", "--execute", "--zookeeper-connect", connect)
    assert done.code == 0
    assert in_log(directory, "g") == {("alpha", 0): 5}
