"""Rules: prefixes, deny wins, operations that include others, and files that cannot be used."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.security.acls import Client
from pyspark_commitlog.gateway.security.rule_store import RuleStore
from pyspark_commitlog.gateway.security.rules import Operation, Resource, Rules, parse_rules
from pyspark_commitlog.storage import InvalidConfigError

RULES = """
[[allow]]
users = ["alice"]
operations = ["read", "write"]
topics = ["orders", "shop-*"]
groups = ["shop-*"]

[[deny]]
users = ["*"]
operations = ["write"]
topics = ["shop-closed"]

[[allow]]
users = ["team-*"]
operations = ["all"]
topics = ["*"]
cluster = true
"""


def allows(user: str, operation: Operation, resource: Resource, name: str | None, text: str = RULES) -> bool:
    return Rules(parse_rules(tomllib.loads(text))).allow(Client(f"User:{user}", "127.0.0.1"), operation, resource, name)


@pytest.mark.parametrize(
    ("user", "operation", "topic", "is_allowed"),
    [
        ("alice", Operation.READ, "orders", True),
        ("alice", Operation.READ, "orders-2", False),
        ("alice", Operation.WRITE, "shop-x", True),
        ("alice", Operation.DELETE, "orders", False),
        ("alice", Operation.DESCRIBE, "orders", True),
        ("alice", Operation.DESCRIBE_CONFIGS, "orders", False),
        ("alice", Operation.READ, "shop-closed", True),
        ("alice", Operation.WRITE, "shop-closed", False),
        ("alice", Operation.DESCRIBE, "shop-closed", True),
        ("alicea", Operation.READ, "orders", False),
        ("team-a", Operation.ALTER_CONFIGS, "anything", True),
        ("team-a", Operation.WRITE, "shop-closed", False),
        ("ANONYMOUS", Operation.READ, "orders", False),
    ],
)
def test_topics(user: str, operation: Operation, topic: str, is_allowed: bool) -> None:
    assert allows(user, operation, Resource.TOPIC, topic) is is_allowed


def test_other_resources() -> None:
    assert allows("alice", Operation.READ, Resource.GROUP, "shop-1")
    assert not allows("alice", Operation.READ, Resource.GROUP, "orders")
    assert not allows("alice", Operation.WRITE, Resource.TRANSACTIONAL_ID, "shop-1")
    assert allows("team-a", Operation.CREATE, Resource.CLUSTER, "kafka-cluster")
    assert not allows("alice", Operation.CREATE, Resource.CLUSTER, "kafka-cluster")
    assert allows("alice", Operation.WRITE, Resource.TOPIC, None)
    assert not allows("bob", Operation.WRITE, Resource.TOPIC, None)


def test_prefixes_within_others_and_of_one_letter_count() -> None:
    text = "\n".join(
        f'[[allow]]\nusers = ["{user}"]\noperations = ["read"]\ntopics = ["{topic}"]'
        for user, topic in (("ann", "f*"), ("bob", "fa*"), ("cid", "fb*"))
    )
    allowed = {user for user in ("ann", "bob", "cid") if allows(user, Operation.READ, Resource.TOPIC, "fabric", text)}
    assert allowed == {"ann", "bob"}


def test_who_may_use_what_no_rule_is_about_may_not_use_what_others_may() -> None:
    rules = Rules(parse_rules(tomllib.loads(RULES.rpartition("[[allow]]")[0])), allows_without_acls=True)
    bob = Client("User:bob", "127.0.0.1")
    assert [rules.allow(bob, Operation.READ, Resource.TOPIC, each) for each in ("free", "orders")] == [True, False]


def test_super_users_may_do_everything() -> None:
    rules = Rules(parse_rules(tomllib.loads(RULES)), frozenset({"User:root"}))
    assert rules.allow(Client("User:root", "127.0.0.1"), Operation.WRITE, Resource.TOPIC, "shop-closed")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", r"x is neither \[\[allow\]\] nor \[\[deny\]\]"),
        ("[allow]\nusers = ['a']", "allow is neither"),
        ("[[allow]]\nuser = ['a']", r"\[\[allow\]\] number 1: unknown field user \(did you mean 'users'"),
        ("[[allow]]\nusers = 'a'\noperations = ['read']\ntopics = ['t']", "users must be a list"),
        (
            "[[allow]]\nusers = ['a']\noperations = ['reed']\ntopics = ['t']",
            r"no operation 'reed' \(did you mean 'read'",
        ),
        ("[[deny]]\nusers = ['a']\noperations = ['read']", "needs one of topics, groups, transactional_ids, cluster"),
        ("[[deny]]\nusers = ['a']\noperations = ['read']\ncluster = 'yes'", "cluster must be true or false"),
        ("[[deny]", r"rules\.toml: "),
    ],
)
def test_a_wrong_rule_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(InvalidConfigError, match=said) as error:
        RuleStore(str(path))
    assert str(path) in str(error.value)
