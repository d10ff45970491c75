"""What every torture suite has in common: a seed, a length, numbered cases, faults that are counted and told.

A suite is a function that takes a :class:`Run` and works through cases until the run has had enough::

    def run(run: Run) -> None:
        for case in run.cases():
            with run.watching(case):
                ...            # an exception is a fault: it is told with the case that shows it, and the run goes on

Case ``n`` of a seed is always the same, whatever was run before it: ``--seed 7 --first 1234 --count 1`` repeats one.
"""

from __future__ import annotations

import logging
import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

FAULTS_MAX = 20  # then a run ends: more of them say nothing new


class Case(NamedTuple):
    """One of a run: its number, and the chance that only it draws from."""

    number: int
    chance: random.Random


@contextmanager
def quiet() -> Iterator[None]:
    """Warnings of what a suite does on purpose are not logged; afterwards they are, as before."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


class Suite(NamedTuple):
    """What is counted ("crash states"), how many make a long run, and what runs them."""

    unit: str
    count: int
    run: Callable[[Run], None]


@dataclass
class Run:
    """One suite at work; ``count`` and ``minutes`` are where it ends, whichever comes first."""

    seed: int
    directory: Path  # for what must be real files; empty at the start
    count: int
    minutes: float = float("inf")
    first: int = 0  # number of the first case
    tell: Callable[[str], None] = print
    done: int = 0  # what the suite counts
    faults: list[str] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)  # what else is worth a figure, for the last line
    started_s: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s

    @property
    def enough(self) -> bool:
        return self.done >= self.count or self.elapsed_s >= 60 * self.minutes or len(self.faults) >= FAULTS_MAX

    def cases(self) -> Iterator[Case]:
        """Case after case until there were enough; the suite says with :meth:`passed` what a case counted."""
        number = self.first
        while not self.enough:
            yield self.case(number)
            number += 1

    def case(self, number: int) -> Case:
        return Case(number, random.Random(f"{self.seed}/{number}"))

    def passed(self, count: int = 1) -> None:
        """So many more of what the suite counts."""
        self.done += count

    def note(self, name: str, count: int = 1) -> None:
        """Add to a figure of the last line."""
        self.notes[name] = self.notes.get(name, 0) + count

    def watching(self, case: Case, what: object = "") -> Watch:
        """Take what is raised inside for a fault, and go on; ``what`` is told with it, as it is by then."""
        return Watch(self, case, what)

    def fault(self, case: Case, text: str) -> None:
        """Count a fault, and tell how to see it again."""
        self.faults.append(text)
        self.tell(f"FAULT in case {case.number} (--seed {self.seed} --first {case.number} --count 1): {text}")

    def summary(self, name: str, unit: str) -> str:
        notes = "".join(f", {count:,} {noted}" for noted, count in sorted(self.notes.items()))
        return (
            f"{name}: seed {self.seed}, {self.done:,} {unit}{notes}, {self.elapsed_s:.0f} s, {len(self.faults)} faults"
        )


class Watch(NamedTuple):
    """Around one case: any exception in it is a fault of the run."""

    run: Run
    case: Case
    what: object

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback_: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        told = "".join(traceback.format_exception(error))
        self.run.fault(self.case, f"{self.what}\n{told}")
        return True
