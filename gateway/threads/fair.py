"""FairWorker: a thread that runs tasks of many owners, so that an owner with many tasks delays no other one."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Hashable
from threading import Condition
from typing import NamedTuple

from .kept import KeptThread
from .worker import Task

logger = logging.getLogger(__name__)


class FairTask(NamedTuple):
    """A task, and a function that is called instead if the task is dropped."""

    run: Task
    drop: Task


class FairWorker:
    """Runs tasks of the owner with the fewest first, and of one owner the newest first.

    Otherwise owners that add tasks faster than they run would make everyone wait for the whole queue. This way, the
    oldest tasks of the owner with the most wait, and are dropped when there are too many.
    """

    def __init__(self, name: str, places: int) -> None:
        """``places``: how many tasks may wait."""
        self._places = places
        self._waiting: dict[Hashable, deque[tuple[int, FairTask]]] = {}
        self._count = self._number = 0
        self._changed = Condition()  # Guards the tasks and the flag.
        self._is_stopping = False
        self._thread = KeptThread(name, self._run)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def run(self, owner: Hashable, task: FairTask) -> None:
        """Runs ``task`` when it is its turn. For any thread."""
        with self._changed:
            self._number += 1
            self._waiting.setdefault(owner, deque()).append((self._number, task))
            self._count += 1
            dropped = self._take_oldest() if self._count > self._places else None
            self._changed.notify()
        if dropped is not None:
            dropped.drop()

    def stop(self) -> None:
        """Drops the tasks that wait, and ends the thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()
        while self._count:
            self._take_oldest().drop()

    def _run(self) -> None:
        while (task := self._next()) is not None:
            try:
                task.run()
            except Exception:
                logger.exception("a task failed")

    def _next(self) -> FairTask | None:
        with self._changed:
            while not (self._count or self._is_stopping):
                self._changed.wait()
            return None if self._is_stopping else self._take_newest()

    def _take_newest(self) -> FairTask:
        """Takes the newest task of the owner with the fewest tasks; of several such owners, of the newest one."""
        owner = min(self._waiting, key=lambda each: (len(self._waiting[each]), -self._waiting[each][-1][0]))
        return self._taken(owner, self._waiting[owner].pop()[1])

    def _take_oldest(self) -> FairTask:
        """Takes the oldest task of the owner with the most tasks; of several such owners, of the oldest one."""
        owner = max(self._waiting, key=lambda each: (len(self._waiting[each]), -self._waiting[each][0][0]))
        return self._taken(owner, self._waiting[owner].popleft()[1])

    def _taken(self, owner: Hashable, task: FairTask) -> FairTask:
        self._count -= 1
        if not self._waiting[owner]:
            del self._waiting[owner]
        return task
