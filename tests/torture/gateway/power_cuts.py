"""Drawn requests of clients to a gateway, with the power going at every step of them.

What must hold is in :mod:`tests.gateway.partitions.test_power_cuts`: what was answered is there.
"""

from __future__ import annotations

from tests.gateway.partitions.test_power_cuts import STEPS, check_power_cuts
from tests.support.disk.power_cuts import Effort
from tests.torture.suite import Run, Suite, quiet

STEPS_MAX = 8


def run(run: Run) -> None:
    for case in run.cases():
        chance = case.chance
        steps = [chance.choice([*STEPS]) for _ in range(chance.randint(1, STEPS_MAX))]
        if "a member" in steps:  # once: it stays
            first = steps.index("a member")
            steps = [step for index, step in enumerate(steps) if step != "a member" or index == first]
        effort = Effort(
            first_seed=chance.randrange(1 << 40),
            with_kills=chance.random() < 0.3,
            on_disk=lambda _: run.passed(),
        )
        with run.watching(case, steps), quiet():
            check_power_cuts(steps, effort, chance.choice((200, 400, 2000)))


SUITE = Suite("power cuts", 20_000, run)
