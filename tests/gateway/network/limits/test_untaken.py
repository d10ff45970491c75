"""Untaken: what waits of a connection and of all, and how long a client needs for it at its pace."""

from __future__ import annotations

import pytest

from pyspark_commitlog.gateway.network.limits.untaken import FIRST_BYTES, Untaken, UntakenBytes


def test_the_bytes_of_all_connections_are_counted_together() -> None:
    of_all = UntakenBytes(limit=100)
    one, other = Untaken(of_all), Untaken(of_all)
    one.change(60, 0, now_s=0.0)
    other.change(40, 0, now_s=0.0)
    assert not of_all.is_exceeded
    one.change(61, 0, now_s=1.0)
    assert of_all.is_exceeded
    one.change(0, 61, now_s=2.0)
    assert of_all.count == 40


def test_a_client_that_takes_little_needs_the_longer_the_longer_it_waits() -> None:
    client = Untaken(UntakenBytes(1))
    client.change(FIRST_BYTES, 0, now_s=10.0)
    assert client.needed_s(10.0) == 0.0
    assert client.needed_s(12.0) == 2.0
    client.change(FIRST_BYTES, 3 * FIRST_BYTES, now_s=12.0)
    assert client.needed_s(14.0) == 1.0


def test_a_client_that_has_taken_all_begins_again() -> None:
    client = Untaken(UntakenBytes(1))
    client.change(FIRST_BYTES, 0, now_s=0.0)
    client.change(0, FIRST_BYTES, now_s=50.0)
    client.change(FIRST_BYTES, FIRST_BYTES, now_s=60.0)
    assert client.needed_s(61.0) == pytest.approx(1.0)
