"""Rules: what each user may do; a rule that denies takes precedence over all that allow.

Rules are those of a TOML file, and ACLs that clients created. They have the meaning that ``StandardAuthorizer`` gives
to ACLs (``StandardAuthorizerData``, ``Authorizer.authorizeByResourceType``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from ...storage import InvalidConfigError, did_you_mean
from .acls import (
    ANY_HOST,
    ANY_NAME,
    CLUSTER_NAME,
    Acl,
    AclOperation,
    Client,
    FileAcl,
    Pattern,
    PatternType,
    PermissionType,
    ResourceType,
)

REMEMBERED_MAX = 10_000
_REMEMBERED_CHARACTERS_MAX = (
    249  # the limit of a name: a topic's longest; clients choose the other names, which take memory
)
USER = "User:"
_UNUSED_NAME = "hardcode"  # of ``Authorizer.authorizeByResourceType``


class Operation(StrEnum):
    """Operations on a resource."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    CLUSTER_ACTION = "cluster_action"
    IDEMPOTENT_WRITE = "idempotent_write"


class Resource(StrEnum):
    """The kinds of resources that rules name."""

    TOPIC = "topics"
    GROUP = "groups"
    TRANSACTIONAL_ID = "transactional_ids"
    CLUSTER = "cluster"


