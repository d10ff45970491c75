"""Random histories of a log beside a model of plain lists (tests/support/log_model.py): one history a case."""

from __future__ import annotations

import logging
from random import Random

from tests.support.log_model import LogModel
from tests.torture.suite import Run, Suite

STEPS = 200  # of a history: enough for every kind of step to meet every other


def run(run: Run) -> None:
    logging.disable(logging.WARNING)  # of every cut
    try:
        _live_all(run)
    finally:
        logging.disable(logging.NOTSET)


def _live_all(run: Run) -> None:
    for case in run.cases():
        with run.watching(case):
            _live(run, case.chance)


def _live(run: Run, chance: Random) -> None:
    """One history; what ends it early is told with the last steps that led to it."""
    model, steps = LogModel(), list[str]()
    try:
        for _ in range(min(STEPS, run.count - run.done)):
            steps.append(model.step(chance))
            run.passed()
    except Exception as error:
        error.add_note(f"after {len(steps)} steps, at last {', '.join(steps[-8:])}")
        raise


SUITE = Suite("steps", 1_000_000, run)
