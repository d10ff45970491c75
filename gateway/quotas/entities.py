"""The owners of quotas: a user, a client id, both, an address, or all clients without a quota of their own.

The order in which a client's quota is found is that of Kafka (``ClientQuotaManager``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE = "request_percentage", "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
OF_CLIENTS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
KEYS = (*OF_CLIENTS, CONNECTION_CREATION_RATE)
USER, CLIENT_ID, IP = TYPES = ("user", "client-id", "ip")
DEFAULT = None  # stands in place of a name for all clients without a quota of their own

Name = str | None
Values = Mapping[str, float]  # by KEYS: bytes, percent of a thread's time, partitions, or connections per second


class Entity(NamedTuple):
    """The owner of a quota, as names by type; no name: the default. It has a user, a client id, both, or an address."""

    names: tuple[tuple[str, Name], ...]  # sorted by type

    @classmethod
    def of(cls, names: Mapping[str, Name]) -> Entity:
        """Returns the entity with these names."""
        return cls(tuple(sorted(names.items())))


class Match(IntEnum):
    """Which names a component of a filter finds (``MatchType``)."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Component(NamedTuple):
    """A component of a filter: a type, and the names that it finds."""

    entity_type: str
    match: Match
    name: Name

    def finds(self, names: Mapping[str, Name]) -> bool:
        """Whether the component matches an entity; ``names``: the entity's names, by type."""
        if self.entity_type not in names:
            return False
        name = names[self.entity_type]
        return self.match is Match.SPECIFIED or name == (self.name if self.match is Match.EXACT else DEFAULT)


class Limit(NamedTuple):
    """The quota of a client: the clients that share it, and the amount per second."""

    shared_by: tuple[Name, Name]  # a user and a client id; None: all of them
    per_second: float


@dataclass(frozen=True)
class Quotas:
    """All quotas."""

    values: Mapping[Entity, Values]

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """Returns the quota of a client; None if it has none."""
        if not self.values:
            return None
        for names in _candidates(user, client_id):
            found = self.values.get(Entity.of(names), {}).get(key)
            if found is not None:
                shared_by = (user if USER in names else None, client_id if CLIENT_ID in names else None)
                return Limit(shared_by, found)
        return None

    def connections_per_second(self, address: str) -> float | None:
        """Returns how many connections an address may open per second; None: any number."""
        for name in (address, DEFAULT):
            found = self.values.get(Entity.of({IP: name}), {}).get(CONNECTION_CREATION_RATE)
            if found is not None:
                return found
        return None

    def may_limit(self, key: str) -> bool:
        """Whether any client has such a quota."""
        return key in self._keys

    @cached_property
    def _keys(self) -> frozenset[str]:
        """The keys that have a value; cached, because each batch asks."""
        return frozenset(key for each in self.values.values() for key in each)

    def find(self, components: list[Component], *, is_strict: bool) -> Iterator[tuple[Entity, Values]]:
        """Yields the quotas that all components of a filter find; ``is_strict``: those without other types only."""
        for entity, values in self.values.items():
            names = dict(entity.names)
            if all(each.finds(names) for each in components) and (not is_strict or len(names) == len(components)):
                yield entity, values


def _candidates(user: str, client_id: str) -> Iterator[Mapping[str, Name]]:
    """Yields the entities that a client belongs to; the first with a quota counts."""
    for name in (user, DEFAULT):
        yield {USER: name, CLIENT_ID: client_id}
        yield {USER: name, CLIENT_ID: DEFAULT}
        yield {USER: name}
    yield {CLIENT_ID: client_id}
    yield {CLIENT_ID: DEFAULT}
