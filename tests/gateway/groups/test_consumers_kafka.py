"""The same requests of members of Kafka 4's groups to the gateway and to Kafka 4.3.1: the same answers, but for ids."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_commitlog.protocol.apis import ApiKey
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.kafka.broker import Broker
from tests.support.kafka.kafka_jvm import KAFKA_4

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

JOINING = {"member_epoch": 0, "rebalance_timeout": 60_000, "topic_partitions": []}


class Side:
    """One of the two, with what it was asked and has answered."""

    def __init__(self, where: Any) -> None:
        self.client = WireClient(where)
        self.answers: list[tuple[str, Any]] = []

    def beat(self, member: str, epoch: int, what: str = "", group: str = "g", **fields: Any) -> None:
        given = {"group_id": group, "member_id": member, "member_epoch": epoch, "topic_partitions": None, **fields}
        answer = self.client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **given)
        topics = None if answer.assignment is None else answer.assignment.topic_partitions
        parts = None if topics is None else sorted(each.partitions for each in topics)
        found = answer.error_code.name, answer.error_message, answer.member_epoch, parts
        self.answers.append((f"{member} {epoch} {what or sorted(fields)}", found))

    def join(self, member: str, *topics: str, **fields: Any) -> None:
        self.beat(member, 0, f"joins {topics}", **{**JOINING, "subscribed_topic_names": topics, **fields})

    def metadata(self) -> Any:
        return self.client.ask(ApiKey.METADATA, 12, topics=None)

    def ask(self, key: ApiKey, version: int, read: Any, **fields: Any) -> None:
        self.answers.append((key.name, read(self.client.ask(key, version, **fields))))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    home = tmp_path_factory.mktemp("kafka")
    with Broker(home, KAFKA_4) as broker, serving(home / "ours") as gateway:
        broker.start(props={"group.consumer.assignment.interval.ms": "0"})  # as we: a new assignment at once
        places = [gateway, SimpleNamespace(address=("127.0.0.1", broker.port))]
        for each in places:
            with WireClient(each) as client:
                create_topic(client, "t", 4)
                create_topic(client, "u", 2)
                while (
                    client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
                    .coordinators[0]
                    .error_code
                ):
                    pass
                while client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, group_ids=["g"]).groups[0].error_code.name in (
                    "coordinator_load_in_progress",
                    "not_coordinator",
                    "coordinator_not_available",
                ):
                    pass
        yield [Side(each) for each in places]


def compared(sides: list[Side], steps: Any) -> None:
    for side in sides:
        side.answers.clear()
        steps(side)
    ours, theirs = (side.answers for side in sides)
    different = [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b]
    shown = "\n".join(f"{ours}\n{theirs}" for ours, theirs in different)
    assert not different, shown


def test_requests_that_say_too_little_or_wrong_things(sides: list[Side]) -> None:
    def steps(side: Side) -> None:
        side.join("", "t", group="r")
        side.join("x", "t", group="")
        side.join("x", "t", group=" \0\t")
        side.join("x", "t", group="\u2003")
        side.beat("x", -1, group="\u2003")
        side.join("x", "t", group="r", instance_id="")
        side.join("x", "t", group="r", rack_id="")
        side.beat("x", -3, group="r")
        side.beat("x", -2, group="r")
        for missing in ("rebalance_timeout", "topic_partitions", "subscribed_topic_names"):
            given = {**JOINING, "subscribed_topic_names": ["t"]}
            side.beat("x", 0, f"without {missing}", group="r", **{n: v for n, v in given.items() if n != missing})
        side.join("x", "t", group="r", server_assignor="other")

    compared(sides, steps)


def test_members_that_are_unknown_or_have_another_epoch(sides: list[Side]) -> None:
    def steps(side: Side) -> None:
        side.join("a", "t", group="e")
        side.beat("b", 1, group="e")
        side.beat("b", -1, group="e")
        side.beat("a", 1, group="e")
        side.beat("a", 1, group="e", topic_partitions=[])
        side.beat("a", 7, group="e")
        side.beat("a", 2, group="e")
        side.beat("a", 2, "everything", group="e", **{**JOINING, "member_epoch": 2, "subscribed_topic_names": ["t"]})
        side.beat("a", -1, group="e")
        side.beat("a", 2, group="e")

    compared(sides, steps)


def test_static_members(sides: list[Side]) -> None:
    def steps(side: Side) -> None:
        side.join("a", "t", group="s", instance_id="i")
        side.join("b", "t", group="s", instance_id="i")
        side.beat("b", 2, group="s", instance_id="i")
        side.beat("b", 2, group="s", instance_id="j")
        side.beat("b", -1, group="s", instance_id="i")
        side.beat("a", -2, group="s", instance_id="i")
        side.join("b", "t", group="s", instance_id="i")
        side.beat("a", 2, group="s", instance_id="i")
        side.beat("b", 2, group="s", instance_id="i")

    compared(sides, steps)


def test_groups_are_described_and_listed(sides: list[Side]) -> None:
    def group(answer: Any) -> Any:
        (one,) = answer.groups
        shown = [
            (m.member_id, m.member_epoch, m.client_host, m.subscribed_topic_names, m.subscribed_topic_regex)
            for m in one.members
        ]
        facts = one.group_state, one.group_epoch, one.assignment_epoch, one.assignor_name, one.error_message
        return one.error_code.name, facts, shown

    def steps(side: Side) -> None:
        side.join("a", "t", group="d")
        for name in ("d", "nothing", ""):
            side.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, group, group_ids=[name])
        side.ask(ApiKey.DESCRIBE_GROUPS, 5, lambda answer: answer.groups[0].group_state, groups=["d"])
        listed = lambda answer: [each for each in answer.groups if each.group_id == "d"]  # noqa: E731
        side.ask(ApiKey.LIST_GROUPS, 5, listed, states_filter=["stable"], types_filter=["consumer"])
        side.ask(ApiKey.DELETE_GROUPS, 2, lambda answer: answer.results[0].error_code.name, groups_names=["d"])
        side.beat("a", -1, group="d")
        side.ask(ApiKey.DELETE_GROUPS, 2, lambda answer: answer.results[0].error_code.name, groups_names=["d"])

    compared(sides, steps)


def test_offsets_are_committed_and_fetched_with_epochs(sides: list[Side]) -> None:
    def committed(answer: Any) -> str:
        name: str = answer.topics[0].partitions[0].error_code.name
        return name

    def steps(side: Side) -> None:
        side.join("a", "t", group="o")
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
        for version, member, epoch in ((9, "a", 2), (9, "a", 1), (9, "a", 3), (9, "x", 2), (8, "a", 2), (9, "", -1)):
            given = {"group_id": "o", "member_id": member, "generation_id_or_member_epoch": epoch, "topics": topics}
            side.ask(ApiKey.OFFSET_COMMIT, version, committed, **given)
        for member, epoch in (("a", 2), ("a", 1), ("x", 2), (None, -1)):
            asked = {"group_id": "o", "member_id": member, "member_epoch": epoch, "topics": None}
            side.ask(ApiKey.OFFSET_FETCH, 9, lambda answer: answer.groups[0].error_code.name, groups=[asked])

    compared(sides, steps)


def test_partitions_move_from_member_to_member(sides: list[Side]) -> None:
    def steps(side: Side) -> None:
        ids = {each.name: each.topic_id for each in side.metadata().topics}
        side.join("a", "t", group="m")
        side.join("b", "t", "u", group="m")
        side.beat("b", 3, group="m")
        side.beat("a", 2, group="m")
        side.beat("a", 2, "owns all", group="m", topic_partitions=[{"topic_id": ids["t"], "partitions": [0, 1, 2, 3]}])
        side.beat("b", 3, group="m")
        side.beat("a", 2, "gives up", group="m", topic_partitions=[{"topic_id": ids["t"], "partitions": [0, 1, 2]}])
        side.beat("b", 3, group="m")
        side.beat("b", 3, "owns", group="m", topic_partitions=[])
        side.join("c", group="m")
        side.beat("b", 3, "subscribes", group="m", subscribed_topic_names=["u"])
        side.beat("b", 4, group="m")
        side.beat("b", 5, group="m")
        side.beat("b", -1, group="m")
        side.beat("a", 3, group="m")

    compared(sides, steps)


def test_settings_of_a_group(sides: list[Side]) -> None:
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

    def steps(side: Side) -> None:
        def change(name: str, setting: str, value: str | None, operation: int = 0) -> None:
            config = {"name": setting, "value": value, "config_operation": operation}
            asked = [{"resource_type": 32, "resource_name": name, "configs": [config]}]
            read = lambda answer: (setting, value, answer.responses[0].error_code.name)  # noqa: E731
            side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, read, resources=asked, validate_only=False)

        def show(name: str, setting: str, value: str | None = None) -> None:
            asked = {"resource_type": 32, "resource_name": name, "configuration_keys": (setting,)}

            def read(answer: Any) -> Any:
                facts = [
                    (each.value, each.config_source, each.read_only, each.config_type, each.synonyms)
                    for each in answer.results[0].configs
                ]
                return setting, answer.results[0].error_code.name, facts

            fields = {"resources": [asked], "include_synonyms": True}
            while value is not None and read(side.client.ask(32, 4, **fields))[2][0][0] != value:
                pass  # a broker applies a change after its answer
            side.ask(ApiKey.DESCRIBE_CONFIGS, 4, read, **fields)

        show("k", session)
        show("", session)
        for value in ("44999", "60001", "x", "50000"):
            change("k", session, value)
        show("k", session, "50000")
        for value in ("4999", "15001", "7000"):
            change("k", heartbeat, value)
        show("k", heartbeat, "7000")
        change("k", "nothing", "1")
        change("", session, "50000")
        change("k", session, None, 1)
        show("k", session, "45000")

    compared(sides, steps)


def test_an_invalid_regular_expression(sides: list[Side]) -> None:
    def steps(side: Side) -> None:
        for regex in ("(", "a{1001}", "(?=a)", "a)|(b"):
            given = {**JOINING, "group_id": "x", "member_id": "a", "subscribed_topic_regex": regex}
            side.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, lambda answer: answer.error_code.name, **given)

    compared(sides, steps)


def test_a_fenced_member_joins_again(sides: list[Side]) -> None:
    def steps(side: Side) -> None:
        side.join("a", "t", group="f")
        side.beat("a", 7, group="f")
        side.join("a", "t", group="f")

    compared(sides, steps)
