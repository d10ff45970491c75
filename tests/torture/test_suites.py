"""A short run of each suite that needs neither Spark nor a broker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.torture.__main__ import load
from tests.torture.suite import FAULTS_MAX, Run

# By suite: how much of it, in a few seconds. The seed is fixed, so that a test never wavers; long runs draw others, and
# those in LONGER the same ones and more.
SHORT: dict[str, int] = {
    "crash-states": 20,
    "disk-errors": 12,
    "erasure": 12,
    "find-scans": 1,
    "gateway-frames": 30,
    "kills": 1,
    "model": 100,
    "processes": 1,
    "set-back": 4,
    "tiers": 20,
}
# More of them, and those that take longer. Two are left out: gateway-hostile needs a machine of its own, as the members
# of gateway-members do, whose processes have sessions of seconds.
LONGER: dict[str, int] = {
    "backup": 10,
    "browse": 60,
    "bucket-commits": 200,
    "bucket-kills": 2,
    "crash-states": 100,
    "damage": 500,
    "disk-errors": 60,
    "erasure": 60,
    "erasure-kills": 6,
    "find-scans": 20,
    "gateway-beside-kafka": 100,
    "gateway-beside-spark": 2,
    "gateway-bucket": 8,
    "gateway-crowd": 500,
    "gateway-foes": 2,
    "gateway-frames": 60,
    "gateway-kills": 2,
    "gateway-nodes": 2,
    "gateway-rules": 10_000,
    "gateway-together": 10,
    "gateway-nodes-beside-spark": 2,
    "gateway-power-cuts": 100,
    "kills": 10,
    "mirror-kills": 500,
    "model": 1000,
    "set-back": 20,
    "tiers": 150,
    "zookeeper-groups": 8,
}
SEED = 1
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "count"),
    [*SHORT.items(), *(pytest.param(*each, marks=pytest.mark.only_all) for each in LONGER.items())],
)
def test_a_short_run_finds_no_fault(name: str, count: int, tmp_path: Path) -> None:
    run = Run(SEED, tmp_path, count)
    load(name).run(run)
    assert run.faults == []
    assert run.done >= count


def test_a_case_draws_the_same_whatever_ran_before_it(tmp_path: Path) -> None:
    whole, one = Run(7, tmp_path, count=5), Run(7, tmp_path, count=1, first=3)

    def draws(run: Run) -> dict[int, float]:
        drawn = {}
        for case in run.cases():
            drawn[case.number] = case.chance.random()
            run.passed()
        return drawn

    assert draws(one) == {3: draws(whole)[3]}


def test_a_fault_is_told_with_what_shows_it_again_and_many_end_the_run(tmp_path: Path) -> None:
    told: list[str] = []
    run = Run(7, tmp_path, count=1000, tell=told.append)
    for case in run.cases():
        with run.watching(case, "something"):
            raise ValueError(f"no {case.number}")
    assert len(run.faults) == FAULTS_MAX
    assert told[3].startswith("FAULT in case 3 (--seed 7 --first 3 --count 1): something")
    assert told[3].rstrip().endswith("ValueError: no 3")


def test_a_run_that_is_interrupted_ends() -> None:
    run = Run(7, Path(), count=1)
    with pytest.raises(KeyboardInterrupt), run.watching(run.case(0)):
        raise KeyboardInterrupt


def test_after_a_suite_warnings_are_heard_again(tmp_path: Path) -> None:
    for name in ("crash-states", "disk-errors", "model"):
        load(name).run(Run(SEED, tmp_path, 1))
        assert logging.root.manager.disable == logging.NOTSET, name
