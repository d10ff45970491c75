"""Metadata, and the requests that change topics and configs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager, TopicDescription, delete_topic
from tests.support.gateway import WireClient, produce_fields, serving
from tests.support.logs.building import batch


def create(client: WireClient, name: str, version: int = 7, *, validate_only: bool = False, **more: Any) -> Any:
    asked = {"name": name, "num_partitions": 1, "replication_factor": 1, **more}
    return client.ask(19, version, topics=[asked], timeout=1000, validate_only=validate_only).topics[0]


def described(client: WireClient, name: str, version: int = 8, **more: Any) -> Any:
    return client.ask(3, version, topics=[{"name": name}], allow_auto_topic_creation=False, **more).topics[0]


# --- Metadata


@pytest.mark.parametrize("version", range(13))
def test_metadata_has_the_one_node_and_the_topics(
    gateway: Gateway, client: WireClient, topic: str, version: int
) -> None:
    answer = client.ask(3, version, topics=[{"name": topic}])
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, *gateway.address)
    (found,) = answer.topics
    assert (found.error_code, found.name) == (0, topic)
    assert [(each.partition_index, each.leader_id) for each in found.partitions] == [(0, 1), (1, 1)]
    if version >= 10:
        assert found.topic_id == create(client, topic + "-2").topic_id or isinstance(found.topic_id, UUID)


def test_null_asks_for_all_topics_and_an_empty_list_for_none(client: WireClient, topic: str) -> None:
    assert topic in {each.name for each in client.ask(3, 8, topics=None).topics}
    assert client.ask(3, 8, topics=()).topics == ()
    assert topic in {each.name for each in client.ask(3, 0, topics=()).topics}


def test_a_topic_is_found_by_its_id(client: WireClient, topic: str) -> None:
    found = client.ask(3, 12, topics=[{"name": topic}]).topics[0].topic_id
    assert client.ask(3, 12, topics=[{"name": None, "topic_id": found}]).topics[0].name == topic
    assert client.ask(3, 12, topics=[{"name": None, "topic_id": uuid4()}]).topics[0].error_code == 100


@pytest.mark.parametrize(("name", "code"), [("a-new-one", 0), ("not a name", 17), ("..", 17), ("x" * 250, 17)])
def test_metadata_creates_topics_if_the_client_lets_it(client: WireClient, name: str, code: int) -> None:
    assert described(client, name).error_code == (code or 3)
    made = client.ask(3, 8, topics=[{"name": name}], allow_auto_topic_creation=True).topics[0]
    assert (made.error_code, len(made.partitions)) == (code, 0 if code else 1)


def test_metadata_calls_a_broker_s_state_of_share_groups_internal(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("__share_group_state", partitions=1)
    with serving(tmp_path) as gateway, WireClient(gateway) as client:
        assert described(client, "__share_group_state").is_internal
        answer = client.ask(0, 8, **produce_fields("__share_group_state", batch(b"v").tobytes()))
        assert answer.responses[0].partition_responses[0].error_code == 17


def test_metadata_creates_internal_topics_as_their_coordinators_do(tmp_path: Path) -> None:
    counts = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 2, "num_partitions": 4}
    with serving(tmp_path, **counts) as gateway, WireClient(gateway) as client:
        for name, count in (("__consumer_offsets", 3), ("__transaction_state", 2), ("plain", 4)):
            made = client.ask(3, 8, topics=[{"name": name}], allow_auto_topic_creation=True).topics[0]
            assert (made.error_code, len(made.partitions), made.is_internal) == (0, count, name != "plain")
    with LogManager.open(str(tmp_path)) as manager:
        assert manager.topic("__consumer_offsets").configs["cleanup.policy"] == "compact"
        assert manager.topic("__transaction_state").configs["cleanup.policy"] == "compact"


@pytest.mark.parametrize("version", [10, 11])
def test_ids_in_versions_without_them_are_refused_and_the_connection_stays(
    client: WireClient, topic: str, version: int
) -> None:
    known = client.ask(3, 12, topics=[{"name": topic}]).topics[0].topic_id
    for asked in ({"name": None, "topic_id": known}, {"name": topic, "topic_id": known}, {"name": None}):
        answer = client.ask(3, version, topics=[asked])
        assert [each.error_code for each in answer.topics] == [42]


def test_a_topic_that_is_asked_for_twice_is_shown_once(client: WireClient, topic: str) -> None:
    asked = [{"name": each} for each in (topic, topic, "nowhere", "nowhere")]
    found = client.ask(3, 8, topics=asked, allow_auto_topic_creation=False).topics
    assert [each.name for each in found] == [topic, "nowhere"]


def test_metadata_creates_none_if_the_gateway_does_not(tmp_path: Any) -> None:
    with serving(tmp_path, auto_create_topics_enable=False) as gateway, WireClient(gateway) as client:
        assert client.ask(3, 8, topics=[{"name": "t"}], allow_auto_topic_creation=True).topics[0].error_code == 3


def test_clients_are_told_the_advertised_address(tmp_path: Any) -> None:
    with serving(tmp_path, advertised_listeners="PLAINTEXT://somewhere:7") as gateway, WireClient(gateway) as client:
        broker = client.ask(3, 8, topics=()).brokers[0]
        assert (broker.host, broker.port) == ("somewhere", 7)
        coordinator = client.ask(10, 4, key_type=0, coordinator_keys=("g",)).coordinators[0]
        assert (coordinator.host, coordinator.port) == ("somewhere", 7)


def test_a_gateway_that_listens_everywhere_names_the_address_that_the_client_found(tmp_path: Any) -> None:
    everywhere = {"listeners": "PLAINTEXT://0.0.0.0:0", "commitlog_insecure_listeners": True}
    with serving(tmp_path, **everywhere) as gateway, WireClient(gateway) as client:
        assert client.ask(3, 8, topics=()).brokers[0].host == "127.0.0.1"


def test_topics_that_cannot_be_read_are_shown_as_they_were(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway, WireClient(gateway) as client:
        create(client, "t")
        assert described(client, "t").error_code == 0
        topics = (tmp_path / "topics.json").read_bytes()
        (tmp_path / "topics.json").write_bytes(b"damaged")
        assert described(client, "t").error_code == 0
        assert [each.name for each in client.ask(3, 8, topics=None).topics] == ["t"]
        (tmp_path / "topics.json").write_bytes(topics)
        assert create(client, "u").error_code == 0


# --- CreateTopics


def test_a_topic_is_created_with_its_configs_and_shown_with_its_id(gateway: Gateway, client: WireClient) -> None:
    made = create(client, "with-configs", num_partitions=3, configs=[{"name": "retention.ms", "value": "5"}])
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 3, 1)
    assert {each.name: each.value for each in made.configs}["retention.ms"] == "5"
    with LogManager.open(gateway.context.log_dir) as manager:
        topic = manager.topic("with-configs")
        assert (len(topic.partitions), dict(topic.configs)) == (3, {"retention.ms": "5"})
    assert client.ask(3, 12, topics=[{"name": "with-configs"}]).topics[0].topic_id == made.topic_id


CREATED = {
    "defaults": ({"num_partitions": -1, "replication_factor": -1}, 0),
    "assignments": (
        {"num_partitions": -1, "replication_factor": -1, "assignments": [{"partition_index": 0, "broker_ids": (1,)}]},
        0,
    ),
    "no partitions": ({"num_partitions": 0}, 37),
    "no partitions of two replicas": ({"num_partitions": 0, "replication_factor": 2}, 37),
    "no partitions of no replicas": ({"num_partitions": 0, "replication_factor": 0}, 38),
    "more replicas than nodes": ({"replication_factor": 3}, 38),
    "an unknown config": ({"configs": [{"name": "retention.m", "value": "5"}]}, 40),
    "a wrong value": ({"configs": [{"name": "retention.ms", "value": "x"}]}, 40),
    "no value": ({"configs": [{"name": "retention.ms", "value": None}]}, 40),
    "an assignment to another node": (
        {"num_partitions": -1, "replication_factor": -1, "assignments": [{"partition_index": 0, "broker_ids": (2,)}]},
        39,
    ),
    "an assignment and a number": ({"assignments": [{"partition_index": 0, "broker_ids": (1,)}]}, 42),
    "no name of a topic": ({"name": "a b"}, 17),
    "an internal topic that would lose its records": (
        {"name": "__consumer_offsets", "configs": [{"name": "cleanup.policy", "value": "delete"}]},
        40,
    ),
    "the log of controllers": ({"name": "__cluster_metadata"}, 42),
}


@pytest.mark.parametrize(("asked", "code"), CREATED.values(), ids=CREATED)
def test_what_cannot_be_created_is_refused_also_if_it_is_only_validated(
    client: WireClient, request: pytest.FixtureRequest, asked: dict[str, Any], code: int
) -> None:
    name = asked.get("name", "new-" + request.node.callspec.id.replace(" ", "-"))
    asked = {**asked, "name": name}
    assert create(client, validate_only=True, **asked).error_code == code
    assert described(client, name).error_code != 0
    assert create(client, **asked).error_code == code


def test_a_topic_that_exists_or_is_named_alike_is_refused(client: WireClient) -> None:
    assert [create(client, name).error_code for name in ("a.b", "a.b", "a_b")] == [0, 36, 17]


def test_a_topic_that_is_asked_for_twice_is_refused(client: WireClient) -> None:
    asked = {"name": "twice", "num_partitions": 1, "replication_factor": 1}
    (found,) = client.ask(19, 4, topics=[asked, asked], timeout=1000).topics
    assert found.error_code == 42


# --- DeleteTopics, CreatePartitions, DeleteRecords


def test_a_topic_is_deleted_by_name_or_id_and_its_name_can_be_used_again(client: WireClient, topic: str) -> None:
    client.ask(0, 8, **produce_fields(topic, batch(b"v").tobytes()))
    assert client.ask(20, 3, topic_names=(topic, "nowhere"), timeout=1).responses[0].error_code == 0
    assert described(client, topic).error_code == 3
    made = create(client, topic)
    answer = client.ask(0, 8, **produce_fields(topic, batch(b"v").tobytes()))
    assert answer.responses[0].partition_responses[0].base_offset == 0
    by_id = [{"name": None, "topic_id": made.topic_id}, {"name": None, "topic_id": uuid4()}]
    found = client.ask(20, 6, topics=by_id, timeout=1).responses
    assert [(each.name, each.error_code) for each in found] == [(topic, 0), (None, 100)]


@pytest.mark.parametrize(("version", "code"), [(3, 3), (6, 100)], ids=["by name", "by id"])
def test_a_topic_that_took_the_name_of_the_one_to_delete_in_the_meantime_stays(
    gateway: Gateway, client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch, version: int, code: int
) -> None:
    before = described(client, topic, 12).topic_id
    close = gateway.context.partitions.close_topics

    def close_and_replace(topics: Collection[str], then: Callable[[], None], *, keep_closed: bool) -> None:
        def replace() -> None:
            with LogManager.open(gateway.context.log_dir) as another:
                delete_topic(another, topic)
                another.create_topic(topic, partitions=1)
            then()

        close(topics, replace, keep_closed=keep_closed)

    monkeypatch.setattr(gateway.context.partitions, "close_topics", close_and_replace)
    asked = {"topics": [{"name": None, "topic_id": before}], "topic_names": [topic], "timeout": 1000}
    (answer,) = client.ask(20, version, **asked).responses
    assert answer.error_code == code
    assert described(client, topic, 12).topic_id not in (None, before)
    produced = client.ask(0, 8, **produce_fields(topic, batch(b"v").tobytes())).responses[0]
    assert produced.partition_responses[0].error_code == 0


def test_what_a_request_names_twice_is_changed_by_none_of_them(client: WireClient, topic: str) -> None:
    (deleted,) = client.ask(20, 3, topic_names=(topic, topic), timeout=1000).responses
    more = [{"name": topic, "count": each, "assignments": None} for each in (3, 4)]
    (enlarged,) = client.ask(37, 1, topics=more, timeout=1000, validate_only=False).results
    configs = [{"name": "retention.ms", "config_operation": 0, "value": "7"}]
    resources = [{"resource_type": 2, "resource_name": topic, "configs": configs}] * 2
    altered = client.ask(44, 1, resources=resources, validate_only=False).responses
    assert [each.error_code for each in (deleted, enlarged, *altered)] == [42] * 4
    assert len(described(client, topic).partitions) == 2
    assert configs_of(client, topic)["retention.ms"].config_source == 5


def test_no_names_of_configs_ask_for_all(client: WireClient, topic: str) -> None:
    assert configs_of(client, topic, keys=()) == configs_of(client, topic)


def test_topics_are_not_deleted_if_the_gateway_does_not(tmp_path: Any) -> None:
    with serving(tmp_path, delete_topic_enable=False) as gateway, WireClient(gateway) as client:
        create(client, "t")
        codes = [client.ask(20, version, topic_names=("t",), timeout=1).responses[0].error_code for version in (1, 3)]
        assert codes == [42, 73]
        assert described(client, "t").error_code == 0


@pytest.mark.parametrize(("count", "code"), [(3, 0), (2, 37), (1, 37), (-1, 37)])
def test_partitions_are_added_not_removed(client: WireClient, topic: str, count: int, code: int) -> None:
    for dry in (True, False):
        asked = [{"name": topic, "count": count, "assignments": None}]
        (found,) = client.ask(37, 1, topics=asked, timeout=1, validate_only=dry).results
        assert found.error_code == code
    assert len(described(client, topic).partitions) == (3 if code == 0 else 2)


def test_records_are_deleted_up_to_an_offset(client: WireClient, topic: str) -> None:
    client.ask(0, 8, **produce_fields(topic, batch(b"a", b"b", b"c").tobytes()))

    def cut(offset: int, partition: int = 0) -> tuple[int, int]:
        asked = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
        found = client.ask(21, 1, topics=asked, timeout=1).topics[0].partitions[0]
        return int(found.error_code), found.low_watermark

    assert [cut(2), cut(1), cut(4), cut(-1), cut(0, 9)] == [(0, 2), (0, 2), (1, -1), (0, 3), (3, -1)]


def test_a_topic_of_which_no_partition_is_named_is_not_in_the_answer(client: WireClient, topic: str) -> None:
    cuts = [{"partition_index": 0, "offset": -1}]
    asked = [{"name": name, "partitions": parts} for name, parts in (("nowhere", cuts), (topic, []))]
    assert [each.name for each in client.ask(21, 2, topics=asked, timeout=1).topics] == ["nowhere"]


# --- Configs


def change(client: WireClient, topic: str, *configs: dict[str, Any], kind: int = 2, dry: bool = False) -> int:
    resource = {"resource_type": kind, "resource_name": topic, "configs": configs}
    return int(client.ask(44, 1, resources=[resource], validate_only=dry).responses[0].error_code)


def configs_of(client: WireClient, topic: str, kind: int = 2, keys: Any = None) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": topic, "configuration_keys": keys}
    result = client.ask(32, 3, resources=[resource], include_synonyms=True).results[0]
    assert result.error_code == 0
    return {each.name: each for each in result.configs}


def test_configs_are_set_changed_and_reset(client: WireClient, topic: str) -> None:
    policy = "cleanup.policy"
    assert change(client, topic, {"name": policy, "config_operation": 2, "value": "compact"}) == 0
    assert configs_of(client, topic, keys=(policy,))[policy].value == "delete,compact"
    assert change(client, topic, {"name": policy, "config_operation": 3, "value": "delete"}) == 0
    found = configs_of(client, topic)[policy]
    assert (found.value, found.config_source, found.config_type) == ("compact", 1, 7)
    assert [each.source for each in found.synonyms] == [1, 5]
    assert change(client, topic, {"name": policy, "config_operation": 1, "value": None}) == 0
    assert configs_of(client, topic)[policy].config_source == 5


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("cleanup.policy", "delete,compact", "delete,compact"),
        ("cleanup.policy", "compact,delete", "compact,delete"),
        ("cleanup.policy", "delete, compact", "delete,compact"),
        ("leader.replication.throttled.replicas", "1:0,0:0", "1:0,0:0"),
    ],
)
def test_a_list_comes_back_as_it_was_set(client: WireClient, topic: str, name: str, given: str, shown: str) -> None:
    assert change(client, topic, {"name": name, "config_operation": 0, "value": given}) == 0
    assert configs_of(client, topic)[name].value == shown


def synonyms_of(client: WireClient, topic: str, config: str) -> list[tuple[str, str, int]]:
    found = configs_of(client, topic)[config]
    return [(each.name, each.value, int(each.source)) for each in found.synonyms]


def test_synonyms_are_what_kafka_lists(client: WireClient, topic: str) -> None:
    """A broker leaves out settings without a default, and those before the setting with the finest unit."""
    assert synonyms_of(client, topic, "segment.bytes") == [("log.segment.bytes", "1073741824", 5)]
    for config in ("retention.ms", "segment.ms", "segment.jitter.ms", "flush.ms"):
        assert synonyms_of(client, topic, config) == []
    finest = {"name": "log.roll.ms", "config_operation": 0, "value": "900000"}
    assert change(client, "", finest, kind=4) == 0
    try:
        assert synonyms_of(client, topic, "segment.ms") == [("log.roll.ms", "900000", 3), ("log.roll.hours", "168", 5)]
    finally:
        change(client, "", {**finest, "config_operation": 1, "value": None}, kind=4)


CHANGES = {
    "an unknown config": ({"name": "x", "config_operation": 0, "value": "1"}, 40),
    "a wrong value": ({"name": "retention.ms", "config_operation": 0, "value": "x"}, 40),
    "no value": ({"name": "retention.ms", "config_operation": 0, "value": None}, 42),
    "an addition to a number": ({"name": "retention.ms", "config_operation": 2, "value": "1"}, 40),
    "an unknown operation": ({"name": "retention.ms", "config_operation": 9, "value": "1"}, 42),
    "a reset of what is not set": ({"name": "retention.ms", "config_operation": 1, "value": None}, 0),
}


@pytest.mark.parametrize(("config", "code"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("dry", [True, False])
def test_changes_that_cannot_be_made_are_refused(
    client: WireClient, topic: str, config: dict[str, Any], code: int, *, dry: bool
) -> None:
    assert change(client, topic, config, dry=dry) == code
    assert configs_of(client, topic)["retention.ms"].config_source == 5


def test_the_older_request_replaces_all_configs(client: WireClient, topic: str) -> None:
    change(client, topic, {"name": "retention.ms", "config_operation": 0, "value": "7"})
    resource = {"resource_type": 2, "resource_name": topic, "configs": [{"name": "segment.ms", "value": "9"}]}
    assert client.ask(33, 1, resources=[resource], validate_only=False).responses[0].error_code == 0
    found = configs_of(client, topic)
    assert (found["retention.ms"].config_source, found["segment.ms"].value) == (5, "9")


def test_the_nodes_settings_are_shown_and_those_for_all_topics_changed(client: WireClient, topic: str) -> None:
    assert configs_of(client, "1", kind=4)["num.network.threads"].value == "1"
    days = {"name": "log.retention.ms", "config_operation": 0, "value": "123"}
    assert change(client, "", days, kind=4) == 0
    assert configs_of(client, "", kind=4)["log.retention.ms"].value == "123"
    assert (
        configs_of(client, topic)["retention.ms"].value,
        configs_of(client, topic)["retention.ms"].config_source,
    ) == ("123", 3)
    assert change(client, "", {**days, "config_operation": 1, "value": None}, kind=4) == 0
    assert [change(client, name, days, kind=4) for name in ("99", "9" * 5000, "one", "-1")] == [42, 42, 42, 42]
    assert change(client, "nowhere", {"name": "retention.ms", "config_operation": 0, "value": "1"}) == 3


def test_administrators_do_not_wait_while_many_partitions_are_created(
    gateway: Gateway, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on, making = threading.Event(), threading.Event()
    make = LogManager._make_directory

    def wait(self: LogManager, parent: str, topic: TopicDescription, partition: int) -> None:
        if topic.name == "large" and partition == 101:
            making.set()
            assert going_on.wait(30)
        make(self, parent, topic, partition)

    monkeypatch.setattr(LogManager, "_make_directory", wait)
    with WireClient(gateway) as other:
        large = {"name": "large", "num_partitions": 150, "replication_factor": 1}
        sent = other.send(19, 5, topics=[large], timeout=1000)
        assert making.wait(30)
        small = {"name": "small", "num_partitions": 1, "replication_factor": 1}
        assert not client.ask(19, 5, topics=[small], timeout=1000).topics[0].error_code
        assert client.ask(3, 9, topics=[{"name": "large"}], allow_auto_topic_creation=False).topics[0].error_code == 3
        grown = {"name": "small", "count": 2, "assignments": None}
        assert not client.ask(37, 1, topics=[grown], timeout=1000, validate_only=False).results[0].error_code
        deleted = client.ask(20, 4, topic_names=["small"], timeout=1000)
        assert not deleted.responses[0].error_code
        going_on.set()
        assert not other.answer(19, 5, sent).topics[0].error_code
        again = client.ask(19, 5, topics=[large], timeout=1000).topics[0]
        assert again.error_code == 36, "the topic exists"
        many = {"name": "large", "count": 300, "assignments": None}
        assert not client.ask(37, 1, topics=[many], timeout=1000, validate_only=False).results[0].error_code
        assert len(client.ask(3, 9, topics=[{"name": "large"}]).topics[0].partitions) == 300
