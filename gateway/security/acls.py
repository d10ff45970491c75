"""ACLs as Kafka's clients name them: one permission each, and filters that find them.

The numbers are those of the protocol (``ResourceType``, ``PatternType``, ``AclOperation``, ``AclPermissionType``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Self

from ...protocol.errors import shortened
from ..listeners import canonical_host

ANY_NAME = ANY_HOST = "*"
CLUSTER_NAME = "kafka-cluster"
EVERY_USER = "User:*"


class _Code(IntEnum):
    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)  # Kafka, too, calls all other numbers UNKNOWN


class ResourceType(_Code):
    """Kinds of resources."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How the name of a resource is matched; ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """Operations of ACLs; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class PermissionType(_Code):
    """Whether an ACL allows or denies; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Pattern(NamedTuple):
    """The resources that a rule is about. The name ``*`` of a literal pattern stands for all names."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str


class Client(NamedTuple):
    """The user of a connection, and the address that it comes from."""

    principal: str  # such as User:alice
    host: str


@dataclass(frozen=True)
class Acl:
    """One permission of one principal on one pattern of resources."""

    pattern: Pattern
    principal: str
    host: str
    operation: AclOperation
    permission_type: PermissionType

    @property
    def is_allowing(self) -> bool:
        """Whether it allows; otherwise it denies."""
        return self.permission_type is PermissionType.ALLOW

    @property
    def operations(self) -> frozenset[AclOperation]:
        """The operation."""
        return frozenset((self.operation,))

    @property
    def patterns(self) -> tuple[Pattern]:
        """The pattern."""
        return (self.pattern,)

    def covers(self, client: Client) -> bool:
        """Whether it is about this client."""
        return self.principal in (client.principal, EVERY_USER) and (
            self.host == ANY_HOST or canonical_host(self.host) == canonical_host(client.host)
        )

    def problem(self) -> str | None:
        """Returns why the ACL is invalid; None if it is valid (``AclControlManager.validateNewAcl``)."""
        kind, how, name = self.pattern
        problems = (
            (kind <= ResourceType.ANY, f"Invalid resourceType {kind.name}"),
            (how not in (PatternType.LITERAL, PatternType.PREFIXED), f"Invalid patternType {how.name}"),
            (self.operation <= AclOperation.ANY, f"Invalid operation {self.operation.name}"),
            (self.permission_type <= PermissionType.ANY, f"Invalid permissionType {self.permission_type.name}"),
            (
                kind is ResourceType.CLUSTER and name != CLUSTER_NAME,
                f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}",
            ),
            (not name, "Resource name should not be empty"),
            (
                ":" not in self.principal,
                f"Could not parse principal from `{self.principal}` (no colon is present separating the principal type "
                "from the principal name)",
            ),
        )
        return next((shortened(text) for is_wrong, text in problems if is_wrong), None)


@dataclass(frozen=True)
class FileAcl(Acl):
    """A permission of a rule in the file of rules. Its principal may end with ``*``: then it is a prefix."""

    rule: str  # such as [[allow]] number 1


@dataclass(frozen=True)
class AclFilter:
    """A filter of ACLs; None: all principals, hosts or names."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str | None
    principal: str | None
    host: str | None
    operation: AclOperation
    permission_type: PermissionType

    def problem(self) -> str | None:
        """Returns why this filter can match nothing; None if it can match."""
        codes = self.resource_type, self.pattern_type, self.operation, self.permission_type
        return "the filter has an unknown element" if 0 in codes else None

    def matches(self, acl: Acl) -> bool:
        """Whether an ACL matches (``AclBindingFilter.matches``)."""
        return (
            self._matches_pattern(acl.pattern)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
        )

    def _matches_pattern(self, pattern: Pattern) -> bool:
        kind, how, name = pattern
        if self.resource_type not in (ResourceType.ANY, kind):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, how):
            return False
        if self.name is None or self.pattern_type is not PatternType.MATCH:
            return self.name in (None, name)
        return is_match(pattern, self.name)


def is_match(pattern: Pattern, name: str) -> bool:
    """Whether a pattern is about the resource of this name."""
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, ANY_NAME)
