"""What a turn may serve: nothing that a rule forbids, and nothing that counts for a quota."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.quotas.entities import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    Quotas,
)
from pyspark_commitlog.gateway.quotas.throttle import Throttle
from pyspark_commitlog.gateway.security.acls import (
    Acl,
    AclOperation,
    Client,
    Pattern,
    PatternType,
    PermissionType,
    ResourceType,
)
from pyspark_commitlog.gateway.security.rule_store import RuleStore
from pyspark_commitlog.gateway.turns.rights import Rights

RULES = """
[[allow]]
users = ["alice"]
operations = ["write"]
topics = ["orders"]
transactional_ids = ["shop"]
"""
ALICE, BOB = Client("User:alice", "127.0.0.1"), Client("User:bob", "127.0.0.1")


def rights(rules: RuleStore | None, quotas: Mapping[Entity, Mapping[str, float]] | None = None) -> Rights:
    found = Quotas(quotas or {})
    return Rights(rules, Throttle(lambda: found))


@pytest.fixture
def rules(tmp_path: Path) -> RuleStore:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return RuleStore(str(path))


def test_without_rules_everyone_may_write() -> None:
    assert rights(None).may_write(BOB, "orders")
    assert rights(None).may_use(BOB, "shop")


def test_rules_decide_topics_and_transactional_ids_apart(rules: RuleStore) -> None:
    asked = rights(rules)
    assert [asked.may_write(each, "orders") for each in (ALICE, BOB)] == [True, False]
    assert [asked.may_use(each, "shop") for each in (ALICE, BOB)] == [True, False]
    assert not asked.may_write(ALICE, "shop")
    assert not asked.may_use(ALICE, "orders")


def test_a_rule_that_is_created_counts_for_the_next_request(rules: RuleStore) -> None:
    asked = rights(rules)
    assert not asked.may_write(BOB, "orders")
    pattern = Pattern(ResourceType.TOPIC, PatternType.LITERAL, "orders")
    rules.create([Acl(pattern, "User:bob", "*", AclOperation.WRITE, PermissionType.ALLOW)])
    assert asked.may_write(BOB, "orders")


@pytest.mark.parametrize("key", [PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE])
def test_once_a_client_has_a_quota_of_produce_requests_all_of_them_go_the_usual_way(key: str) -> None:
    quotas = {Entity.of({"client-id": "other"}): {key: 1.0}}
    assert not rights(None, quotas).may_write(ALICE, "orders")


def test_a_quota_of_other_requests_stops_nobody() -> None:
    quotas = {Entity.of({"client-id": "other"}): {CONSUMER_BYTE_RATE: 1.0}}
    assert rights(None, quotas).may_write(ALICE, "orders")
