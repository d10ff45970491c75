"""Quota: some places at once."""

from __future__ import annotations

from pyspark_commitlog.gateway.network.limits.quota import Quota


def test_as_many_places_are_taken_as_there_are() -> None:
    quota = Quota(5)
    assert [quota.take_some(3), quota.take_some(3), quota.take_some(3)] == [3, 2, 0]
    woken: list[int] = []
    assert not quota.take(lambda: woken.append(1))
    assert quota.take_some(1) == 0
    quota.give(2)
    assert woken == [1]
    assert quota.take_some(9) == 2
