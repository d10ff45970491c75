"""What a client may not touch is refused with Kafka's code, or hidden; what it may is served in the same request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, fetch_fields, produce_fields, serving
from tests.support.logs.building import batch

TIMEOUT_S = 30.0
TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, ID_DENIED = 29, 30, 31, 53
UNKNOWN_TOPIC, ILLEGAL_TOPIC, INVALID_CONFIG, INVALID_REQUEST, GROUP_ID_NOT_FOUND = 3, 17, 40, 42, 69
NOT_ATTEMPTED = 55
RULES = """
[[allow]]
users = ["alice"]
operations = ["read", "write", "describe_configs"]
topics = ["open*"]
groups = ["open*"]
transactional_ids = ["open*"]

[[allow]]
users = ["carol"]
operations = ["create"]
topics = ["see_*"]

[[allow]]
users = ["carol"]
operations = ["delete"]
groups = ["*"]

[[deny]]
users = ["alice"]
operations = ["all"]
topics = ["open-not"]
"""


@contextmanager
def serving_by_rules(folder: Path) -> Iterator[Gateway]:
    (folder / "rules.toml").write_text(RULES)
    users = UsersFile(str(folder / "users.json"))
    for user in ("alice", "carol", "root"):
        users.add(user, user)
    settings: dict[str, Any] = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl_enabled_mechanisms": "PLAIN",
        "commitlog_users_file": users.path,
        "commitlog_rules_file": str(folder / "rules.toml"),
        "super_users": "User:root",
        "group_initial_rebalance_delay_ms": 0,
    }
    with serving(folder / "log", **settings) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with the topics ``open``, ``open-not`` and ``shut``; alice may use what begins with ``open``."""
    with serving_by_rules(tmp_path_factory.mktemp("ruled")) as gateway:
        with connected(gateway, "root") as root:
            topics = [
                {"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("open", "open-not", "shut")
            ]
            assert not [each for each in root.ask(19, 4, topics=topics, timeout=1000).topics if each.error_code]
        yield gateway


def connected(gateway: Gateway, user: str) -> WireClient:
    client = WireClient(gateway)
    client.ask(17, 1, mechanism="PLAIN")
    assert not client.ask(36, 2, auth_bytes=f"\0{user}\0{user}".encode()).error_code
    return client


@pytest.fixture
def alice(ruled: Gateway) -> Iterator[WireClient]:
    with connected(ruled, "alice") as client:
        yield client


@pytest.fixture
def root(ruled: Gateway) -> Iterator[WireClient]:
    with connected(ruled, "root") as client:
        yield client


def codes(items: Any, name: str = "name") -> dict[str, int]:
    """The codes of an answer's items; those of its partitions, if it has some."""
    found = {}
    for each in items:
        parts = getattr(each, "partitions", None)
        shown = parts[0].error_code if parts else each.error_code
        found[getattr(each, name)] = int(shown)
    return found


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_metadata_hides_topics_and_refuses_those_that_are_named(alice: WireClient, version: int) -> None:
    everything = alice.ask(3, version, topics=() if version == 0 else None)
    assert {each.name for each in everything.topics if not each.name.startswith("__")} == {"open"}
    named = [{"name": name} for name in ("open", "open-not", "shut", "open-new", "shut-new")]
    answer = alice.ask(3, version, topics=named, allow_auto_topic_creation=True)
    found = {each.name: int(each.error_code) for each in answer.topics}
    denied = dict.fromkeys(("open-not", "shut", "open-new", "shut-new"), TOPIC_DENIED)
    assert found == {"open": 0, **denied}  # alice may not create
    refused = alice.ask(3, version, topics=[{"name": "shut"}])
    assert {each.name: int(each.error_code) for each in refused.topics} == {"shut": TOPIC_DENIED}
    assert len(refused.brokers) == 1


def test_topics_are_not_found_by_their_ids(alice: WireClient, root: WireClient) -> None:
    ids = {each.name: each.topic_id for each in root.ask(3, 12, topics=None).topics}
    answer = alice.ask(3, 12, topics=[{"name": None, "topic_id": ids[name]} for name in ("open", "shut")])
    assert [(each.name, int(each.error_code)) for each in answer.topics] == [("open", 0), (None, TOPIC_DENIED)]


def test_produce_and_fetch(alice: WireClient, root: WireClient) -> None:
    for topic, code in (("open", 0), ("open-not", TOPIC_DENIED), ("shut", TOPIC_DENIED), ("none", TOPIC_DENIED)):
        answer = alice.ask(0, 9, **produce_fields(topic, bytes(batch(b"x"))))
        assert answer.responses[0].partition_responses[0].error_code == code
        fetched = alice.ask(1, 12, **fetch_fields(topic, 0))
        assert fetched.responses[0].partitions[0].error_code == code
    assert root.ask(1, 12, **fetch_fields("shut", 0)).responses[0].partitions[0].high_watermark == 0


def test_partitions_of_topics(alice: WireClient) -> None:
    asked = [
        {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1, "offset": 0}]}
        for name in ("shut", "open")
    ]
    expected = {"open": 0, "shut": TOPIC_DENIED}
    assert codes(alice.ask(2, 7, replica_id=-1, isolation_level=0, topics=asked).topics) == expected
    deleted = alice.ask(21, 2, topics=asked, timeout=1000)
    assert codes(deleted.topics) == dict.fromkeys(expected, TOPIC_DENIED)
    epochs = [
        {"topic": each["name"], "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
        for each in asked
    ]
    assert codes(alice.ask(23, 4, replica_id=-1, topics=epochs).topics, "topic") == expected
    producers = [{"name": name, "partition_indexes": (0,)} for name in (*expected, "a b")]
    assert codes(alice.ask(61, 0, topics=producers).topics) == {**expected, "a b": ILLEGAL_TOPIC}


def test_administration_of_topics(alice: WireClient, root: WireClient) -> None:
    created = [{"name": "open-x", "num_partitions": 1, "replication_factor": 1}]
    assert codes(alice.ask(19, 7, topics=created, timeout=1000).topics) == {"open-x": TOPIC_DENIED}
    assert codes(alice.ask(20, 5, topic_names=("open", "shut"), timeout=1000).responses) == {
        "open": TOPIC_DENIED,
        "shut": TOPIC_DENIED,
    }
    topics = [{"name": "shut"}, {"name": "gone"}]
    assert set(codes(alice.ask(20, 6, topics=topics, timeout=1000).responses).values()) == {TOPIC_DENIED}
    enlarged = [{"name": "open", "count": 9, "assignments": None}]
    assert codes(alice.ask(37, 3, topics=enlarged, timeout=1000).results) == {"open": TOPIC_DENIED}
    assert "shut" in {each.name for each in root.ask(3, 9, topics=None).topics}


def test_configs(alice: WireClient) -> None:
    resources = [{"resource_type": kind, "resource_name": name} for kind, name in ((2, "open"), (2, "shut"), (4, "1"))]
    expected = {"open": 0, "shut": TOPIC_DENIED, "1": CLUSTER_DENIED}
    assert codes(alice.ask(32, 4, resources=resources).results, "resource_name") == expected
    for key, version in ((33, 2), (44, 1)):
        answer = alice.ask(key, version, resources=resources, validate_only=False)
        assert codes(answer.responses, "resource_name") == {**expected, "open": TOPIC_DENIED}
    assert alice.ask(35, 4, topics=None).error_code == CLUSTER_DENIED


def test_groups(alice: WireClient, root: WireClient) -> None:
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [offset]} for name in ("open", "shut")]
    member = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    committed = alice.ask(8, 9, group_id="open-g", topics=topics, **member)
    assert codes(committed.topics) == {"open": 0, "shut": TOPIC_DENIED}
    refused = alice.ask(8, 9, group_id="shut-g", topics=topics, **member)
    assert set(codes(refused.topics).values()) == {GROUP_DENIED}
    root.ask(8, 9, group_id="open-g", topics=topics, **member)
    root.ask(8, 9, group_id="shut-g", topics=topics, **member)

    asked = [{"name": name, "partition_indexes": (0,)} for name in ("open", "shut")]
    one = alice.ask(9, 7, group_id="open-g", topics=asked, require_stable=False)
    assert codes(one.topics) == {"open": 0, "shut": TOPIC_DENIED}
    assert codes(alice.ask(9, 7, group_id="open-g", topics=None).topics) == {"open": 0}
    assert alice.ask(9, 7, group_id="shut-g", topics=asked).error_code == GROUP_DENIED
    assert set(codes(alice.ask(9, 1, group_id="shut-g", topics=asked).topics).values()) == {GROUP_DENIED}
    groups = [{"group_id": name, "topics": which} for name, which in (("open-g", asked), ("shut-g", None))]
    several = {each.group_id: each for each in alice.ask(9, 8, groups=groups, require_stable=False).groups}
    assert codes(several["open-g"].topics) == {"open": 0, "shut": TOPIC_DENIED}
    assert several["shut-g"].error_code == GROUP_DENIED

    assert {each.group_id for each in alice.ask(16, 4, states_filter=()).groups} == {"open-g"}
    assert {each.group_id for each in root.ask(16, 4, states_filter=()).groups} == {"open-g", "shut-g"}
    described = alice.ask(15, 5, groups=("open-g", "shut-g"), include_authorized_operations=False)
    assert codes(described.groups, "group_id") == {"open-g": 0, "shut-g": GROUP_DENIED}
    deleted = alice.ask(42, 2, groups_names=("open-g", "shut-g"))
    assert set(codes(deleted.results, "group_id").values()) == {GROUP_DENIED}
    assert alice.ask(47, 0, group_id="open-g", topics=()).error_code == GROUP_DENIED
    for key, version in ((12, 3), (14, 3), (13, 3), (11, 5)):
        assert alice.ask(key, version, group_id="shut-g").error_code == GROUP_DENIED


