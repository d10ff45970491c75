"""The two files of rules: changes by people and by clients, on this node and others, and files that cannot be used."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.security import acls_file
from pyspark_commitlog.gateway.security.acls import (
    Acl,
    AclFilter,
    AclOperation,
    Client,
    FileAcl,
    Pattern,
    PatternType,
    PermissionType,
    ResourceType,
)
from pyspark_commitlog.gateway.security.rule_store import RuleStore
from pyspark_commitlog.gateway.security.rules import Operation, Resource
from pyspark_commitlog.storage import InvalidConfigError, PolicyViolationError

ALICE = Client("User:alice", "10.0.0.1")
RULES = """# a comment
[[allow]]
users = ["alice", "team-*"]
operations = ["read"]
topics = ["orders", "shop-*"]
"""
ANYTHING = AclFilter(ResourceType.ANY, PatternType.ANY, None, None, None, AclOperation.ANY, PermissionType.ANY)


def acl(
    name: str,
    operation: AclOperation = AclOperation.READ,
    how: PermissionType = PermissionType.ALLOW,
    principal: str = "User:alice",
    pattern_type: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(Pattern(ResourceType.TOPIC, pattern_type, name), principal, "*", operation, how)


class Store:
    """A store whose clock stands until it is moved."""

    def __init__(self, path: Path) -> None:
        self.now_s = 0.0
        self.store = RuleStore(str(path), now_s=lambda: self.now_s)

    def may_read(self, topic: str = "orders", *, after_s: float = 0.0) -> bool:
        self.now_s += after_s
        return self.store.current().allow(ALICE, Operation.READ, Resource.TOPIC, topic)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return path


def test_a_change_is_seen_and_a_wrong_one_changes_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(path)
    assert store.may_read(after_s=10)
    path.write_text(RULES.replace('"alice"', '"bob", "carol"'))
    assert not store.may_read(after_s=10)
    path.write_text("[[allow")
    assert not any(store.may_read(after_s=10) for _ in range(3))
    assert len(caplog.records) == 1  # a problem that stays is logged once
    path.write_text(RULES)
    assert store.may_read(after_s=10)
    path.unlink()
    assert store.may_read(after_s=10)


def test_acls_are_in_force_here_at_once_and_elsewhere_within_a_second(path: Path) -> None:
    here, there = Store(path), Store(path)
    here.store.create([acl("letters")])
    assert here.may_read("letters")
    assert not there.may_read("letters")
    assert there.may_read("letters", after_s=1)
    there.store.create([acl("letters", how=PermissionType.DENY)])
    assert not there.may_read("letters")
    assert not here.may_read("letters", after_s=1)


def test_acls_of_two_nodes_are_kept_together_and_after_a_start(path: Path) -> None:
    here, there = Store(path), Store(path)
    here.store.create([acl("a")])
    there.store.create([acl("b"), acl("a")])
    assert there.may_read("a")
    again = RuleStore(str(path))
    assert [each for each in again.current().acls() if not isinstance(each, FileAcl)] == [acl("a"), acl("b")]


def test_what_a_person_wrote_is_shown_but_neither_deleted_nor_rewritten(path: Path) -> None:
    store = RuleStore(str(path))
    store.create([acl("orders")])
    found = store.delete([ANYTHING])[0]
    assert [(type(each), each.principal, each.pattern.pattern_type.name, each.pattern.name) for each in found] == [
        (FileAcl, "User:alice", "LITERAL", "orders"),
        (FileAcl, "User:team-*", "LITERAL", "orders"),
        (FileAcl, "User:alice", "PREFIXED", "shop-"),
        (FileAcl, "User:team-*", "PREFIXED", "shop-"),
        (Acl, "User:alice", "LITERAL", "orders"),
    ]
    assert {each.rule for each in found if isinstance(each, FileAcl)} == {"[[allow]] number 1"}
    assert path.read_text() == RULES
    assert store.current().allow(ALICE, Operation.READ, Resource.TOPIC, "orders")
    assert all(isinstance(each, FileAcl) for each in store.current().acls())


def test_each_filter_finds_what_was_there_before_the_request(path: Path) -> None:
    store = RuleStore("", str(path.with_suffix(".json")))
    store.create([acl("a"), acl("b")])
    only_a = AclFilter(ResourceType.TOPIC, PatternType.LITERAL, "a", None, None, AclOperation.ANY, PermissionType.ANY)
    assert store.delete([ANYTHING, only_a]) == [[acl("a"), acl("b")], [acl("a")]]
    assert not list(store.current().acls())


def test_the_file_of_acls_is_private_and_readable(path: Path) -> None:
    RuleStore(str(path)).create([acl("é", AclOperation.WRITE, PermissionType.DENY)])
    kept = Path(f"{path}.acls.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text()) == {
        "version": 1,
        "acls": [
            {
                "resource_type": "TOPIC",
                "pattern_type": "LITERAL",
                "resource_name": "é",
                "principal": "User:alice",
                "host": "*",
                "operation": "WRITE",
                "permission_type": "DENY",
            }
        ],
    }


def test_every_change_gives_the_file_another_stamp(path: Path) -> None:
    here, there = Store(path), Store(path)
    for number in range(40):  # within few ticks of the system's clock, with inodes and sizes that come back
        here.store.delete([ANYTHING])
        here.store.create([acl("even" if number % 2 else "odds")])
        assert there.may_read("even", after_s=1) is bool(number % 2)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda kept: kept.write_text("{"), id="torn"),
        pytest.param(lambda kept: kept.write_text('{"version": 2, "acls": []}'), id="from another version"),
        pytest.param(lambda kept: kept.write_text('{"version": 1, "acls": [{}]}'), id="an ACL without fields"),
        pytest.param(lambda kept: kept.write_text("[]"), id="something else"),
        pytest.param(Path.unlink, id="missing"),
    ],
)
def test_a_damaged_file_of_acls_drops_no_deny(path: Path, spoil: Callable[[Path], None]) -> None:
    store = Store(path)
    store.store.create([acl("orders", how=PermissionType.DENY)])
    kept = Path(f"{path}.acls.json")
    spoil(kept)
    assert not store.may_read(after_s=10)
    with pytest.raises(InvalidConfigError, match=kept.name):
        store.store.create([acl("letters")])
    assert not store.may_read(after_s=10)
    if kept.exists():
        with pytest.raises(InvalidConfigError, match=f"{kept.name}: not a file of ACLs"):
            RuleStore(str(path))


def test_a_file_of_acls_cannot_grow_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls_file, "FILE_CHARACTERS_MAX", 1000)
    store = Store(path)
    store.store.create([acl("letters")])
    with pytest.raises(PolicyViolationError, match="use prefixes, or delete some"):
        store.store.create([acl(f"letters-{number}") for number in range(10)])
    assert store.may_read("letters")
    assert not store.may_read("letters-1", after_s=1)


def test_a_deny_that_could_not_be_kept_raises_and_is_in_force_once_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(OSError, match="No space left"):
            store.store.create([acl("orders", how=PermissionType.DENY)])
    assert store.may_read(after_s=10)
    assert store.may_read()
    store.store.create([acl("orders", how=PermissionType.DENY)])
    assert not store.may_read()
