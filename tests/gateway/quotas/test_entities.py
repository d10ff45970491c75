"""Whose quota a client has, and which quotas a filter finds."""

from __future__ import annotations

import pytest

from pyspark_commitlog.gateway.quotas.entities import PRODUCER_BYTE_RATE, Component, Entity, Match, Quotas

ENTITIES = [  # in the order of Kafka's documentation: the first that a client belongs to counts
    {"user": "alice", "client-id": "app"},
    {"user": "alice", "client-id": None},
    {"user": "alice"},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "app"},
    {"client-id": None},
]


@pytest.mark.parametrize("first", range(len(ENTITIES)))
def test_the_most_specific_quota_counts(first: int) -> None:
    quotas = Quotas(
        {Entity.of(each): {PRODUCER_BYTE_RATE: float(rate)} for rate, each in enumerate(ENTITIES) if rate >= first}
    )
    found = quotas.limit(PRODUCER_BYTE_RATE, "alice", "app")
    assert found is not None
    assert found.per_second == first
    names = ENTITIES[first]
    assert found.shared_by == ("alice" if "user" in names else None, "app" if "client-id" in names else None)
    assert quotas.limit("consumer_byte_rate", "alice", "app") is None


def test_a_client_without_a_quota_has_none() -> None:
    quotas = Quotas({Entity.of({"user": "alice", "client-id": "app"}): {PRODUCER_BYTE_RATE: 1.0}})
    assert quotas.limit(PRODUCER_BYTE_RATE, "alice", "other") is None
    assert quotas.limit(PRODUCER_BYTE_RATE, "bob", "app") is None


@pytest.mark.parametrize(
    ("components", "is_strict", "found"),
    [
        ([], False, {0, 1, 2, 3, 4, 5, 6, 7}),
        ([], True, set()),
        ([("user", Match.EXACT, "alice")], False, {0, 1, 2}),
        ([("user", Match.EXACT, "alice")], True, {2}),
        ([("user", Match.DEFAULT, None)], False, {3, 4, 5}),
        ([("user", Match.SPECIFIED, None), ("client-id", Match.EXACT, "app")], False, {0, 3}),
        ([("client-id", Match.SPECIFIED, None)], True, {6, 7}),
        ([("ip", Match.SPECIFIED, None)], False, set()),
    ],
)
def test_filters(components: list[tuple[str, Match, str | None]], is_strict: bool, found: set[int]) -> None:
    quotas = Quotas({Entity.of(each): {PRODUCER_BYTE_RATE: 1.0} for each in ENTITIES})
    matches = quotas.find([Component(*each) for each in components], is_strict=is_strict)
    assert {ENTITIES.index(dict(entity.names)) for entity, _ in matches} == found