def test_an_error_of_a_group_is_told_without_the_topics_whose_offsets_were_to_be_deleted(ruled: Gateway) -> None:
    asked = [{"name": "shut", "partitions": [{"partition_index": 0}]}]
    with connected(ruled, "carol") as carol:
        refused = carol.ask(47, 0, group_id="there is none", topics=asked)
    assert (refused.error_code, refused.topics) == (GROUP_ID_NOT_FOUND, ())


def test_coordinators_and_transactional_ids(alice: WireClient, root: WireClient) -> None:
    for kind, code in ((0, GROUP_DENIED), (1, ID_DENIED)):
        assert alice.ask(10, 3, key="shut", key_type=kind).error_code == code
        assert alice.ask(10, 3, key="open", key_type=kind).error_code == 0
        found = alice.ask(10, 4, key_type=kind, coordinator_keys=("open", "shut")).coordinators
        assert codes(found, "key") == {"open": 0, "shut": code}
    assert alice.ask(22, 4, transactional_id=None, producer_id=-1, producer_epoch=-1).error_code == 0
    own = {"producer_id": -1, "producer_epoch": -1, "transaction_timeout": 60_000}
    assert alice.ask(22, 4, transactional_id="shut", **own).error_code == ID_DENIED
    started = alice.ask(22, 4, transactional_id="open", **own)
    assert started.error_code == 0
    producer = {"producer_id": started.producer_id, "producer_epoch": started.producer_epoch}
    for name, topics, expected in (
        ("open", ("open", "shut"), {NOT_ATTEMPTED, TOPIC_DENIED}),
        ("shut", ("open",), {ID_DENIED}),
        ("open", ("open",), {0}),
    ):
        answer = alice.ask(
            24,
            3,
            v3_and_below_transactional_id=name,
            v3_and_below_topics=[{"name": topic, "partitions": (0,)} for topic in topics],
            **{f"v3_and_below_{field}": value for field, value in producer.items()},
        )
        found = answer.results_by_topic_v3_and_below
        assert {int(each.results_by_partition[0].partition_error_code) for each in found} == expected
    assert alice.ask(25, 3, transactional_id="open", group_id="shut", **producer).error_code == GROUP_DENIED
    assert alice.ask(25, 3, transactional_id="shut", group_id="open", **producer).error_code == ID_DENIED
    assert alice.ask(26, 3, transactional_id="shut", committed=True, **producer).error_code == ID_DENIED
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    shut = [{"name": "shut", "partitions": [offset]}]
    for name, code in (("open", TOPIC_DENIED), ("shut", ID_DENIED)):
        answer = alice.ask(28, 3, transactional_id=name, group_id="open", topics=shut, member_id="", **producer)
        assert codes(answer.topics) == {"shut": code}
    assert alice.ask(26, 3, transactional_id="open", committed=False, **producer).error_code == 0
    described = alice.ask(65, 0, transactional_ids=("open", "shut")).transaction_states
    assert codes(described, "transactional_id") == {"open": 0, "shut": ID_DENIED}
    root.ask(22, 4, transactional_id="shut", **own)
    assert {each.transactional_id for each in alice.ask(66, 0).transaction_states} == {"open"}
    marker = {"producer_id": 1, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
    markers = [{**marker, "topics": [{"name": "open", "partition_indexes": (0,)}]}]
    written = alice.ask(27, 1, markers=markers).markers[0].topics[0].partitions[0]
    assert written.error_code == CLUSTER_DENIED


def test_partitions_beside_denied_ones_are_missing_or_not_attempted(alice: WireClient) -> None:
    answer = alice.ask(
        24,
        3,
        v3_and_below_transactional_id="open",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[{"name": topic, "partitions": (0, 9)} for topic in ("open", "shut")],
    )
    found = {
        topic.name: [int(each.partition_error_code) for each in topic.results_by_partition]
        for topic in answer.results_by_topic_v3_and_below
    }
    assert found == {"open": [NOT_ATTEMPTED, UNKNOWN_TOPIC], "shut": [TOPIC_DENIED, TOPIC_DENIED]}


def test_no_answer_shows_a_name_that_its_client_may_not_describe(alice: WireClient, root: WireClient) -> None:
    """``shut`` topics, groups and transactional ids are there, and some share an ``open`` name's answer."""
    own = {"producer_id": -1, "producer_epoch": -1, "transaction_timeout": 60_000}
    for name in ("open-t", "shut-t"):
        started = root.ask(22, 4, transactional_id=name, **own)
        added = root.ask(
            24,
            3,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=started.producer_id,
            v3_and_below_producer_epoch=started.producer_epoch,
            v3_and_below_topics=[{"name": topic, "partitions": (0,)} for topic in ("open", "shut")],
        )
        assert not added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    for group in ("open-s", "shut-s"):
        topics = [{"name": name, "partitions": [offset]} for name in ("open", "shut")]
        root.ask(8, 7, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
    new = {"num_partitions": 1, "replication_factor": 1}
    assert not root.ask(19, 7, topics=[{"name": "shut_a.b", **new}], timeout=1000).topics[0].error_code

    answers = (
        alice.ask(3, 12, topics=None),
        alice.ask(9, 7, group_id="open-s", topics=None),
        alice.ask(9, 8, groups=[{"group_id": "open-s", "topics": None}], require_stable=False),
        alice.ask(15, 5, groups=("open-s",), include_authorized_operations=False),
        alice.ask(16, 4, states_filter=()),
        alice.ask(32, 4, resources=[{"resource_type": 2, "resource_name": "open-missing"}]),  # the error names no other
        alice.ask(35, 4, topics=None),
        alice.ask(43, 2, topic_partitions=None),
        alice.ask(46, 0, topics=None),
        alice.ask(60, 1, endpoint_type=1),
        alice.ask(65, 0, transactional_ids=("open-t",)),
        alice.ask(66, 0),
    )
    assert [each for each in map(repr, answers) if "shut" in each] == []
    described = alice.ask(65, 0, transactional_ids=("open-t",)).transaction_states[0]
    assert [each.topic for each in described.topics] == ["open"]
    assert {each.topic for each in root.ask(65, 0, transactional_ids=("open-t",)).transaction_states[0].topics} == {
        "open",
        "shut",
    }


def test_a_topic_is_not_created_beside_one_that_its_client_may_not_see(ruled: Gateway, root: WireClient) -> None:
    new = {"num_partitions": 1, "replication_factor": 1}
    root.ask(19, 7, topics=[{"name": "see.me", **new}], timeout=1000)
    with connected(ruled, "carol") as carol:
        refused = carol.ask(19, 7, topics=[{"name": "see_me", **new}], timeout=1000).topics[0]
    shown = root.ask(19, 7, topics=[{"name": "see_me", **new}], timeout=1000).topics[0]
    assert refused.error_code == shown.error_code == 17
    assert "see.me" in shown.error_message
    assert "see.me" not in refused.error_message


def test_a_batch_for_a_topic_of_others_opens_nothing(tmp_path: Path) -> None:
    names = ("open", "shut")
    with (
        serving_by_rules(tmp_path) as gateway,
        connected(gateway, "root") as root,
        connected(gateway, "alice") as alice,
    ):
        topics = [{"name": each, "num_partitions": 1, "replication_factor": 1} for each in names]
        root.ask(19, 4, topics=topics, timeout=1000)
        answers = [alice.ask(0, 9, **produce_fields(each, bytes(batch(b"x")))) for each in names]
        assert [each.responses[0].partition_responses[0].error_code for each in answers] == [0, TOPIC_DENIED]
        assert [gateway.context.partitions.leader_epoch(each, 0) for each in names] == [0, -1]


def test_a_batch_with_a_transactional_id_of_others_does_not_take_the_lock_of_the_id(tmp_path: Path) -> None:
    own = {"producer_id": -1, "producer_epoch": -1, "transaction_timeout": 60_000}
    names = ("open-id", "shut")
    with serving_by_rules(tmp_path) as gateway, connected(gateway, "root") as root:
        root.ask(19, 4, topics=[{"name": "open", "num_partitions": 1, "replication_factor": 1}], timeout=1000)
        assert [root.ask(22, 4, transactional_id=each, **own).error_code for each in names] == [0, 0]
    with serving_by_rules(tmp_path) as gateway, connected(gateway, "alice") as alice:
        for name in names:
            alice.ask(0, 9, **{**produce_fields("open", bytes(batch(b"x"))), "transactional_id": name})
        assert {each: gateway.context.transactions.gate.knows(each) for each in names} == {
            "open-id": True,
            "shut": False,
        }


@pytest.mark.parametrize("version", [5, 7])
def test_the_settings_of_a_new_topic_are_shown_only_to_clients_that_may_describe_them(
    ruled: Gateway, root: WireClient, version: int
) -> None:
    new = {"name": "see_new", "num_partitions": 2, "replication_factor": 1}
    with connected(ruled, "carol") as carol:
        hidden = carol.ask(19, version, topics=[new], timeout=1000, validate_only=True).topics[0]
    assert (hidden.error_code, hidden.topic_config_error_code) == (0, TOPIC_DENIED)
    assert (hidden.num_partitions, hidden.replication_factor, hidden.configs) == (-1, -1, ())
    shown = root.ask(19, version, topics=[new], timeout=1000, validate_only=True).topics[0]
    assert (shown.error_code, shown.topic_config_error_code) == (0, 0)
    assert (shown.num_partitions, shown.replication_factor, bool(shown.configs)) == (2, 1, True)


def test_administration_of_the_cluster(alice: WireClient, root: WireClient) -> None:
    elections = [{"topic": "open", "partitions": (0,)}]
    moves = [{"path": "/x", "topics": [{"name": "open", "partitions": (0,)}]}]
    reassignments = [{"name": "open", "partitions": [{"partition_index": 0, "replicas": (1,)}]}]
    nothing = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}

    def asked(client: WireClient) -> list[int]:
        elected = client.ask(43, 2, topic_partitions=elections).replica_election_results[0].partition_result
        moved = client.ask(34, 2, dirs=moves).results[0].partitions
        reassigned = client.ask(45, 0, topics=reassignments).responses[0].partitions
        listed = client.ask(46, 0, topics=None)
        created, deleted = (
            client.ask(30, 3, creations=[{}]).results,
            client.ask(31, 3, filters=[nothing]).filter_results,
        )
        answers = (*elected, *moved, *reassigned, listed, client.ask(29, 3, **nothing), *created, *deleted)
        return [int(each.error_code) for each in answers]

    assert set(asked(alice)) == {CLUSTER_DENIED}
    invalid = 42  # ACLs and filters without a kind
    assert asked(root) == [84, 57, 0, 0, invalid, invalid, invalid]


def test_users_are_shown_and_changed_by_those_who_may_describe_and_alter_the_cluster(
    alice: WireClient, root: WireClient
) -> None:
    deletions = [{"name": "nobody", "mechanism": 1}] * 2
    assert alice.ask(50, 0, users=None).error_code == CLUSTER_DENIED
    assert [(each.user, int(each.error_code)) for each in alice.ask(51, 0, deletions=deletions).results] == [
        ("nobody", CLUSTER_DENIED)
    ]
    assert [each.user for each in root.ask(50, 0, users=None).results] == ["alice", "carol", "root"]


# The numbers of Kafka's operations, which are the positions of their bits
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, ACTION, SHOW_CONFIGS, SET_CONFIGS, IDEMPOTENT = range(3, 13)
ASKED = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}


