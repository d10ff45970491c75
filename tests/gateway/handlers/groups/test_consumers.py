"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over the wire, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode
from tests.support.gateway import WireClient, create_topic

VERSIONS = range(APIS[ApiKey.CONSUMER_GROUP_HEARTBEAT].highest + 1)


def joined(client: WireClient, group: str, topic: str, version: int = 1, member: str = "m", **fields: Any) -> Any:
    given = {"group_id": group, "member_id": member, "member_epoch": 0, "rebalance_timeout": 60_000, **fields}
    given.setdefault("subscribed_topic_names", [topic])
    return client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, topic_partitions=[], **given)


def described(client: WireClient, group: str, version: int = 1) -> Any:
    (found,) = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=[group]).groups
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_joins_and_is_described_in_every_version(
    client: WireClient, gateway: Gateway, topic: str, version: int
) -> None:
    answer = joined(client, topic, topic, version)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.none, "m", 2)
    (assigned,) = answer.assignment.topic_partitions
    found = gateway.context.topics.find(topic)
    assert found is not None
    assert (assigned.topic_id, assigned.partitions) == (found.id, (0, 1))
    group = described(client, topic, version)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        *(ErrorCode.none, "Stable", 2, 2),
        "uniform",
    )
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_id, member.client_host) == (
        *("m", 2, "test"),
        "/127.0.0.1",
    )
    assert member.subscribed_topic_names == (topic,)
    for each in (member.assignment, member.target_assignment):
        assert [(one.topic_id, one.topic_name, one.partitions) for one in each.topic_partitions] == [
            (found.id, topic, (0, 1))
        ]


def test_an_old_client_gets_an_id_and_a_newer_one_must_have_one(client: WireClient, topic: str) -> None:
    assert len(joined(client, topic, topic, 0, member="").member_id) == 22
    refused = joined(client, topic, topic, 1, member="")
    assert (refused.error_code, refused.error_message) == (ErrorCode.invalid_request, "MemberId can't be empty.")


def test_a_regular_expression_subscribes_to_topics_that_come_later(client: WireClient, topic: str) -> None:
    member = joined(client, topic, topic, subscribed_topic_names=None, subscribed_topic_regex=f"{topic}.*")
    create_topic(client, f"{topic}-2")
    fields = {"group_id": topic, "member_id": "m", "member_epoch": member.member_epoch, "topic_partitions": None}
    later = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields)
    assert (later.member_epoch, len(later.assignment.topic_partitions)) == (3, 2)


@pytest.mark.parametrize("group", ["a group that is not there", ""])
def test_what_is_no_consumer_group_is_not_described(client: WireClient, group: str) -> None:
    expected = ErrorCode.group_id_not_found if group else ErrorCode.invalid_group_id
    assert described(client, group).error_code is expected


def test_a_refused_member_is_logged_with_the_reason(
    client: WireClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = joined(client, topic, topic, subscribed_topic_names=None, subscribed_topic_regex="(")
    assert answer.error_code is ErrorCode.invalid_regular_expression
    (line,) = caplog.messages
    assert line == f"127.0.0.1: the client 'test' may not join the group {topic!r}: {answer.error_message}"
    assert "missing )" in line
