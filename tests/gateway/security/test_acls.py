"""ACLs, their filters, and what cannot be kept."""

from __future__ import annotations

import pytest

from pyspark_commitlog.gateway.security.acls import (
    Acl,
    AclFilter,
    AclOperation,
    Client,
    Pattern,
    PatternType,
    PermissionType,
    ResourceType,
)

LITERAL, PREFIXED, MATCH, ANY = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY


def acl(
    name: str = "t",
    how: PatternType = LITERAL,
    kind: ResourceType = ResourceType.TOPIC,
    principal: str = "User:a",
    host: str = "*",
    operation: AclOperation = AclOperation.READ,
    permission_type: PermissionType = PermissionType.ALLOW,
) -> Acl:
    return Acl(Pattern(kind, how, name), principal, host, operation, permission_type)


@pytest.mark.parametrize(
    ("how", "name", "found"),
    [
        (ANY, None, {"*", "shop", "shop-", "s"}),
        (MATCH, None, {"*", "shop", "shop-", "s"}),
        (LITERAL, None, {"*", "shop"}),
        (PREFIXED, None, {"shop-", "s"}),
        (ANY, "shop", {"shop"}),
        (MATCH, "shop", {"*", "shop", "s"}),
        (MATCH, "shop-1", {"*", "shop-", "s"}),
        (MATCH, "*", {"*"}),
        (LITERAL, "*", {"*"}),
        (LITERAL, "shop-1", set()),
        (PREFIXED, "shop-1", set()),
        (PREFIXED, "s", {"s"}),
    ],
)
def test_filters_by_names(how: PatternType, name: str | None, found: set[str]) -> None:
    acls = [acl("*"), acl("shop"), acl("shop-", PREFIXED), acl("s", PREFIXED)]
    wanted = AclFilter(ResourceType.TOPIC, how, name, None, None, AclOperation.ANY, PermissionType.ANY)
    assert {each.pattern.name for each in acls if wanted.matches(each)} == found


@pytest.mark.parametrize(
    "other",
    [
        acl(kind=ResourceType.GROUP),
        acl(principal="User:*"),
        acl(host="10.0.0.1"),
        acl(operation=AclOperation.ALL),
        acl(permission_type=PermissionType.DENY),
    ],
)
def test_a_filter_finds_what_is_equal_in_all_fields(other: Acl) -> None:
    wanted = AclFilter(ResourceType.TOPIC, ANY, "t", "User:a", "*", AclOperation.READ, PermissionType.ALLOW)
    assert wanted.matches(acl())
    assert not wanted.matches(other)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (acl(kind=ResourceType(99)), "resourceType UNKNOWN"),
        (acl(kind=ResourceType.ANY), "resourceType ANY"),
        (acl(how=MATCH), "patternType MATCH"),
        (acl(operation=AclOperation.ANY), "operation ANY"),
        (acl(permission_type=PermissionType(0)), "permissionType UNKNOWN"),
        (acl("other", kind=ResourceType.CLUSTER), "only valid name for the CLUSTER resource is kafka-cluster"),
        (acl(""), "should not be empty"),
        (acl(principal="alice"), "no colon is present"),
    ],
)
def test_what_nothing_could_ask_for_is_a_problem(wrong: Acl, said: str) -> None:
    assert said in (wrong.problem() or "")
    assert acl().problem() is None


def test_a_filter_of_unknown_codes_is_a_problem() -> None:
    fields = (None, None, None)
    wanted = AclFilter(ResourceType.ANY, ANY, *fields, AclOperation(77), PermissionType.ANY)
    assert wanted.problem()


@pytest.mark.parametrize(
    ("host", "comes_from", "is_covered"),
    [
        ("*", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("0:0:0:0:0:0:0:1", "::1", True),  # as Java writes it
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("example.com", "10.0.0.1", False),
    ],
)
def test_a_host_is_an_address_in_any_spelling(host: str, comes_from: str, is_covered: bool) -> None:
    assert acl(host=host).covers(Client("User:a", comes_from)) is is_covered