def operations(number: int) -> set[int]:
    return {each for each in range(31) if number >> each & 1} if number >= 0 else set()


def test_clients_are_told_what_they_may_do(alice: WireClient, root: WireClient, client: WireClient) -> None:
    of_topics = {READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, SHOW_CONFIGS, SET_CONFIGS}
    of_clusters = {CREATE, ALTER, DESCRIBE, ACTION, SHOW_CONFIGS, SET_CONFIGS, IDEMPOTENT}
    expected = (
        (alice, {READ, WRITE, DESCRIBE, SHOW_CONFIGS}, {READ, DESCRIBE}, set()),
        (root, of_topics, {READ, DELETE, DESCRIBE}, of_clusters),
        (client, of_topics, {READ, DELETE, DESCRIBE}, of_clusters),  # there are no rules
    )
    for who, topic, group, cluster in expected:
        found = who.ask(3, 10, topics=[{"name": "open"}], **ASKED)
        assert operations(found.topics[0].topic_authorized_operations) == topic
        assert operations(found.cluster_authorized_operations) == cluster
        described = who.ask(60, 1, endpoint_type=1, include_cluster_authorized_operations=True)
        assert operations(described.cluster_authorized_operations) == cluster
        groups = who.ask(15, 5, groups=("open-g",), include_authorized_operations=True).groups
        assert operations(groups[0].authorized_operations) == group


