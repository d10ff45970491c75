"""BucketAppender: appends to a log on an object store, the batches of all partitions together.

A commit takes as long as a put and costs two. So the first batch waits a moment for others, and batches that come
during a commit wait for the next one. Each is answered when its commit is known to exist.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from threading import Lock

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError
from ....storage import (
    STAGED_BYTES_MAX,
    AppendInfo,
    ClientBatch,
    ClientTransactions,
    CommitLog,
    Log,
    LogStoreError,
    OutcomeUnknownError,
    StorageError,
    append_batches,
)
from ...threads.kept import KeptThread
from ...threads.worker import Worker
from ..appending import Append, Soon
from ..led_partition import LedPartition
from .partition import BucketPartition

logger = logging.getLogger(__name__)


class BucketAppender:
    """Appends for all partitions of a log on an object store. For any thread."""

    def __init__(
        self,
        log: CommitLog,
        transactions: ClientTransactions,
        linger_ms: int,
        observe: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``transactions``: those of this process. ``linger_ms``: how long a batch waits for others.

        ``observe`` gets the seconds that each put or commit took.
        """
        self._log, self._transactions, self._linger_s, self._observe = log, transactions, linger_ms / 1000, observe
        self._queue: SimpleQueue[Sequence[Append] | None] = SimpleQueue()
        self._given: deque[Append] = deque()  # taken out of the queue, and in no group yet
        self._is_ending = False
        self._thread = KeptThread("gateway-appender", self._run)
        self._looker = Worker("gateway-looker")
        self._guard = Lock()  # Guards those who ask to catch up.
        self._asked: list[Callable[[Exception | None], None]] = []

    def start(self) -> None:
        """Starts its threads."""
        self._thread.start()
        self._looker.start()

    def append(self, append: Append) -> None:
        """Appends a batch, after earlier ones; never in the caller's thread, because a commit takes long."""
        self.append_all([append])

    def append_all(self, appends: Sequence[Append]) -> None:
        """Appends several batches as :meth:`append`, in this order; wakes the thread once."""
        self._queue.put(appends)

    def stop(self) -> None:
        """Completes the queued appends, and ends the threads."""
        self._queue.put(None)
        self._thread.join()
        self._looker.stop()

    # Appending

    def _run(self) -> None:
        while not self._is_ending:
            self._append(self._group())

    def _group(self) -> list[Append]:
        """Returns the appends of the next commit: those that come within the linger, as long as there is room."""
        first = self._within(None)
        if first is None:
            return []
        group, size, due_s = [first], _size_of(first), time.monotonic() + self._linger_s
        while (following := self._within(due_s)) is not None:
            size += _size_of(following)
            if size > STAGED_BYTES_MAX:
                self._given.appendleft(following)
                break
            group.append(following)
        return group

    def _within(self, due_s: float | None) -> Append | None:
        """Returns the next append; None if none comes in time, or the appender ends. ``due_s`` None: no limit."""
        while not self._given and not self._is_ending:
            try:
                found = self._queue.get(timeout=None if due_s is None else max(due_s - time.monotonic(), 0))
            except Empty:
                return None
            self._is_ending = found is None
            self._given.extend(found or ())
        return self._given.popleft() if self._given else None

    def _append(self, group: Sequence[Append]) -> None:
        with ExitStack() as holding:  # the transaction must not change between this check and its batches
            for producer in {each.transaction for each in group if each.transaction is not None}:
                holding.enter_context(self._transactions.held(producer))
            allowed = [(each, batch) for each in group if (batch := self._checked(each)) is not None]
            if allowed:
                self._do(*zip(*allowed, strict=True))

    def _checked(self, append: Append) -> ClientBatch | None:
        """Returns the batch of an append if it passes its check; None if the check has refused and answered it."""
        assert isinstance(append.led, BucketPartition)
        try:
            if append.check is not None:
                append.check()
            opened = None if append.transaction is None else self._transactions.open(append.transaction)
        except Exception as error:
            _answer(append, error)
            return None
        return ClientBatch(append.led.topic_id, append.led.partition, append.batch, opened)

    def _do(self, jobs: Sequence[Append], batches: Sequence[ClientBatch]) -> None:
        results: Sequence[AppendInfo | Exception]
        began_s = time.perf_counter()
        try:
            results = append_batches(self._log, batches)
        except Exception as error:  # an error of the store or a bug: each client gets an answer
            _log_failure(error)
            if isinstance(error, (StorageError, OutcomeUnknownError, OSError)):
                jobs = [*jobs, *self._waiting()]
            results = [error] * len(jobs)
        self._observe(time.perf_counter() - began_s)
        for led in {each.led for each in jobs}:
            led.wake()
        for each, result in zip(jobs, results, strict=True):
            _answer(each, result)

    def _waiting(self) -> list[Append]:
        """Removes the waiting appends from the queue, to refuse them after a failure of the store.

        Later batches of a new producer must not be accepted without its first one: a new producer may begin at any
        sequence.
        """
        found = []
        while (each := self._within(time.monotonic())) is not None:
            found.append(each)
        return found

    # What others committed

    def catch_up(self, led: LedPartition, done: Callable[[Exception | None], None]) -> None:
        """Reads what others committed, by one request for all that ask at the same time; then calls ``done``."""
        with self._guard:
            self._asked.append(done)
            is_first = len(self._asked) == 1
        if is_first:
            self._looker.run(self._look)

    def _look(self) -> None:
        with self._guard:
            asked, self._asked = self._asked, []
        failure: Exception | None = None
        try:
            self._log.catch_up()
        except Exception as error:
            _log_failure(error)
            failure = error
        for done in asked:
            try:
                done(failure)
            except Exception:
                logger.exception("an answer failed")

    def change(
        self,
        led: LedPartition,
        change: Callable[[Log], object],
        done: Callable[[Exception | None], None],
        soon: Soon | None = None,
    ) -> None:
        """Refuses a change: on an object store there are no files, and no markers of transactions."""
        done(RequestError(ErrorCode.policy_violation, f"{led.topic}: a log on an object store has no such records"))


def _size_of(append: Append) -> int:
    """Returns the most bytes that a batch takes: one that is encoded again is at most as large as the topic allows."""
    batch = append.batch
    return len(batch.data) if batch.header is not None else max(len(batch.data), batch.config.max_message_bytes)


def _answer(append: Append, result: AppendInfo | Exception) -> None:
    try:
        append.done(result)
    except Exception:
        logger.exception("an answer failed")


def _log_failure(error: Exception) -> None:
    if isinstance(error, (LogStoreError, OSError)):
        logger.warning("%s", error)
    else:
        logger.error("a commit failed", exc_info=error)
