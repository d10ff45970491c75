"""Random sets of ACLs with questions about them, and a slow twin of the rules, written from Kafka's documentation."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_commitlog.gateway.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    Client,
    Pattern,
    PatternType,
    PermissionType,
    ResourceType,
)
from pyspark_commitlog.gateway.security.rules import Operation, Resource, Rules

ASKED = ("a", "ab", "abc", "b", "ha", "hardcode")
NAMES = ("*", "*a", *ASKED)  # Kafka's authorizer overlooks ``*`` for names that begin with it, so none is asked for
USERS = ("User:alice", "User:bob", "User:root")
HOSTS = ("127.0.0.1", "10.0.0.1")
SUPER_USER = "User:root"
KINDS = tuple(ResourceType[each.name] for each in Resource)
OPERATIONS = (AclOperation.ALL, *(AclOperation[each.name] for each in Operation))
IMPLIED = {  # what each allowed operation allows besides (docs/security/authorization-and-acls)
    "READ": {"DESCRIBE"},
    "WRITE": {"DESCRIBE"},
    "DELETE": {"DESCRIBE"},
    "ALTER": {"DESCRIBE"},
    "ALTER_CONFIGS": {"DESCRIBE_CONFIGS"},
}


@dataclass(frozen=True)
class Asked:
    """A client that wants to do something; ``name`` None: with any resource of the kind."""

    client: Client
    operation: Operation
    resource: Resource
    name: str | None


@dataclass(frozen=True)
class AclSet:
    """A set of ACLs, questions whether clients may do something, and filters."""

    acls: Sequence[Acl]
    allows_without_acls: bool
    asked: Sequence[Asked]
    filters: Sequence[AclFilter]

    def rules(self) -> Rules:
        """The set as the gateway has it."""
        return Rules((), frozenset((SUPER_USER,)), self.acls, allows_without_acls=self.allows_without_acls)

    def as_json(self) -> Mapping[str, Any]:
        """The set for Kafka's authorizer."""
        return {
            "acls": [_json(each.pattern, each) for each in self.acls],
            "everyone": str(self.allows_without_acls).lower(),
            "super_users": SUPER_USER,
            "asked": [
                {
                    "principal": each.client.principal,
                    "host": each.client.host,
                    "operation": int(AclOperation[each.operation.name]),
                    "resource_type": int(ResourceType[each.resource.name]),
                    "resource_name": each.name,
                }
                for each in self.asked
            ],
            "filters": [_json((each.resource_type, each.pattern_type, each.name), each) for each in self.filters],
        }


def _json(pattern: tuple[ResourceType, PatternType, str | None], entry: Acl | AclFilter) -> Mapping[str, Any]:
    kind, how, name = pattern
    return {
        "resource_type": int(kind),
        "pattern_type": int(how),
        "resource_name": name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": int(entry.operation),
        "permission_type": int(entry.permission_type),
    }


def random_set(chance: random.Random) -> AclSet:
    """Few names, users and hosts, so that much of a set is about the same."""
    acls = list(dict.fromkeys(_random_acl(chance) for _ in range(chance.choice((0, 1, 3, 8, 20)))))
    asked = [_random_asked(chance) for _ in range(20)]
    return AclSet(acls, chance.random() < 0.5, asked, [_random_filter(chance) for _ in range(5)])


def _random_acl(chance: random.Random) -> Acl:
    kind, how = chance.choice(KINDS), chance.choice((PatternType.LITERAL, PatternType.PREFIXED))
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else chance.choice(NAMES)
    permission_type = chance.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY))
    principal, host = chance.choice((*USERS, "User:*")), chance.choice(("*", "*", *HOSTS))
    return Acl(Pattern(kind, how, name), principal, host, chance.choice(OPERATIONS), permission_type)


def _random_asked(chance: random.Random) -> Asked:
    resource = chance.choice(tuple(Resource))
    name = CLUSTER_NAME if resource is Resource.CLUSTER else chance.choice((None, *ASKED))
    client = Client(chance.choice((*USERS, "User:carol")), chance.choice((*HOSTS, "::1")))
    return Asked(client, chance.choice(tuple(Operation)), resource, name)


def _random_filter(chance: random.Random) -> AclFilter:
    return AclFilter(
        chance.choice((ResourceType.ANY, *KINDS)),
        chance.choice((PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)),
        chance.choice((None, CLUSTER_NAME, *NAMES)),
        chance.choice((None, None, "User:*", *USERS)),
        chance.choice((None, None, "*", *HOSTS)),
        chance.choice((AclOperation.ANY, *OPERATIONS)),
        chance.choice((PermissionType.ANY, PermissionType.ALLOW, PermissionType.DENY)),
    )


def expected(of: AclSet, asked: Asked) -> bool:
    """What Kafka's documentation says: super users may do all; a deny wins; then an allow; then the default."""
    if asked.client.principal == SUPER_USER:
        return True
    if asked.name is None:
        return _expected_of_some(of, asked)
    kind = asked.resource.name
    about = [
        each for each in of.acls if each.pattern.resource_type.name == kind and _is_about(each.pattern, asked.name)
    ]
    if not about:
        return of.allows_without_acls
    mine = [each for each in about if _is_for(each, asked.client)]
    wanted = asked.operation.name
    denied = any(each.permission_type.name == "DENY" and each.operation.name in ("ALL", wanted) for each in mine)
    allowed = any(
        each.permission_type.name == "ALLOW"
        and (each.operation.name in ("ALL", wanted) or wanted in IMPLIED.get(each.operation.name, ()))
        for each in mine
    )
    return allowed and not denied


def _is_about(pattern: Pattern, name: str) -> bool:
    if pattern.pattern_type.name == "PREFIXED":
        return name[: len(pattern.name)] == pattern.name
    return pattern.name in ("*", name)


def _is_for(acl: Acl, client: Client) -> bool:
    return acl.principal in ("User:*", client.principal) and acl.host in ("*", client.host)


def _expected_of_some(of: AclSet, asked: Asked) -> bool:
    """Whether there could be a resource: an allowed pattern that no denied one includes (KIP-679)."""
    if expected(of, Asked(asked.client, asked.operation, asked.resource, "hardcode")):
        return True
    mine = [
        each
        for each in of.acls
        if each.pattern.resource_type.name == asked.resource.name
        and _is_for(each, asked.client)
        and each.operation.name in ("ALL", asked.operation.name)
    ]
    denied = [each.pattern for each in mine if each.permission_type.name == "DENY"]
    if any(each.pattern_type.name == "LITERAL" and each.name == "*" for each in denied):
        return False
    return any(
        not any(_includes(each, acl.pattern) for each in denied) for acl in mine if acl.permission_type.name == "ALLOW"
    )


def _includes(denied: Pattern, allowed: Pattern) -> bool:
    is_everything = allowed.pattern_type.name == "LITERAL" and allowed.name == "*"
    if denied.pattern_type.name == "PREFIXED":
        return not is_everything and allowed.name.startswith(denied.name)
    return allowed.pattern_type.name == "LITERAL" and allowed.name == denied.name