def test_clients_that_do_not_ask_are_not_told_what_they_may_do(alice: WireClient) -> None:
    found = alice.ask(3, 10, topics=[{"name": "open"}])
    described = alice.ask(60, 1, endpoint_type=1)
    group = alice.ask(15, 5, groups=("open-g",)).groups[0]
    assert {
        found.topics[0].topic_authorized_operations,
        found.cluster_authorized_operations,
        described.cluster_authorized_operations,
        group.authorized_operations,
    } == {-(2**31)}


def test_librdkafka_is_told_what_it_may_not_do(ruled: Gateway) -> None:
    given = {
        "bootstrap.servers": ruled.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice",
    }
    errors: list[Any] = []
    producer = Producer({**given, "linger.ms": 0})
    producer.produce("open", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.produce("shut", b"x", on_delivery=lambda error, _: errors.append(error and error.code()))
    assert producer.flush(TIMEOUT_S) == 0
    assert sorted(errors, key=str) == sorted([None, KafkaError.TOPIC_AUTHORIZATION_FAILED], key=str)
    for group, topic, code in (
        ("open-c", "shut", KafkaError.TOPIC_AUTHORIZATION_FAILED),
        ("shut-c", "open", KafkaError.GROUP_AUTHORIZATION_FAILED),
    ):
        consumer = Consumer({**given, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        record = consumer.poll(TIMEOUT_S)
        assert record is not None
        error = record.error()
        assert error is not None
        assert error.code() == code
        consumer.close()
    consumer = Consumer({**given, "group.id": "open-c"})
    consumer.assign([TopicPartition("open", 0, 0)])
    record = consumer.poll(TIMEOUT_S)
    assert record is not None
    assert record.error() is None
    consumer.close()


def enters(client: WireClient, group: str, member: str = "m", **subscription: Any) -> Any:
    """Joins a group of Kafka 4."""
    fields = {"group_id": group, "member_id": member, "rebalance_timeout": 1000, "topic_partitions": []}
    return client.ask(68, 1, **fields, member_epoch=0, **subscription)


def test_a_member_reads_by_regular_expression_only_topics_that_it_may_see(alice: WireClient) -> None:
    answer = enters(alice, "open-regex", subscribed_topic_regex="(open|shut).*")
    (described,) = alice.ask(69, 1, group_ids=["open-regex"]).groups
    (member,) = described.members
    assert [each.topic_name for each in member.assignment.topic_partitions] == ["open"]
    assert len(answer.assignment.topic_partitions) == 1


def test_members_need_their_group_and_the_topics_that_they_name(alice: WireClient) -> None:
    assert enters(alice, "shut", subscribed_topic_names=["open"]).error_code == GROUP_DENIED
    assert enters(alice, "open-named", subscribed_topic_names=["open", "shut"]).error_code == TOPIC_DENIED


def test_a_group_whose_members_read_hidden_topics_is_not_described(alice: WireClient, root: WireClient) -> None:
    enters(root, "open-hidden", subscribed_topic_names=["shut"])
    found = alice.ask(69, 1, group_ids=["open-hidden", "shut-group"]).groups
    assert codes(found, "group_id") == {"open-hidden": TOPIC_DENIED, "shut-group": GROUP_DENIED}
    assert not any(each.members for each in found)


# --- what a broker checks before it checks permissions


def test_changes_of_configs_that_nobody_could_make_are_invalid_before_they_are_denied(alice: WireClient) -> None:
    value = {"name": "retention.ms", "config_operation": 0, "value": "1"}

    def altered(*configs: dict[str, Any], name: str = "shut", kind: int = 2, times: int = 1) -> list[int]:
        resource = {"resource_type": kind, "resource_name": name, "configs": list(configs)}
        answer = alice.ask(44, 1, resources=[resource] * times, validate_only=True)
        return [int(each.error_code) for each in answer.responses]

    assert altered(value) == [TOPIC_DENIED]
    assert altered({**value, "value": None}) == [INVALID_REQUEST]
    assert altered({**value, "value": None, "config_operation": 1}) == [TOPIC_DENIED]
    assert altered(value, value) == [INVALID_REQUEST]
    assert altered(value, times=2) == [INVALID_REQUEST] * 2
    assert altered(value, kind=3) == [INVALID_REQUEST]
    older = [{"resource_type": 2, "resource_name": "shut", "configs": [{**value, "value": None}]}]
    assert int(alice.ask(33, 2, resources=older, validate_only=True).responses[0].error_code) == INVALID_REQUEST


def test_configs_of_a_kind_that_there_is_not_refuse_the_whole_request(alice: WireClient, root: WireClient) -> None:
    resources = [{"resource_type": kind, "resource_name": "open", "configuration_keys": None} for kind in (2, 3)]
    for client in (alice, root):
        results = client.ask(32, 4, resources=resources, include_synonyms=False, include_documentation=False).results
        assert [(each.resource_type, int(each.error_code)) for each in results] == [
            (2, INVALID_REQUEST),
            (3, INVALID_REQUEST),
        ]


def test_a_topic_that_is_to_be_created_twice_is_invalid_before_it_is_denied(alice: WireClient) -> None:
    topic = {"name": "shut-too", "num_partitions": 1, "replication_factor": 1}
    (once,) = alice.ask(19, 4, topics=[topic], timeout=1000).topics
    (twice,) = alice.ask(19, 4, topics=[topic, topic], timeout=1000).topics
    assert (int(once.error_code), int(twice.error_code)) == (TOPIC_DENIED, INVALID_REQUEST)


def test_a_wrong_setting_of_a_topic_that_is_not_there_is_the_first_error(root: WireClient) -> None:
    def altered(value: str) -> int:
        configs = [{"name": "retention.ms", "config_operation": 0, "value": value}]
        resources = [{"resource_type": 2, "resource_name": "nowhere", "configs": configs}]
        return int(root.ask(44, 1, resources=resources, validate_only=False).responses[0].error_code)

    assert (altered("x"), altered("1")) == (INVALID_CONFIG, UNKNOWN_TOPIC)


def test_denied_descriptions_of_users_name_as_many_as_were_asked_for(alice: WireClient) -> None:
    denied = alice.ask(50, 0, users=[{"name": "root"}, {"name": "carol"}])
    assert int(denied.error_code) == CLUSTER_DENIED
    assert [(each.user, int(each.error_code)) for each in denied.results] == [("", CLUSTER_DENIED)] * 2
