"""Trial: how often requests are tried that are served apart in the end."""

from __future__ import annotations

from pyspark_commitlog.gateway.network.together import APART_MAX, IN_VAIN_MAX, Trial


def apart_until_tried(trial: Trial) -> int:
    """How many requests are served apart until the next one is tried."""
    count = 0
    while not trial.is_on:
        trial.served_apart()
        count += 1
    return count


def test_nothing_is_tried_before_a_request_of_the_kind() -> None:
    assert not Trial().is_on


def test_tries_in_vain_become_rare() -> None:
    trial = Trial()
    trial.is_begun = True
    found = []
    for _ in range(12):
        trial.left(0)
        found.append(apart_until_tried(trial))
    assert found == [1] * IN_VAIN_MAX + [16, 32, 64, 128, 256, 512] + [2**APART_MAX] * 3


def test_a_request_that_only_came_too_early_does_not_count() -> None:
    trial = Trial()
    trial.is_begun = True
    for _ in range(10):
        trial.left(0, may_be_next=True)
        assert apart_until_tried(trial) == 1


def test_a_try_that_served_something_begins_again() -> None:
    trial = Trial()
    trial.is_begun = True
    for _ in range(10):
        trial.left(0)
    apart_until_tried(trial)
    trial.left(5)
    assert apart_until_tried(trial) == 1
    for _ in range(10):
        trial.left(0)
    apart_until_tried(trial)
    trial.served()
    trial.left(0)
    assert apart_until_tried(trial) == 1
