"""A race of several processes to create the same objects; on a correct store, exactly one wins each.

Every process has threads; in each round, a barrier makes all of them put at the same instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple, Protocol

from ...clock import Clock, SystemClock
from ...errors import ObjectExistsError, ObjectStoreError
from .port import ObjectStore

WAIT_S = 300  # timeout for the slowest in a round; longer than any request may take
BODY_BYTES = 512
NOBODY = 1 << 30
WON, REFUSED, UNKNOWN = "won", "refused", "unknown"


class Contenders(NamedTuple):
    """The number of contenders, the number of rounds, and the duration."""

    processes: int = 4
    threads: int = 8  # in each process
    rounds: int = 50
    rounds_min: int = 5  # even if the time is over
    seconds: int = 30

    @property
    def total(self) -> int:
        return self.processes * self.threads


class Outcome(NamedTuple):
    """The answers to the contenders of a round, by their numbers, and the contender whose body the object has."""

    answers: list[str]
    found: int | None  # NOBODY: what is there, no contender wrote

    @property
    def winners(self) -> list[int]:
        return [number for number, answer in enumerate(self.answers) if answer == WON]

    def is_right(self) -> bool:
        """Whether one won and the object has its body; or none won, and the object is from one that got no answer."""
        if self.winners:
            return self.winners == [self.found]
        return self.found is None or self.answers[self.found : self.found + 1] == [UNKNOWN]


class _Shared(Protocol):
    """A number that several processes see."""

    value: int


class _BeforeRound:
    """Decides, once for all contenders, whether there is another round; the barrier calls it."""

    def __init__(self, goes_on: _Shared, begun: _Shared, contenders: Contenders, until_ms: int, clock: Clock) -> None:
        self._goes_on, self._begun, self._contenders = goes_on, begun, contenders
        self._until_ms, self._clock = until_ms, clock

    def __call__(self) -> None:
        is_due = self._begun.value < self._contenders.rounds_min or self._clock.now_ms() < self._until_ms
        self._goes_on.value = int(is_due and self._begun.value < self._contenders.rounds)
        self._begun.value += 1


def race(store: ObjectStore, folder: str, contenders: Contenders, clock: Clock | None = None) -> list[Outcome]:
    """Races to create ``folder``'s objects ``0``, ``1`` …; returns the outcome of each round that was run.

    The processes are started afresh and get the store pickled: its URL. Raises ObjectStoreError if what is there
    cannot be read.
    """
    clock = clock or SystemClock()
    context = get_context("spawn")
    goes_on, begun = context.Value("i", 0), context.Value("i", 0)
    before = _BeforeRound(goes_on, begun, contenders, clock.now_ms() + contenders.seconds * 1000, clock)
    barrier = context.Barrier(contenders.total, before)
    with ProcessPoolExecutor(contenders.processes, context, _remember, (barrier, goes_on)) as processes:
        firsts = range(0, contenders.total, contenders.threads)
        tasks = [processes.submit(_contend, store, folder, first, contenders.threads) for first in firsts]
        answers = [each for task in tasks for each in task.result()]
    return [
        Outcome(list(of_round), _body_of(store, object_key(folder, number)))
        for number, of_round in enumerate(zip(*answers, strict=True))
    ]


def object_key(folder: str, number: int) -> str:
    return f"{folder}/{number}"


_SHARED: list[Any] = []  # in a process of the race: the barrier, and whether there is another round


def _remember(*shared: Any) -> None:
    _SHARED[:] = shared


def _contend(store: ObjectStore, folder: str, first: int, threads: int) -> list[list[str]]:
    """Runs the contenders of one process; returns the answers to each, round by round."""
    barrier, goes_on = _SHARED

    def run(contender: int) -> list[str]:
        return list(_answers(store, folder, contender, lambda: _next_round(barrier, goes_on)))

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(first, first + threads)))


def _next_round(barrier: Any, goes_on: _Shared) -> bool:
    barrier.wait(WAIT_S)
    return bool(goes_on.value)


def _answers(store: ObjectStore, folder: str, contender: int, next_round: Callable[[], bool]) -> Iterable[str]:
    number = 0
    while next_round():
        try:
            store.put_new(object_key(folder, number), f"{contender}\n".encode().ljust(BODY_BYTES))
            yield WON
        except ObjectExistsError:
            yield REFUSED
        except ObjectStoreError:
            yield UNKNOWN
        number += 1


def _body_of(store: ObjectStore, key: str) -> int | None:
    if store.head(key) is None:
        return None
    body = store.get(key, limit=BODY_BYTES).strip()
    return int(body) if body.isdigit() and len(body) < 10 else NOBODY
