"""MemberTimers: timers that remove members of Kafka 4's groups that are silent, or too slow for a step."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from ..threads.worker import Timer

Task = Callable[[], None]


class Limit(Enum):
    """A step that a member must take in time."""

    SESSION = auto()  # send something
    REVOCATION = auto()  # give up what it was asked to give up
    JOIN = auto()  # join again; only on the classic protocol
    SYNC = auto()  # send SyncGroup after it has joined; only on the classic protocol


class MemberTimers:
    """The timers of the members of all groups. Only for the coordinator's thread."""

    def __init__(self, later: Callable[[float, Task], Timer]) -> None:
        """``later`` runs a task after some ms."""
        self._later = later
        self._timers: dict[tuple[str, str, Limit], Timer] = {}  # by group and member

    def start(self, limit: Limit, group: str, member_id: str, delay_ms: int, task: Task) -> None:
        """Starts a timer, or starts it again; ``task`` runs when it is over."""
        self.cancel(limit, group, member_id)
        key = group, member_id, limit
        self._timers[key] = self._later(delay_ms, partial(self._end, key, task))

    def start_if_absent(self, limit: Limit, group: str, member_id: str, delay_ms: int, task: Task) -> None:
        """Like :meth:`start`, unless the timer runs."""
        if (group, member_id, limit) not in self._timers:
            self.start(limit, group, member_id, delay_ms, task)

    def _end(self, key: tuple[str, str, Limit], task: Task) -> None:
        del self._timers[key]
        task()

    def cancel(self, limit: Limit, group: str, member_id: str) -> None:
        """Stops a timer, if it runs."""
        timer = self._timers.pop((group, member_id, limit), None)
        if timer is not None:
            timer.cancel()

    def forget(self, group: str, member_id: str) -> None:
        """Stops all timers of a member."""
        for each in Limit:
            self.cancel(each, group, member_id)
