"""Pace: which syncs wait for more requests, and how long."""

from __future__ import annotations

import heapq

import pytest

from pyspark_commitlog.gateway.partitions.pace import PATIENCE_MAX_S, SKIPPED_MAX, Pace


def synced(answered: int, waiting: int, *, took_s: float = 0.004, alone: bool = True) -> Pace:
    """The pace after a sync that ended at time 0."""
    pace = Pace()
    pace.begin(answered)
    pace.note(0.0, took_s, answered, waiting, alone=alone)
    return pace


def test_the_first_sync_waits_for_nobody() -> None:
    assert Pace().patience_s(0.0, 1) == 0


def test_a_sync_waits_until_as_many_requests_are_there_as_were_in_progress() -> None:
    pace = synced(answered=3, waiting=2)
    assert pace.patience_s(0.001, 2) == pytest.approx(0.003)
    assert pace.patience_s(0.002, 4) == pytest.approx(0.002)
    assert pace.patience_s(0.002, 5) == 0


def test_a_client_with_one_request_at_a_time_waits_for_nobody() -> None:
    assert synced(answered=1, waiting=0).patience_s(0.0, 1) == 0


@pytest.mark.parametrize(("took_s", "until_s"), [(0.002, 0.002), (1.0, PATIENCE_MAX_S)])
def test_a_sync_waits_no_longer_than_the_last_one_took_or_some_milliseconds(took_s: float, until_s: float) -> None:
    pace = synced(3, 2, took_s=took_s)
    assert pace.patience_s(until_s - 0.0005, 4) > 0
    assert pace.patience_s(until_s, 4) == 0


def test_where_several_partitions_are_synced_nothing_waits() -> None:
    assert synced(3, 2, alone=False).patience_s(0.0, 1) == 0


def waits(pace: Pace, arrived: int) -> bool:
    """Whether the next sync waits, where 5 requests were in progress and ``arrived`` are there after the wait."""
    pace.note(0.0, 0.004, 3, 2, alone=True)
    found = pace.patience_s(0.0, 2) > 0
    pace.begin(arrived)
    return found


def test_after_waits_in_vain_more_and_more_syncs_do_not_wait() -> None:
    pace = Pace()
    found = [waits(pace, arrived=2) for _ in range(20)]
    assert [number for number, waited in enumerate(found) if waited] == [0, 3, 8, 17]


def test_many_waits_in_vain_are_not_the_end_of_waiting() -> None:
    pace = Pace()
    for _ in range(10 * SKIPPED_MAX):
        waits(pace, arrived=2)
    assert any(waits(pace, arrived=2) for _ in range(SKIPPED_MAX + 1))


def test_a_wait_that_paid_makes_up_for_those_in_vain() -> None:
    pace = Pace()
    for _ in range(4):  # the first and the last one wait
        waits(pace, arrived=2)
    while not waits(pace, arrived=5):
        pass
    assert waits(pace, arrived=5)


def syncs_of(clients: int, back_s: float, sync_s: float, requests: int, pace: Pace | None) -> tuple[int, float]:
    """How many syncs serve so many requests, and when the last one ends, on a clock of its own.

    Each client sends a request ``back_s`` after its last one was answered; they differ by a tenth of that.
    """
    arrivals = [back_s * number / (10 * clients) for number in range(clients)]
    served = syncs = 0
    now_s = 0.0
    while served < requests:
        now_s = max(now_s, arrivals[0])
        there = sum(at <= now_s for at in arrivals)
        while pace and (patience_s := pace.patience_s(now_s, there)) > 0:
            until_s = now_s + patience_s
            now_s = min([until_s, *(at for at in arrivals if at > now_s)])
            there = sum(at <= now_s for at in arrivals)
            if now_s == until_s:
                break
        for _ in range(there):
            heapq.heappop(arrivals)
        if pace:
            pace.begin(there)
        now_s += sync_s
        if pace:
            pace.note(now_s, sync_s, there, sum(at <= now_s for at in arrivals), alone=True)
        for number in range(there):
            heapq.heappush(arrivals, now_s + back_s * (1 + number / (10 * clients)))
        served, syncs = served + there, syncs + 1
    return syncs, now_s


def test_requests_in_progress_share_one_sync_if_clients_are_quicker_than_it() -> None:
    quick = {"clients": 5, "back_s": 0.001, "sync_s": 0.004, "requests": 1000}
    (syncs, end_s), (syncs_before, end_before_s) = syncs_of(**quick, pace=Pace()), syncs_of(**quick, pace=None)  # type: ignore[arg-type]
    assert syncs <= 202
    assert syncs_before >= 398
    assert end_s < 0.7 * end_before_s


def test_clients_that_are_slower_than_a_sync_lose_little_by_waits() -> None:
    slow = {"clients": 5, "back_s": 0.05, "sync_s": 0.004, "requests": 2000}
    assert syncs_of(**slow, pace=Pace())[1] < 1.1 * syncs_of(**slow, pace=None)[1]  # type: ignore[arg-type]