ALL = "all"
_CODES = {each: AclOperation[each.name] for each in Operation}
_TYPES = {each: ResourceType[each.name] for each in Resource}
_INCLUDED = {  # any of these allows the operation, too; each is denied only by itself
    Operation.DESCRIBE: (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
}


def _codes(operations: Iterable[Operation]) -> frozenset[AclOperation]:
    return frozenset((AclOperation.ALL, *(_CODES[each] for each in operations)))


_DENYING = {each: _codes((each,)) for each in Operation}  # the operations of rules that deny it
_ALLOWING = {each: _codes(_INCLUDED.get(each, (each,))) for each in Operation}
_KINDS = {"allow": PermissionType.ALLOW, "deny": PermissionType.DENY}
_FIELDS = ("users", "operations", *Resource)


class Entry(Protocol):
    """A rule or an ACL."""

    @property
    def is_allowing(self) -> bool: ...

    @property
    def operations(self) -> frozenset[AclOperation]: ...

    @property
    def patterns(self) -> Sequence[Pattern]: ...

    def covers(self, client: Client) -> bool: ...


@dataclass(frozen=True)
class Rule:
    """One rule of the file; the name of a user that ends with ``*`` stands for all names with that prefix."""

    permission_type: PermissionType
    users: Sequence[str]
    operations: frozenset[AclOperation]
    patterns: Sequence[Pattern]
    place: str  # such as [[allow]] number 1

    @property
    def is_allowing(self) -> bool:
        """Whether it allows; otherwise it denies."""
        return self.permission_type is PermissionType.ALLOW

    def covers(self, client: Client) -> bool:
        """Whether it is about this client."""
        user = client.principal.removeprefix(USER)
        return any(user.startswith(each[:-1]) if each.endswith("*") else user == each for each in self.users)

    def acls(self) -> Iterator[FileAcl]:
        """Yields the rule as ACLs, one for each user, operation and pattern."""
        for pattern in self.patterns:
            for user in self.users:
                for operation in sorted(self.operations):
                    yield FileAcl(pattern, USER + user, ANY_HOST, operation, self.permission_type, self.place)


class _Index:
    """Finds the entries about a resource."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._of: dict[Pattern, list[Entry]] = {}
        for entry in entries:
            for pattern in entry.patterns:
                self._of.setdefault(pattern, []).append(entry)
        prefixes = (each for each in self._of if each.pattern_type is PatternType.PREFIXED)
        self._lengths = sorted({len(each.name) for each in prefixes})

    def about(self, kind: ResourceType, name: str) -> list[Entry]:
        """Returns the entries about a resource, for all clients."""
        patterns = [Pattern(kind, PatternType.LITERAL, each) for each in {name, ANY_NAME}]
        patterns += [
            Pattern(kind, PatternType.PREFIXED, name[:length]) for length in self._lengths if length <= len(name)
        ]
        return [entry for pattern in patterns for entry in self._of.get(pattern, ())]

    def of_kind(self, kind: ResourceType) -> Iterator[tuple[Pattern, list[Entry]]]:
        """Yields the patterns of a kind of resource, with their entries."""
        return (each for each in self._of.items() if each[0].resource_type is kind)


class Rules:
    """All rules. What no rule allows is denied."""

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        super_users: frozenset[str] = frozenset(),
        acls: Sequence[Acl] = (),
        *,
        allows_without_acls: bool = False,
    ) -> None:
        """``super_users``: principals that may do everything.

        ``allows_without_acls``: whether everyone may use a resource without any rule or ACL
        (``allow.everyone.if.no.acl.found``).
        """
        self._rules, self._acls, self._super_users = rules, acls, super_users
        self._allows_without_acls = allows_without_acls
        self._index = _Index([*rules, *acls])
        self._has_hosts = any(each.host != ANY_HOST for each in acls)
        self._known: dict[tuple[object, ...], bool] = {}

    @property
    def count(self) -> int:
        """About how many ACLs there are."""
        return len(self._acls) + sum(
            len(each.users) * len(each.operations) * len(each.patterns) for each in self._rules
        )

    def acls(self) -> Iterator[Acl]:
        """Yields everything that is in force, as ACLs: rules of the file are :class:`FileAcl`."""
        for rule in self._rules:
            yield from rule.acls()
        yield from self._acls

    def allow(self, client: Client, operation: Operation, resource: Resource, name: str | None) -> bool:
        """Whether a client may do this; ``name`` None: on at least one resource of the kind."""
        asked = client.principal, client.host if self._has_hosts else "", operation, resource, name
        known = self._known.get(asked)
        if known is None:
            known = client.principal in self._super_users or self._decide(client, operation, resource, name)
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            if name is None or len(name) <= _REMEMBERED_CHARACTERS_MAX:
                self._known[asked] = known
        return known

    def _decide(self, client: Client, operation: Operation, resource: Resource, name: str | None) -> bool:
        if name is None:
            return self._allows_some(client, operation, _TYPES[resource])
        return self._decides_about(client, operation, _TYPES[resource], name)

    def _decides_about(self, client: Client, operation: Operation, kind: ResourceType, name: str) -> bool:
        found = self._index.about(kind, name)
        if not found:
            return self._allows_without_acls
        mine = [each for each in found if each.covers(client)]
        is_denied = any(not each.is_allowing and _DENYING[operation] & each.operations for each in mine)
        return not is_denied and any(each.is_allowing and _ALLOWING[operation] & each.operations for each in mine)

    def _allows_some(self, client: Client, operation: Operation, kind: ResourceType) -> bool:
        """Whether a client may do this with at least one resource, which need not exist.

        An allowed pattern counts unless denied patterns cover all of it. As in Kafka, an unused name stands for
        resources without rules.
        """
        if self._decides_about(client, operation, kind, _UNUSED_NAME):
            return True
        allowed: list[Pattern] = []
        denied: set[Pattern] = set()
        for pattern, entries in self._index.of_kind(kind):
            for each in entries:
                if _DENYING[operation] & each.operations and each.covers(client):
                    (allowed.append if each.is_allowing else denied.add)(pattern)
        if Pattern(kind, PatternType.LITERAL, ANY_NAME) in denied:
            return False
        return any(not _is_within(each, denied) for each in allowed)


def _is_within(pattern: Pattern, denied: set[Pattern]) -> bool:
    """Whether all resources of a pattern are denied."""
    kind, how, name = pattern
    if how is PatternType.LITERAL and name == ANY_NAME:
        return False
    prefixes = (Pattern(kind, PatternType.PREFIXED, name[:length]) for length in range(1, len(name) + 1))
    return (how is PatternType.LITERAL and pattern in denied) or any(each in denied for each in prefixes)


def parse_rules(document: Mapping[str, Any]) -> Sequence[Rule]:
    """Returns the rules in a file's ``[[allow]]`` and ``[[deny]]`` tables.

    Raises InvalidConfigError if one is wrong.
    """
    for kind, rules in document.items():
        if kind not in _KINDS or not isinstance(rules, list):
            raise InvalidConfigError(f"{kind} is neither [[allow]] nor [[deny]]")
    return [_parsed(kind, number, rule) for kind, rules in document.items() for number, rule in enumerate(rules, 1)]


def _parsed(kind: str, number: int, rule: Any) -> Rule:
    place = f"[[{kind}]] number {number}"
    if not isinstance(rule, dict):
        raise InvalidConfigError(f"{place}: must be a table")
    for name in rule:
        if name not in _FIELDS:
            raise InvalidConfigError(f"{place}: unknown field {name}{did_you_mean(name, _FIELDS)}")
    named = frozenset(_texts(place, rule, "operations"))
    for other in named - {ALL, *Operation}:
        known = [ALL, *(one.value for one in Operation)]
        raise InvalidConfigError(f"{place}: there is no operation {other!r}{did_you_mean(other, known)}")
    operations = frozenset(AclOperation.ALL if each == ALL else _CODES[Operation(each)] for each in named)
    patterns = [
        _pattern(_TYPES[each], name)
        for each in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID)
        if each in rule
        for name in _texts(place, rule, each)
    ]
    if rule.get(Resource.CLUSTER, False) is True:
        patterns.append(Pattern(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME))
    elif Resource.CLUSTER in rule and rule[Resource.CLUSTER] is not False:
        raise InvalidConfigError(f"{place}: cluster must be true or false")
    if not patterns:
        raise InvalidConfigError(f"{place}: needs one of {', '.join(Resource)}")
    return Rule(_KINDS[kind], _texts(place, rule, "users"), operations, patterns, place)


def _pattern(kind: ResourceType, name: str) -> Pattern:
    """Returns the pattern of a name in the file, where a ``*`` at the end makes it a prefix."""
    if name.endswith("*") and name != ANY_NAME:
        return Pattern(kind, PatternType.PREFIXED, name[:-1])
    return Pattern(kind, PatternType.LITERAL, name)


def _texts(place: str, rule: Mapping[str, Any], name: str) -> Sequence[str]:
    found = rule.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each for each in found):
        raise InvalidConfigError(f'{place}: {name} must be a list of texts, such as ["alice", "team-*"]')
    return found
