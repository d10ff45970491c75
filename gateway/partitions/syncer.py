"""Syncer: a thread that syncs partitions, each once for all that was appended since its last sync."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple, TypeVar

from ...storage import LogStoreError
from .appending import Soon
from .file_partition import FilePartition
from .lane import GROUP_MAX
from .pace import Pace

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Call(NamedTuple):
    """A function to call with the result of a sync, None or its error; ``soon``: of the thread that is to call it."""

    function: Callable[[Exception | None], None]
    soon: Soon | None = None


class Group(NamedTuple):
    """Appends and changes of a partition that must be synced, and what to call after the sync."""

    led: FilePartition
    calls: Sequence[Call]


class Syncer:
    """Syncs partitions in a thread of its own."""

    def __init__(self, name: str, observe: Callable[[float], None]) -> None:
        """``observe`` is called with the seconds that each sync took."""
        self._observe = observe
        self._queue: SimpleQueue[Group | None] = SimpleQueue()
        self._pace = Pace()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def sync(self, group: Group) -> None:
        """Syncs a partition, then makes the calls. For any thread."""
        self._queue.put(group)

    def stop(self) -> None:
        """Does what was given, and ends the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        waiting: list[Group | None] = []
        is_ending = False
        while not is_ending or waiting:
            groups = self._gathered(waiting or drained(self._queue))
            is_ending = is_ending or None in groups
            waiting = self._serve(groups)

    def _serve(self, groups: Sequence[Group | None]) -> list[Group | None]:
        """Syncs each partition once, and makes the calls. Returns the groups that have come in the meantime."""
        by_partition: dict[FilePartition, list[Call]] = {}
        for group in groups:
            if group is not None:
                by_partition.setdefault(group.led, []).extend(group.calls)
        waiting: list[Group | None] = []
        for led, calls in by_partition.items():
            began_s = time.perf_counter()
            failure = _synced(led)
            took_s = time.perf_counter() - began_s
            self._observe(took_s)
            waiting += found_in(self._queue)  # before the answers: clients that get them send more
            self._pace.note(time.monotonic(), took_s, len(calls), _calls(waiting), alone=len(by_partition) == 1)
            _answer(calls, failure)
            led.wake()  # last: a client that reads what it wrote waits for its answer first
        return waiting

    def _gathered(self, groups: list[Group | None]) -> list[Group | None]:
        """Returns these groups, with those that come while it pays to wait for them."""
        while None not in groups and (patience_s := self._pace.patience_s(time.monotonic(), _calls(groups))) > 0:
            try:
                groups.append(self._queue.get(timeout=patience_s))
            except Empty:
                break
        self._pace.begin(_calls(groups))
        return groups


def _calls(groups: Sequence[Group | None]) -> int:
    return sum(len(group.calls) for group in groups if group is not None)


def _synced(led: FilePartition) -> Exception | None:
    try:
        led.sync()
    except Exception as error:
        log_unexpected(error)
        return error
    return None


def _answer(calls: Sequence[Call], failure: Exception | None) -> None:
    """Makes the calls, those of each thread in one turn of it, so that answers of a connection leave together."""
    by_thread: dict[Soon | None, list[Call]] = {}
    for call in calls:
        by_thread.setdefault(call.soon, []).append(call)
    for soon, some in by_thread.items():
        if soon is None:
            call_all(some, failure)
        else:
            soon(partial(call_all, some, failure))


def call_all(calls: Sequence[Call], failure: Exception | None) -> None:
    """Makes calls in this thread; an error of one is logged."""
    for call in calls:
        try:
            call.function(failure)
        except Exception:
            logger.exception("an answer failed")


def drained(queue: SimpleQueue[T]) -> list[T]:
    """Waits for one item, and returns it with all others in the queue."""
    return [queue.get(), *found_in(queue)]


def found_in(queue: SimpleQueue[T]) -> list[T]:
    """Returns the items in the queue, at most ``GROUP_MAX``; only for the one thread that takes from it."""
    return [queue.get() for _ in range(min(queue.qsize(), GROUP_MAX - 1))]


def log_unexpected(error: Exception | None) -> None:
    """Logs an error that is neither of the disk nor of a log."""
    if error is not None and not isinstance(error, (LogStoreError, OSError)):
        logger.error("an append failed", exc_info=error)
