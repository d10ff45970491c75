"""Random histories of a log beside a model of plain lists (tests/support/logs/model.py): one history a case."""

from __future__ import annotations

from random import Random

from tests.support.logs.model import LogModel
from tests.torture.suite import Run, Suite, quiet

STEPS = 200  # of a history: enough for every kind of step to meet every other


def run(run: Run) -> None:
    with quiet():  # of every cut
        _live_all(run)


class History(list[str]):
    """The steps so far; told as how many they are, and the last ones."""

    def __str__(self) -> str:
        return f"after {len(self)} steps, at last {', '.join(self[-8:])}"


def _live_all(run: Run) -> None:
    for case in run.cases():
        steps = History()
        with run.watching(case, steps):
            _live(run, case.chance, steps)


def _live(run: Run, chance: Random, steps: History) -> None:
    model = LogModel()
    for _ in range(min(STEPS, run.count - run.done)):
        steps.append(model.step(chance))
        run.passed()


SUITE = Suite("steps", 1_000_000, run)
