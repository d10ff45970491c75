"""OffsetCommit and OffsetFetch of version 0, whose offsets are in the registry, and of version 1, in the log."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient

INVALID_GROUP_ID = 24


def commit(client: WireClient, version: int, group: str, topic: str, offset: int, **more: Any) -> int:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "", "commit_timestamp": -1}
    topics = [{"name": topic, "partitions": [{**partition, **more}]}]
    member = {"generation_id_or_member_epoch": -1, "member_id": ""}
    answer = client.ask(8, version, group_id=group, topics=topics, **member)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def fetch(client: WireClient, version: int, group: str, topic: str) -> tuple[int, int]:
    """The error code and the offset."""
    answer = client.ask(9, version, group_id=group, topics=[{"name": topic, "partition_indexes": (0,)}])
    found = answer.topics[0].partitions[0]
    assert found.metadata == ""
    return found.error_code, found.committed_offset


def test_version_0_keeps_offsets_in_the_registry_and_version_1_in_the_log(
    gateway: Gateway, client: WireClient, topic: str
) -> None:
    assert fetch(client, 0, "g", topic) == (3, -1)
    assert fetch(client, 1, "g", topic) == (0, -1)
    assert commit(client, 0, "g", topic, 5) == commit(client, 1, "g", topic, 7) == 0
    assert fetch(client, 0, "g", topic) == (0, 5)
    assert fetch(client, 1, "g", topic) == fetch(client, 5, "g", topic) == (0, 7)
    assert commit(client, 0, "g", topic, 3) == 0
    assert fetch(client, 0, "g", topic) == (0, 3)
    assert gateway.context.registry.get(f"/consumers/g/offsets/{topic}/0").data == b"3"


def test_what_a_zookeeper_consumer_committed_is_found(gateway: Gateway, client: WireClient, topic: str) -> None:
    gateway.context.registry.create(f"/consumers/old/offsets/{topic}/0", b"42")
    assert fetch(client, 0, "old", topic) == (0, 42)


def test_partitions_that_do_not_exist_and_long_texts_are_refused(client: WireClient, topic: str) -> None:
    for nowhere in ("nowhere", ""):
        assert commit(client, 0, "g", nowhere, 1) == fetch(client, 0, "g", nowhere)[0] == 3
    assert commit(client, 0, "g", topic, 1, committed_metadata="x" * 5000) == 12
    assert commit(client, 1, "g", topic, 1, committed_metadata="x" * 5000) == 12


@pytest.mark.parametrize("data", [b"not a number", b""])
def test_an_offset_that_is_none_is_an_error(gateway: Gateway, client: WireClient, topic: str, data: bytes) -> None:
    gateway.context.registry.create(f"/consumers/bad/offsets/{topic}/0", data)
    assert fetch(client, 0, "bad", topic) == (3 if data == b"" else -1, -1)


@pytest.mark.parametrize("group", ["", "..", "a\1"])
def test_a_group_that_no_registry_can_have_is_an_error(
    client: WireClient, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert commit(client, 0, group, topic, 1) == -1
    assert fetch(client, 0, group, topic) == (-1, -1)
    assert "a request failed" not in caplog.text  # the client is at fault, not the gateway


def test_a_group_cannot_reach_the_nodes_of_another_by_slashes_in_its_name(
    gateway: Gateway, client: WireClient, topic: str
) -> None:
    member = "other/ids/member"  # below it, the group other would have a member
    assert commit(client, 0, member, topic, 1) == INVALID_GROUP_ID
    assert fetch(client, 0, member, topic) == (INVALID_GROUP_ID, -1)
    assert gateway.context.registry.find("/consumers/other") is None
    assert commit(client, 1, member, topic, 1) == 0  # in the log, names are only names
