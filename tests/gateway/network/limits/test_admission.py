"""Admission: limits of connections, by number, address and time, and those before a login."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from pyspark_commitlog.gateway.network.limits.admission import Admission, AdmissionLimits


class Newcomer:
    def __init__(self) -> None:
        self.sent_away = ""

    def send_away(self, why: str) -> None:
        self.sent_away = why


def test_connections_are_limited_in_all_and_by_address() -> None:
    admission = Admission(AdmissionLimits(most=4, per_address=2, of_addresses={"b": 1}))
    assert [admission.refuses("a") for _ in range(3)] == [None, None, "max.connections.per.ip"]
    assert [admission.refuses("b") for _ in range(2)] == [None, "max.connections.per.ip"]
    assert [admission.refuses(each) for each in "cd"] == [None, "max.connections"]
    admission.left("a")
    assert admission.refuses("a") is None


@pytest.fixture
def files_max() -> Iterator[int]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
    yield 400
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_connections_leave_a_part_of_the_open_files_to_the_log(files_max: int) -> None:
    admission = Admission(AdmissionLimits())
    accepted = [admission.refuses("a") for _ in range(files_max)].count(None)
    assert accepted == files_max * 3 // 4


def test_connections_wait_to_keep_to_the_rate() -> None:
    admission = Admission(AdmissionLimits(per_second=10))
    assert [admission.delay_s(100.0) for _ in range(10)] == [0.0] * 10
    assert [round(admission.delay_s(100.0), 3) for _ in range(2)] == [0.1, 0.2]
    assert admission.delay_s(103.0) == 0.0


def test_too_many_before_their_login_send_away_the_first_of_them() -> None:
    admission, newcomers = Admission(AdmissionLimits(before_login=2)), [Newcomer() for _ in range(4)]
    for each in newcomers[:3]:
        admission.came(each)
    assert ["first" in each.sent_away for each in newcomers] == [True, False, False, False]
    admission.is_known(newcomers[1])
    admission.came(newcomers[3])
    assert [bool(each.sent_away) for each in newcomers] == [True, False, False, False]
