"""Rules: what each user may do, from a TOML file; a rule that denies takes precedence over all that allow.

The operations, and which of them imply others, are those of Kafka's ACLs (``AclOperation``, ``AclAuthorizer``).
"""

from __future__ import annotations

import logging
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from typing import Any

from ...storage import InvalidConfigError, did_you_mean

LOOK_S = 1.0  # how often the file is checked for changes
REMEMBERED_MAX = 10_000
_REMEMBERED_CHARACTERS_MAX = (
    249  # of a name: the longest of a topic; the client chooses the others, and they take memory
)
USER = "User:"

logger = logging.getLogger(__name__)


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
CLUSTER_NAME = "kafka-cluster"
_INCLUDED = {  # an operation is allowed with any of these
    Operation.DESCRIBE: {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS},
}
_KINDS = {"allow": True, "deny": False}
_FIELDS = ("users", "operations", *Resource)


@dataclass(frozen=True)
class Rule:
    """One rule; a name that ends with ``*`` stands for all names with that prefix."""

    is_allowing: bool
    users: Sequence[str]
    operations: frozenset[str]
    resources: Mapping[Resource, Sequence[str]]

    def holds(self, user: str, operations: Iterable[Operation], resource: Resource, name: str | None) -> bool:
        """Whether the rule applies to this request; ``name`` None: to any resource of the kind."""
        patterns = self.resources.get(resource, ())
        return (
            _matches(self.users, user)
            and (ALL in self.operations or not self.operations.isdisjoint(operations))
            and (bool(patterns) if name is None else _matches(patterns, name))
        )


def _matches(patterns: Sequence[str], name: str) -> bool:
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)


@dataclass(frozen=True)
class Rules:
    """All rules. What no rule allows is denied."""

    rules: Sequence[Rule]
    super_users: frozenset[str] = frozenset()
    _known: dict[tuple[str, Operation, Resource, str | None], bool] = field(default_factory=dict, compare=False)

    def allow(self, principal: str, operation: Operation, resource: Resource, name: str | None) -> bool:
        """Whether ``principal``, such as ``User:alice``, may do this.

        ``name`` None: on at least one resource of the kind.
        """
        asked = principal, operation, resource, name
        known = self._known.get(asked)
        if known is None:
            known = principal in self.super_users or self._decide(*asked)
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            if name is None or len(name) <= _REMEMBERED_CHARACTERS_MAX:
                self._known[asked] = known
        return known

    def _decide(self, principal: str, operation: Operation, resource: Resource, name: str | None) -> bool:
        user = principal.removeprefix(USER)
        is_denied = name is not None and any(
            not each.is_allowing and each.holds(user, (operation,), resource, name) for each in self.rules
        )
        including = _INCLUDED.get(operation, {operation})
        return not is_denied and any(
            each.is_allowing and each.holds(user, including, resource, name) for each in self.rules
        )


class RulesFile:
    """The file of rules.

    A change takes effect within a second; if it has an error, that is logged and the old rules stay.
    """

    def __init__(self, path: str, super_users: Iterable[str], now_s: Callable[[], float] = time.monotonic) -> None:
        """Reads the file. Raises OSError if it cannot be read, and InvalidConfigError if a rule is wrong."""
        self._path, self._super_users, self._now_s = path, frozenset(super_users), now_s
        self._lock = Lock()
        self._seen = self._stamp()
        self._rules = self._read()
        self._look_at_s = now_s() + LOOK_S

    def current(self) -> Rules:
        """Returns the rules, read again if the file has changed. For any thread."""
        if self._now_s() >= self._look_at_s and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._look_at_s = self._now_s() + LOOK_S
                self._lock.release()
        return self._rules

    def _look(self) -> None:
        try:
            seen = self._stamp()
            if seen != self._seen:
                self._seen = seen
                self._rules = self._read()
        except (OSError, InvalidConfigError) as error:
            logger.error("the new rules are not used, the old ones stay: %s", error)

    def _stamp(self) -> object:
        found = os.stat(self._path)
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> Rules:
        with open(self._path, "rb") as file:
            try:
                document = tomllib.load(file)
                return Rules(parse_rules(document), self._super_users)
            except (tomllib.TOMLDecodeError, UnicodeDecodeError, InvalidConfigError) as error:
                raise InvalidConfigError(f"{self._path}: {error}") from None


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
    operations = frozenset(_texts(place, rule, "operations"))
    for other in operations - {ALL, *Operation}:
        known = [ALL, *(one.value for one in Operation)]
        raise InvalidConfigError(f"{place}: there is no operation {other!r}{did_you_mean(other, known)}")
    resources: dict[Resource, Sequence[str]] = {}
    for each in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID):
        if each in rule:
            resources[each] = _texts(place, rule, each)
    if rule.get(Resource.CLUSTER, False) is True:
        resources[Resource.CLUSTER] = (CLUSTER_NAME,)
    elif Resource.CLUSTER in rule and rule[Resource.CLUSTER] is not False:
        raise InvalidConfigError(f"{place}: cluster must be true or false")
    if not resources:
        raise InvalidConfigError(f"{place}: needs one of {', '.join(Resource)}")
    return Rule(_KINDS[kind], _texts(place, rule, "users"), operations, resources)


def _texts(place: str, rule: Mapping[str, Any], name: str) -> Sequence[str]:
    found = rule.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each for each in found):
        raise InvalidConfigError(f'{place}: {name} must be a list of texts, such as ["alice", "team-*"]')
    return found
