"""Names under which writers keep their progress: no request of a client creates, changes or deletes what has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import (
    SINK_PREFIX,
    CommittedOffset,
    GroupOffsets,
    LogManager,
    TopicPartition,
    topic_rules,
)
from tests.support.gateway import WireClient, produce_fields, serving
from tests.support.logs.building import batch

WRITER, TOPIC = "job", "orders"
RESERVED = f"{SINK_PREFIX}{TOPIC}"  # a topic that a client of an older version has created
PROGRESS = {TopicPartition(RESERVED, 0): CommittedOffset(3, "{}")}
Find = Callable[[Any], Any]  # what has the code, in an answer


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    with LogManager.open(log_at, create="://" not in log_at) as manager:
        manager.create_topic(TOPIC, partitions=1)
        with mock.patch.object(topic_rules, "is_reserved", return_value=False):
            manager.create_topic(RESERVED, partitions=1)
        GroupOffsets(manager).commit(WRITER, PROGRESS)
    with serving(log_at, group_initial_rebalance_delay_ms=0) as started, WireClient(started) as client:
        while client.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0].error_code:
            pass
        yield started


def configs(**fields: Any) -> Mapping[str, Any]:
    change = {"name": "retention.ms", "value": "1", "config_operation": 0}
    return {"resources": [{"resource_type": 2, "resource_name": RESERVED, "configs": [change]}], **fields}


def offsets(topic: str = RESERVED, **fields: Any) -> Mapping[str, Any]:
    partition = {"partition_index": 0, "committed_offset": 1000, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [partition]}]
    return {"group_id": WRITER, "generation_id_or_member_epoch": -1, "topics": topics, **fields}


PRODUCER = {"transactional_id": "t", "producer_id": 2**50, "producer_epoch": 0}
ADDED = {f"v3_and_below_{name}": value for name, value in PRODUCER.items()}
DELETED = {"topic_names": [RESERVED], "topics": [{"name": RESERVED, "topic_id": None}]}
FIRST: Find = lambda answer: answer.topics[0]  # noqa: E731
PARTITION: Find = lambda answer: answer.topics[0].partitions[0]  # noqa: E731
RESPONSE: Find = lambda answer: answer.responses[0]  # noqa: E731
REQUESTS: list[tuple[ApiKey, Mapping[str, Any], Find]] = [
    (ApiKey.CREATE_TOPICS, {"topics": [{"name": RESERVED, "num_partitions": 1, "replication_factor": 1}]}, FIRST),
    (ApiKey.METADATA, {"topics": [{"name": f"{SINK_PREFIX}new"}], "allow_auto_topic_creation": True}, FIRST),
    (ApiKey.DELETE_TOPICS, DELETED, RESPONSE),
    (
        ApiKey.DELETE_RECORDS,
        {"topics": [{"name": RESERVED, "partitions": [{"partition_index": 0, "offset": -1}]}]},
        PARTITION,
    ),
    (
        ApiKey.CREATE_PARTITIONS,
        {"topics": [{"name": RESERVED, "count": 2, "assignments": None}], "validate_only": False},
        lambda answer: answer.results[0],
    ),
    (ApiKey.ALTER_CONFIGS, configs(validate_only=False), RESPONSE),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, configs(validate_only=False), RESPONSE),
    (ApiKey.OFFSET_COMMIT, offsets(), PARTITION),
    (ApiKey.TXN_OFFSET_COMMIT, offsets(**PRODUCER), PARTITION),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        {**ADDED, "v3_and_below_topics": [{"name": RESERVED, "partitions": (0,)}]},
        lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0],
    ),
    (
        ApiKey.PRODUCE,
        produce_fields(RESERVED, batch(b"v").tobytes()),
        lambda answer: answer.responses[0].partition_responses[0],
    ),
]


@pytest.mark.parametrize(
    ("key", "version", "fields", "found"),
    [
        pytest.param(key, version, fields, found, id=f"{key.name} {version}")
        for key, fields, found in REQUESTS
        for version in range(APIS[key].lowest, APIS[key].highest + 1)
    ],
)
def test_no_request_changes_what_has_a_reserved_name(
    gateway: Gateway, client: WireClient, key: ApiKey, version: int, fields: Mapping[str, Any], found: Find
) -> None:
    answer = found(client.ask(key, version, **{"timeout": 1000, **fields}))
    code = answer.partition_error_code if key is ApiKey.ADD_PARTITIONS_TO_TXN else answer.error_code
    assert code is ErrorCode.invalid_topic_exception
    if message := getattr(answer, "error_message", None):
        assert f"topic name {RESERVED!r} is reserved" in message
    assert progress(gateway) == PROGRESS


def progress(gateway: Gateway) -> Mapping[TopicPartition, CommittedOffset]:
    with LogManager.open(gateway.context.log_dir) as manager:
        assert manager.topic(RESERVED).partitions == (0,)
        return GroupOffsets(manager).fetch(WRITER)


def test_a_topic_with_a_reserved_name_is_not_deleted_by_its_id(gateway: Gateway, client: WireClient) -> None:
    topic_id = client.ask(ApiKey.METADATA, 12, topics=[{"name": RESERVED}]).topics[0].topic_id
    answer = client.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": topic_id}], timeout=1000)
    assert answer.responses[0].error_code is ErrorCode.invalid_topic_exception
    assert progress(gateway) == PROGRESS


def test_the_other_topics_of_a_request_are_served(client: WireClient) -> None:
    fields = offsets()
    topics = [*fields["topics"], *offsets(TOPIC)["topics"]]
    answer = client.ask(ApiKey.OFFSET_COMMIT, 7, **{**fields, "group_id": "others", "topics": topics})
    codes = {each.name: each.partitions[0].error_code for each in answer.topics}
    assert codes == {TOPIC: ErrorCode.none, RESERVED: ErrorCode.invalid_topic_exception}


def test_deleting_a_topic_keeps_the_progress_of_its_writers(gateway: Gateway, client: WireClient) -> None:
    """Only the topic's own name stands for the offsets that go with it."""
    with LogManager.open(gateway.context.log_dir) as manager:
        manager.create_topic("short", partitions=1)
        GroupOffsets(manager).commit("w", {TopicPartition(f"{SINK_PREFIX}short", 0): CommittedOffset(1)})
    answer = client.ask(ApiKey.DELETE_TOPICS, 4, topic_names=["short"], timeout=1000)
    assert answer.responses[0].error_code is ErrorCode.none
    with LogManager.open(gateway.context.log_dir) as manager:
        assert [each.topic for each in GroupOffsets(manager).fetch("w")] == [f"{SINK_PREFIX}short"]
