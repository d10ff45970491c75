"""ACLs over the protocol: what a broker with an authorizer answers, and one without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.waiting import soon

CLUSTER_DENIED, INVALID_REQUEST, POLICY_VIOLATION, SECURITY_DISABLED, STORAGE = 31, 42, 44, 54, 56
TOPIC, CLUSTER, ANY, LITERAL, PREFIXED, READ, WRITE, DENY, ALLOW = 2, 4, 1, 3, 4, 3, 4, 2, 3
RULE = {
    "resource_type": TOPIC,
    "resource_name": "letters",
    "resource_pattern_type": LITERAL,
    "principal": "User:alice",
    "host": "*",
    "operation": READ,
    "permission_type": ALLOW,
}
FILTER = {
    "resource_type_filter": TOPIC,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}
DESCRIBE, CREATE, DELETE = 29, 30, 31

LogsIn = Callable[[str], WireClient]


def visible(client: WireClient) -> set[str]:
    return {each.name for each in client.ask(3, 9, topics=None).topics}


def codes(items: Any) -> list[int]:
    return [int(each.error_code) for each in items]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_without_rules_there_are_no_acls(client: WireClient, version: int) -> None:
    described = client.ask(DESCRIBE, version, **FILTER)
    assert (described.error_code, described.resources) == (SECURITY_DISABLED, ())
    assert "commitlog.rules.file" in described.error_message
    created = client.ask(CREATE, version, creations=[RULE] * 2).results
    deleted = client.ask(DELETE, version, filters=[FILTER]).filter_results
    assert codes([*created, *deleted]) == [SECURITY_DISABLED] * 3


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_acl_is_made_shown_used_and_deleted(logs_in: LogsIn, version: int) -> None:
    root, alice = logs_in("root"), logs_in("alice")
    for topic in ("orders", "letters"):
        create_topic(root, topic)
    assert visible(alice) == {"orders"}
    assert codes(root.ask(CREATE, version, creations=[RULE, RULE]).results) == [0, 0]
    assert visible(alice) == {"orders", "letters"}
    described = root.ask(DESCRIBE, version, **{**FILTER, "resource_name_filter": "letters"})
    assert [(each.resource_type, each.resource_name) for each in described.resources] == [(TOPIC, "letters")]
    [rule] = described.resources[0].acls
    assert (rule.principal, rule.host, rule.operation, rule.permission_type) == ("User:alice", "*", READ, ALLOW)
    [deleted] = root.ask(DELETE, version, filters=[{**FILTER, "resource_name_filter": "letters"}]).filter_results
    assert (int(deleted.error_code), [each.resource_name for each in deleted.matching_acls]) == (0, ["letters"])
    assert visible(alice) == {"orders"}
    assert root.ask(DESCRIBE, version, **{**FILTER, "resource_name_filter": "letters"}).resources == ()


def test_a_deny_is_in_force_when_it_is_answered(logs_in: LogsIn) -> None:
    root, alice = logs_in("root"), logs_in("alice")
    create_topic(root, "orders")
    denied = {**RULE, "resource_name": "ord", "resource_pattern_type": PREFIXED, "permission_type": DENY}
    denied_all = {**denied, "operation": 2, "principal": "User:*"}
    for _ in range(5):
        assert codes(root.ask(CREATE, 3, creations=[denied_all]).results) == [0]
        assert visible(alice) == set()
        root.ask(DELETE, 3, filters=[{**FILTER, "permission_type": DENY}])
        assert visible(alice) == {"orders"}


def test_the_acls_of_one_node_are_in_force_on_another(tmp_path: Path) -> None:
    acls = {"commitlog_acls_file": str(tmp_path / "acls.json"), "super_users": "User:ANONYMOUS"}
    users = {"commitlog_acls_file": acls["commitlog_acls_file"]}
    with (
        serving(tmp_path / "one", **acls) as one,
        serving(tmp_path / "two", **users) as two,
        WireClient(one) as root,
        WireClient(two) as client,
    ):
        assert client.ask(DESCRIBE, 3, **FILTER).error_code == CLUSTER_DENIED
        cluster = {**RULE, "resource_type": CLUSTER, "resource_name": "kafka-cluster", "operation": 8}
        root.ask(CREATE, 3, creations=[{**cluster, "principal": "User:*"}])
        soon(lambda: not client.ask(DESCRIBE, 3, **FILTER).error_code)


def test_old_versions_neither_see_nor_delete_prefixes(logs_in: LogsIn) -> None:
    root = logs_in("root")
    prefixed = {**RULE, "resource_name": "letters-", "resource_pattern_type": PREFIXED}
    assert codes(root.ask(CREATE, 3, creations=[RULE, prefixed]).results) == [0, 0]
    names = {each.resource_name for each in root.ask(DESCRIBE, 0, **FILTER).resources}
    assert names == {"orders", "letters"}
    [deleted] = root.ask(DELETE, 0, filters=[FILTER]).filter_results
    assert {each.resource_name for each in deleted.matching_acls} == {"orders", "letters"}
    assert {each.resource_name for each in root.ask(DESCRIBE, 3, **FILTER).resources} == {"orders", "letters-"}


def test_a_rule_of_the_file_is_shown_and_not_deleted(logs_in: LogsIn) -> None:
    root = logs_in("root")
    [deleted] = root.ask(DELETE, 3, filters=[FILTER]).filter_results
    [kept] = deleted.matching_acls
    assert (int(deleted.error_code), int(kept.error_code), kept.resource_name) == (0, POLICY_VIOLATION, "orders")
    assert "[[allow]] number 1 of the file that commitlog.rules.file names" in kept.error_message
    assert len(root.ask(DESCRIBE, 3, **FILTER).resources) == 1


def test_what_is_wrong_is_refused_and_the_others_are_made(logs_in: LogsIn) -> None:
    root = logs_in("root")
    wrong = [
        {"resource_type": 99},
        {"resource_type": ANY},
        {"resource_pattern_type": ANY},
        {"operation": ANY},
        {"permission_type": 0},
        {"resource_name": ""},
        {"resource_type": CLUSTER, "resource_name": "mine"},
        {"principal": "alice"},
    ]
    results = root.ask(CREATE, 3, creations=[*({**RULE, **each} for each in wrong), RULE]).results
    assert codes(results) == [INVALID_REQUEST] * len(wrong) + [0]
    assert all(each.error_message for each in results[:-1])
    assert {each.resource_name for each in root.ask(DESCRIBE, 3, **FILTER).resources} == {"orders", "letters"}
    unknown = {**FILTER, "operation": 99}
    deleted = root.ask(DELETE, 3, filters=[unknown, {**FILTER, "resource_name_filter": "letters"}]).filter_results
    assert codes(deleted) == [INVALID_REQUEST, 0]
    assert [len(each.matching_acls) for each in deleted] == [0, 1]
    assert root.ask(DESCRIBE, 3, **unknown).error_code == INVALID_REQUEST


def test_only_those_who_may_alter_and_describe_the_cluster_may_ask(logs_in: LogsIn) -> None:
    root, alice = logs_in("root"), logs_in("alice")

    def asked() -> list[int]:
        described, created = alice.ask(DESCRIBE, 3, **FILTER), alice.ask(CREATE, 3, creations=[RULE]).results
        return codes([described, *created, *alice.ask(DELETE, 3, filters=[FILTER]).filter_results])

    assert asked() == [CLUSTER_DENIED] * 3
    cluster = {**RULE, "resource_type": CLUSTER, "resource_name": "kafka-cluster"}
    root.ask(CREATE, 3, creations=[{**cluster, "operation": 8}])
    assert asked() == [0, CLUSTER_DENIED, CLUSTER_DENIED]
    root.ask(CREATE, 3, creations=[{**cluster, "operation": 7}])
    assert asked() == [0, 0, 0]


def test_a_host_is_that_of_the_client(logs_in: LogsIn) -> None:
    root, alice = logs_in("root"), logs_in("alice")
    create_topic(root, "letters")
    root.ask(CREATE, 3, creations=[{**RULE, "host": "10.1.2.3"}])
    assert visible(alice) == set()
    root.ask(CREATE, 3, creations=[{**RULE, "host": "127.0.0.1"}])
    assert visible(alice) == {"letters"}


def test_a_damaged_file_is_reported_without_its_path(logs_in: LogsIn, tmp_path: Path) -> None:
    root = logs_in("root")
    root.ask(CREATE, 3, creations=[RULE])
    (tmp_path / "rules.toml.acls.json").write_text("{")
    [created] = root.ask(CREATE, 3, creations=[{**RULE, "operation": WRITE}]).results
    [deleted] = root.ask(DELETE, 3, filters=[FILTER]).filter_results
    for each in (created, deleted):
        assert each.error_code == STORAGE
        assert "json" not in each.error_message
    assert len(root.ask(DESCRIBE, 3, **FILTER).resources) == 2


def test_with_a_file_of_acls_alone_everyone_may_use_what_no_acl_names_if_it_is_so_set(tmp_path: Path) -> None:
    settings = {"commitlog_acls_file": str(tmp_path / "acls.json"), "allow_everyone_if_no_acl_found": True}
    with serving(tmp_path / "log", **settings) as gateway, WireClient(gateway) as client:
        for topic in ("letters", "orders"):
            create_topic(client, topic)
        assert visible(client) == {"letters", "orders"}
        assert codes(client.ask(CREATE, 3, creations=[RULE]).results) == [0]
        assert visible(client) == {"orders"}


def test_confluents_admin_client(secured: Gateway) -> None:
    host, port = secured.address
    admin = AdminClient(
        {
            "bootstrap.servers": f"{host}:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "root",
            "sasl.password": "root",
        }
    )
    fields = ResourceType.TOPIC, "shop-", ResourcePatternType.PREFIXED, "User:bob", "10.0.0.1"
    made = AclBinding(*fields, AclOperation.WRITE, AclPermissionType.DENY)
    wrong = AclBinding(ResourceType.BROKER, "mine", *fields[2:], AclOperation.ALTER, AclPermissionType.ALLOW)
    futures = admin.create_acls([made, wrong], request_timeout=30)
    futures[made].result()
    with pytest.raises(KafkaException, match="INVALID_REQUEST"):
        futures[wrong].result()
    wanted = AclBindingFilter(
        ResourceType.ANY,
        "shop-1",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert admin.describe_acls(wanted, request_timeout=30).result() == [made]
    assert next(iter(admin.delete_acls([wanted], request_timeout=30).values())).result() == [made]
    assert admin.describe_acls(wanted, request_timeout=30).result() == []
