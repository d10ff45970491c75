"""TierReads: the threads that read tiers, and the questions that wait for them."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock
from typing import Any

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import CorruptionError, LogStoreError, OffsetOutOfRangeError, TierAddress
from ..partitions.led_partition import LedPartition
from ..threads.kept import KeptThread
from ..threads.repeats import Repeats
from .log import TieredLog, TierFiles

OPEN_MAX = 50  # logs that are kept open; each has a list of all its segments
STOP_S = 1.0  # how long the gateway's end waits for a read, which may hang as long as the store does
AGAIN_S = 600.0  # a failure that is still there is logged again
FAILURE_S = 1.0  # how long the error of a read is repeated, because clients ask again at once

Question = Callable[[TieredLog], Any]
Then = Callable[[Any], None]  # called with the answer, or with the exception

logger = logging.getLogger(__name__)


@dataclass
class _Asked:
    """A question that is not answered yet, and the functions that wait for the answer."""

    question: Question
    waiting: list[Then] = field(default_factory=list)


@dataclass
class _Partition:
    """A log, and the questions about it, which one thread at a time answers in their order."""

    led: LedPartition
    log: TieredLog
    asked: OrderedDict[Hashable, _Asked] = field(default_factory=OrderedDict)
    is_running: bool = False
    failed: tuple[Hashable, Exception, float] | None = None  # a question, its error, and how long that counts


class TierReads:
    """Answers questions about logs with what their tier has. For any thread."""

    def __init__(
        self, address: TierAddress, threads: int, pending_max: int, found_damage: Callable[[CorruptionError], None]
    ) -> None:
        """``pending_max``: questions that may wait; further ones are refused with KAFKA_STORAGE_ERROR.

        ``found_damage`` is called with each damaged or lost object, and logs it.
        """
        self._files, self._found_damage = TierFiles(address), found_damage
        self._pending_max = threads + pending_max
        self._ready: SimpleQueue[_Partition | None] = SimpleQueue()  # partitions with a question; None ends a thread
        self._threads = [KeptThread(f"gateway-tier-{number}", self._run) for number in range(threads)]
        self._lock = Lock()  # Guards the partitions, the count and the flag.
        self._partitions: OrderedDict[LedPartition, _Partition] = OrderedDict()  # in the order of their last use
        self._pending, self._is_stopped = 0, False
        self._repeats = Repeats(AGAIN_S)

    def start(self) -> None:
        """Starts the threads."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Ends the threads after their reads in progress; one that takes long is left alone."""
        with self._lock:
            self._is_stopped = True
            idle = [each.log for each in self._partitions.values() if not each.is_running]
        for _ in self._threads:
            self._ready.put(None)
        for log in idle:
            log.close()
        until_s = time.monotonic() + STOP_S
        for each in self._threads:
            each.join(max(until_s - time.monotonic(), 0))

    def _run(self) -> None:
        while (at := self._ready.get()) is not None:
            self._next(at)

    def ask(self, led: LedPartition, key: Hashable, question: Question, then: Then) -> Callable[[], None]:
        """Calls ``then``, in a thread of the tier or at once, with the result or the error of ``question``.

        Questions about a partition with the same ``key`` are the same question, which is asked once while others wait.
        Returns a function that forgets ``then``: a question for which nothing waits is not begun.
        """
        with self._lock:
            at = self._partition(led)
            asked = at.asked.get(key) or self._add(at, key, question)
            begins = asked is not None and not at.is_running
            if asked is not None:
                asked.waiting.append(then)
                at.is_running = True
        if asked is None:
            then(RequestError(ErrorCode.kafka_storage_error, "too many reads wait for the tier"))
            return lambda: None
        if begins:
            self._ready.put(at)
        return lambda: self._forget(asked, then)

    def _partition(self, led: LedPartition) -> _Partition:
        found = self._partitions.get(led)
        if found is None:
            found = self._partitions[led] = _Partition(led, TieredLog(led, self._files.opened))
        self._partitions.move_to_end(led)
        return found

    def _add(self, at: _Partition, key: Hashable, question: Question) -> _Asked | None:
        """Adds a question; returns None if too many wait."""
        if self._is_stopped or self._pending >= self._pending_max:
            return None
        self._pending += 1
        asked = at.asked[key] = _Asked(question)
        return asked

    def _forget(self, asked: _Asked, then: Then) -> None:
        with self._lock:
            if then in asked.waiting:
                asked.waiting.remove(then)

    def _next(self, at: _Partition) -> None:
        """Answers the first question about a partition; then other partitions have their turn."""
        with self._lock:
            key, asked = next(iter(at.asked.items()))
            is_wanted = bool(asked.waiting)
        answer = self._answer(at, key, asked.question) if is_wanted else None
        with self._lock:
            del at.asked[key]
            if not is_wanted and asked.waiting:  # someone came in the meantime
                at.asked[key] = asked
            else:
                self._pending -= 1
            waiting = [*asked.waiting] if is_wanted else []
            at.is_running = goes_on = bool(at.asked) and not self._is_stopped
            idle = self._idle()
        for each in waiting:
            each(answer)
        for log in idle:
            log.close()
        if goes_on:
            self._ready.put(at)

    def _idle(self) -> list[TieredLog]:
        """Forgets unused logs: those of closed partitions, and the oldest ones above the limit."""
        free = [each for each in self._partitions.values() if not each.is_running]
        surplus = len(free) if self._is_stopped else max(len(self._partitions) - OPEN_MAX, 0)
        idle = [each for index, each in enumerate(free) if index < surplus or each.led.is_gone]
        for each in idle:
            del self._partitions[each.led]
        return [each.log for each in idle]

    def _answer(self, at: _Partition, key: Hashable, question: Question) -> Any:
        if at.failed is not None and at.failed[0] == key and time.monotonic() < at.failed[2]:
            return at.failed[1]
        try:
            return question(at.log)
        except (OffsetOutOfRangeError, RequestError) as error:
            return error
        except (LogStoreError, OSError) as error:
            self._note(at.led, error)
            at.log.close()  # the next read checks the tier again
            refusal = RequestError(ErrorCode.kafka_storage_error, "the tier could not be read")
            at.failed = key, refusal, time.monotonic() + FAILURE_S
            return refusal
        except Exception as error:  # a bug, which is logged where its code is determined
            return error

    def note_late(self, led: LedPartition, limit_s: float) -> None:
        """Logs, once for each partition, that an answer is late."""
        if self._repeats.count((led.topic, led.partition, "late")) is not None:
            logger.warning(
                "%s-%d: the tier has not answered within %d ms, and clients get KAFKA_STORAGE_ERROR until it does",
                led.topic,
                led.partition,
                limit_s * 1000,
            )

    def _note(self, led: LedPartition, error: Exception) -> None:
        """Logs a failure, once for each object."""
        if isinstance(error, CorruptionError) and error.path is not None:
            self._found_damage(error)
            return
        where = getattr(error, "path", None) or str(error)
        if self._repeats.count((led.topic, led.partition, type(error), where)) is not None:
            logger.error(
                "%s-%d: reading from the tier failed, and clients get KAFKA_STORAGE_ERROR until it works: %s",
                led.topic,
                led.partition,
                error,
            )
