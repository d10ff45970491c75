"""``commitlog groups`` beside a running gateway: refused while a group has members, and seen by clients at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from pyspark_commitlog.cli import app
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import GroupsInUse, LogManager
from tests.support.gateway import serving

RESET = ["--reset-offsets", "--to-earliest", "--topic", "orders", "--execute"]
CHANGES = {
    "reset": RESET,
    "delete offsets": ["--delete-offsets", "--topic", "orders"],
    "delete": ["--delete"],
}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with serving(tmp_path / "log", group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1) as started:
        producer = Producer({"bootstrap.servers": started.bootstrap_servers})
        for value in (b"a", b"b", b"c"):
            producer.produce("orders", value)
        assert producer.flush(60) == 0
        yield started


def consumer(gateway: Gateway, **more: object) -> Consumer:
    group = {"group.id": "shop", "auto.offset.reset": "latest", "enable.auto.commit": False}
    made = Consumer({"bootstrap.servers": gateway.bootstrap_servers, **group, **more})
    made.subscribe(["orders"])
    return made


def consumed(reader: Consumer, count: int) -> list[bytes]:
    found: list = []
    while len(found) < count:
        found += reader.consume(count - len(found), 60)
    return [each.value() for each in found]


def run(gateway: Gateway, *flags: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["groups", "--log-dir", gateway.log_dir, "--group", "shop", *flags])
    return result.exit_code, result.output + str(result.exception or "")


@pytest.fixture
def left_at_the_end(gateway: Gateway) -> None:
    """The group has read all records, and its member has left."""
    reader = consumer(gateway, **{"auto.offset.reset": "earliest"})
    assert consumed(reader, 3) == [b"a", b"b", b"c"]
    reader.commit(asynchronous=False)
    reader.close()


@pytest.mark.parametrize("change", CHANGES)
def test_a_group_with_members_is_not_changed(gateway: Gateway, change: str) -> None:
    reader = consumer(gateway, **{"auto.offset.reset": "earliest"})
    assert consumed(reader, 3)
    reader.commit(asynchronous=False)
    code, said = run(gateway, *CHANGES[change])
    assert code == 1
    assert "group 'shop' has members at a gateway" in said
    assert reader.committed([TopicPartition("orders", 0)], 60)[0].offset == 3
    reader.close()
    assert run(gateway, *CHANGES[change])[0] == 0


@pytest.mark.usefixtures("left_at_the_end")
def test_offsets_that_were_reset_count_for_the_next_member(gateway: Gateway) -> None:
    assert run(gateway, *RESET)[0] == 0
    reader = consumer(gateway)
    assert consumed(reader, 3) == [b"a", b"b", b"c"]
    reader.close()


@pytest.mark.usefixtures("left_at_the_end")
def test_offsets_that_were_deleted_are_gone_for_clients(gateway: Gateway) -> None:
    assert run(gateway, *CHANGES["delete offsets"])[0] == 0
    reader = consumer(gateway)
    assert reader.committed([TopicPartition("orders", 0)], 60)[0].offset == -1001
    reader.close()


@pytest.mark.usefixtures("left_at_the_end")
def test_a_group_that_was_deleted_is_gone_for_clients(gateway: Gateway) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers})
    assert state_of(admin) == "EMPTY"
    assert run(gateway, "--delete")[0] == 0
    assert state_of(admin) == "DEAD"
    assert not admin.list_consumer_groups().result(60).valid
    with pytest.raises(Exception, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups(["shop"])["shop"].result(60)
    reader = consumer(gateway, **{"auto.offset.reset": "earliest"})
    assert consumed(reader, 3)
    reader.close()


def state_of(admin: AdminClient) -> str:
    return admin.describe_consumer_groups(["shop"])["shop"].result(60).state.name


@pytest.mark.usefixtures("left_at_the_end")
def test_a_member_that_comes_while_a_command_runs_joins_afterwards(gateway: Gateway) -> None:
    with LogManager.open(gateway.log_dir) as manager:
        command = GroupsInUse(manager)
        assert command.take("shop", wait_ms=5000)
        reader = consumer(gateway)
        assert reader.poll(1) is None
        assert not reader.assignment()
        command.close()
        while not reader.assignment():
            reader.poll(0.1)
        reader.close()
