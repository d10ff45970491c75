"""Random histories of a log compared with plain lists: the same records in both isolation levels.

``python -m tests.torture model`` runs any number of histories.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.logs.model import STEPS, LogModel

CHANCE = st.randoms(use_true_random=False)


class LogAgainstAList(RuleBasedStateMachine):
    """One rule per step; hypothesis chooses its values, so that it can shorten a failing history."""

    def __init__(self) -> None:
        super().__init__()
        self.model = LogModel()

    @invariant()
    def the_log_begins_and_ends_as_the_list(self) -> None:
        self.model.check_bounds()

    @rule(chance=CHANCE)
    def read_more_often(self, chance: Random) -> None:
        self.model.read(chance)


def _rule(step: Callable[[LogModel, Random], None]) -> Callable[..., None]:
    def taken(self: LogAgainstAList, chance: Random) -> None:
        step(self.model, chance)

    taken.__name__ = step.__name__
    return rule(chance=CHANCE)(taken)


for _step in dict.fromkeys(STEPS):
    setattr(LogAgainstAList, _step.__name__, _rule(_step))

TestLogAgainstAList = LogAgainstAList.TestCase
TestLogAgainstAList.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
