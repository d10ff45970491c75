"""Requests of one sort take no places of another."""

from __future__ import annotations

import pytest

from pyspark_commitlog.gateway.handlers.table import KINDS
from pyspark_commitlog.gateway.places import Places, Sort
from pyspark_commitlog.protocol.apis import ApiKey


def has_place(places: Places, key: int, *, is_newcomer: bool = False) -> bool:
    """Whether a request gets a place; it keeps it."""
    frame = memoryview(key.to_bytes(2, "big") + b"and the rest")
    return places.of(frame, is_newcomer).take(lambda: None)


@pytest.fixture
def places() -> Places:
    return Places(1, {key: kind.sort for key, kind in KINDS.items()})


def test_each_sort_has_places_of_its_own(places: Places) -> None:
    first = {kind.sort: key for key, kind in KINDS.items()}
    assert first.keys() == {*Sort}
    assert [has_place(places, key) for key in first.values()] == [True] * len(Sort)
    assert [has_place(places, key) for key in KINDS] == [False] * len(KINDS)


def test_members_of_groups_wait_for_each_other_alone(places: Places) -> None:
    assert has_place(places, ApiKey.JOIN_GROUP)
    assert not has_place(places, ApiKey.OFFSET_COMMIT)
    assert has_place(places, ApiKey.PRODUCE)


def test_request_before_a_login_takes_no_place_of_later_ones(places: Places) -> None:
    assert has_place(places, ApiKey.FETCH, is_newcomer=True)
    assert has_place(places, ApiKey.FETCH)
    assert not has_place(places, ApiKey.METADATA, is_newcomer=True)


def test_unknown_kind_shares_the_places_of_those_without_a_sort(places: Places) -> None:
    assert has_place(places, 9999)
    assert not has_place(places, ApiKey.DESCRIBE_CLUSTER)
