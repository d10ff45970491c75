"""Groups that change their protocol while they have members: each answer beside Kafka 4.3.1's, and what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.storage import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecordKey,
    decode_record,
    decode_whole_assignment,
)
from pyspark_commitlog.storage.groups.coordinated import CoordinatedGroups
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.kafka.broker import Broker
from tests.support.kafka.broker_dirs import open_manager
from tests.support.kafka.kafka_jvm import KAFKA_4
from tests.support.kafka.members import ClassicClient, MixedSide, compared, subscription

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

POLICY = "group.consumer.migration.policy"
A, B = {"t": [0, 1, 2]}, {"t": [3]}  # so that it is a who gives up one for a third member


def await_coordinator(client: WireClient) -> None:
    for key, fields in (
        (ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": ["g"]}),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["g"]}),
    ):
        while True:
            answer = client.ask(key, 4 if "key_type" in fields else 1, **fields)
            (one,) = answer.coordinators if "key_type" in fields else answer.groups
            if one.error_code.name in ("none", "group_id_not_found"):
                break


class Pair:
    """A gateway and a broker of Kafka 4.3.1 with the same topics."""

    def __init__(self, home: Path, policy: str) -> None:
        self.home = home
        self.broker = Broker(home, KAFKA_4)
        self.broker.start(
            props={
                "group.consumer.assignment.interval.ms": "0",  # as we: a new assignment at once
                "group.initial.rebalance.delay.ms": "0",
                POLICY: policy,
            }
        )
        self._settings: dict[str, Any] = {
            "group_consumer_migration_policy": policy,
            "group_initial_rebalance_delay_ms": 0,
        }
        self._serving = serving(home / "ours", **self._settings)
        gateway: Gateway = self._serving.__enter__()
        places: list[Any] = [gateway, SimpleNamespace(address=("127.0.0.1", self.broker.port))]
        for each in places:
            with WireClient(each) as client:
                create_topic(client, "t", 4)
                create_topic(client, "u", 2)
                await_coordinator(client)
        self.sides = [MixedSide(each) for each in places]

    def stored(self, group: str) -> list[Any]:
        """What both logs have of a group, without what must differ."""
        ours, theirs = self.sides
        copied = self.broker.copy_log_dir(self.home / f"copied-{group}")
        return [_records(self.home / "ours", group, ours), _records(copied, group, theirs)]

    def close(self) -> None:
        self._serving.__exit__(None, None, None)
        self.broker.stop()


def _records(directory: Path, group: str, side: MixedSide) -> dict[Any, Any]:
    with open_manager(directory) as manager:
        records = CoordinatedGroups(manager).records(group)
    found: dict[Any, Any] = {}
    for key, value in records.items():
        if isinstance(key, GroupRecordKey) and isinstance(value, bytes):
            found[(int(key.kind), _plain(key.name, side.ids))] = _plain(decode_record(key.kind, value), side.ids)
        elif isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue):
            members = sorted(
                (
                    *(side.ids[each.member_id], each.client_id, each.client_host, each.session_timeout),
                    *(each.rebalance_timeout, each.group_instance_id, each.subscription),
                    *(sorted((t.topic, sorted(t.partition_ids)) for t in parts.assigned_partitions),),
                )
                for each in value.members
                for parts in [decode_whole_assignment(each.assignment)]
            )
            found["classic"] = value.protocol_type, value.generation, value.protocol, members
    return found


_OWN = ("assignmentTimestamp", "metadataHash", "timestamp", "version")


def _plain(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each, ids) for name, each in value.items() if name not in _OWN}
    if isinstance(value, (list, tuple)):
        return sorted((_plain(each, ids) for each in value), key=repr)
    return ids.get(value, value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("kafka"), "bidirectional")
    yield pair
    pair.close()


def classic_group(side: MixedSide, one: str = "a", other: str = "b") -> None:
    """Two members of a stable classic group, with three partitions and one."""
    side.join(one)
    side.sync(one, gives={one: {"t": [0, 1, 2, 3]}})
    first, second = side.member(one), side.member(other)
    second.send_join(subscription(["t"]))
    await_rebalance(first)
    first.send_join(subscription(["t"], A))
    for each in (first, second):
        each.joined()
    side.sync(one, other, gives={one: A, other: B})


def await_rebalance(member: ClassicClient) -> None:
    while member.heartbeat() != "rebalance_in_progress":
        pass


def upgraded(side: MixedSide) -> None:
    """After it, c has joined on the new protocol, and waits for what a or b gives up."""
    classic_group(side)
    side.enter("c", "t")
    side.describe()


def settled(side: MixedSide) -> None:
    """After it, all three have what they are to have."""
    upgraded(side)
    side.ping("a", "b")
    side.join("a", owned={"a": A})
    side.sync("a")
    side.ping("a")
    side.join("b", owned={"b": B})
    side.sync("b")
    side.ping("b")
    side.describe()
    side.beat("c", 3)
    side.join("a", owned={"a": {"t": [0, 1]}})
    side.sync("a")
    side.beat("c", 3)
    side.ping("a", "b")
    side.describe()


def test_a_classic_group_goes_on_when_the_first_member_joins_on_the_new_protocol(pair: Pair) -> None:
    compared(pair.sides, "up", settled)
    ours, theirs = pair.stored("up")
    assert ours == theirs


def test_a_rebalance_that_waits_ends_when_the_group_is_upgraded(pair: Pair) -> None:
    def steps(side: MixedSide) -> None:
        classic_group(side)
        third = side.member("d")
        third.send_join(subscription(["t"]))
        await_rebalance(side.member("a"))
        side.enter("c", "u")
        side.note("d", third.joined().error_code.name)
        side.join("d")
        side.sync("d")
        side.ping("a", "b", "d")
        side.describe()

    compared(pair.sides, "waits", steps)


def test_a_member_that_has_joined_but_not_synced_joins_again_after_the_upgrade(pair: Pair) -> None:
    def steps(side: MixedSide) -> None:
        side.join("a")
        side.enter("c", "u")
        side.sync("a", gives={"a": A})
        side.ping("a")
        side.join("a")
        side.sync("a")
        side.describe()

    compared(pair.sides, "unsynced", steps)


def test_the_group_is_classic_again_when_the_last_member_on_the_new_protocol_leaves(pair: Pair) -> None:
    def steps(side: MixedSide) -> None:
        settled(side)
        side.beat("c", -1)
        side.ping("a", "b")
        side.describe()

    compared(pair.sides, "down", steps)
    ours, theirs = pair.stored("down")
    assert ours == theirs
    for side in pair.sides:
        for name in ("a", "b"):
            side.classic[name].send_join(subscription(["t"]))
        generations = [side.classic[name].joined().generation_id for name in ("a", "b")]
        side.sync("a", "b", gives={"a": A, "b": B})
        side.ping("a", "b")
        side.describe()
        side.note("generations", generations)
    # Either may arrive first and lead; the leader syncs first.
    ours, theirs = (sorted(side.answers[-8:], key=repr) for side in pair.sides)
    assert ours == theirs


def test_static_members_change_their_protocol_and_keep_their_partitions(pair: Pair) -> None:
    def steps(side: MixedSide) -> None:
        classic_group(side, "i@1", "j@1")
        side.enter("i2", "t", instance_id="i")
        side.ping("j@1")
        side.ping("i@1")
        side.describe()
        side.join("j@1", owned={"j@1": B})
        side.sync("j@1")
        side.enter("x", "t", instance_id="i")
        side.join("i@3")
        side.describe()
        side.sync("i@3")
        side.ping("i@3", "j@1")

    compared(pair.sides, "static", steps)
    ours, theirs = pair.stored("static")
    assert ours == theirs


def test_a_static_member_that_reads_other_topics_ends_the_upgrade_with_a_rebalance(pair: Pair) -> None:
    def steps(side: MixedSide) -> None:
        classic_group(side, "i@1", "j@1")
        side.enter("i2", "t", instance_id="i")
        side.join("j@1", owned={"j@1": B})
        side.sync("j@1")
        side.join("i@3", topics=["t", "u"])
        side.sync("i@3")
        side.ping("i@3", "j@1")
        side.describe()

    compared(pair.sides, "stale", steps)


def test_requests_that_do_not_fit(pair: Pair) -> None:
    def steps(side: MixedSide) -> None:
        upgraded(side)
        good = subscription(["t"])
        side.try_join("x", "has another type", good, protocol_type="connect")
        side.try_join("x", "has no protocol", good, ())
        side.try_join("x", "has another protocol", good, ("sticky",))
        side.try_join("x", "has a short session", good, session_timeout=1)
        side.try_join("x", "has a bad subscription", b"\0", member_id="x")
        side.try_join("x", "has a short subscription", good[:-1], member_id="x")
        side.try_join("x", "needs an id", good)
        side.try_join("x", "is static, with an id", good, group_instance_id="k", member_id="x")
        side.ping("a", generation_id=0)
        side.ping("a", group_instance_id="k")
        side.ping("a", member_id="nobody")
        side.ping("a", member_id="c", generation_id=3)
        side.sync("a", generation_id=0)
        side.sync("a", protocol_type="connect")
        side.sync("a", protocol_name="sticky")
        side.sync("a", member_id="c", generation_id=3)
        side.sync("a", member_id="nobody")
        side.beat("b", 2)
        side.beat("a", 0)
        side.leave(("nobody", None), ("", "k"), ("", None))
        side.describe()

    compared(pair.sides, "wrong", steps)


def test_members_of_both_protocols_leave_in_one_request(pair: Pair) -> None:
    def steps(side: MixedSide) -> None:
        settled(side)
        side.leave(("b", None))
        side.describe()
        side.beat("c", 3)
        side.ping("a")
        side.leave(("a", None), ("c", None), ("nobody", None))
        side.describe()
        side.join("e")
        side.describe()

    compared(pair.sides, "leaving", steps)


def test_offsets_are_committed_with_the_generation_of_a_classic_member(pair: Pair) -> None:
    def steps(side: MixedSide) -> None:
        settled(side)
        for generation in (2, 3, 4, -1):
            for version in (8, 9):
                side.commit("a", generation, version)
        side.commit("a", 2, partition=3)
        side.commit("c", 3)
        side.commit("nobody", 3)
        side.commit("", -1)

    compared(pair.sides, "offsets", steps)


def test_a_consumer_that_was_classic_under_the_same_id(pair: Pair) -> None:
    def steps(side: MixedSide) -> None:
        settled(side)
        side.try_join("c", "joins classic", subscription(["t"]), member_id="c")
        side.describe()
        side.ping("a", "b")

    compared(pair.sides, "same", steps)


def test_nothing_changes_its_protocol_if_migration_is_disabled(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "disabled")

    def steps(side: MixedSide) -> None:
        classic_group(side)
        side.enter("c", "t")
        side.ping("a", "b")
        side.describe()
        side.leave(("a", None), ("b", None))
        side.enter("c", "t")
        side.try_join("x", "joins", subscription(["t"]))
        side.describe()

    try:
        compared(pair.sides, "off", steps)
    finally:
        pair.close()
