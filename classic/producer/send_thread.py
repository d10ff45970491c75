"""SendThread: takes batches from an asynchronous producer's queue, and passes them to the event handler."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from ...storage import Clock
from ..errors import NotSentError
from .event_queue import EventQueue
from .figures import Counters
from .handlers import CallbackHandler
from .messages import QueueItem

_LOG = logging.getLogger(__name__)

Dispatch = Callable[[list[QueueItem]], None]


class SendThread:
    """Sends a batch once it has ``batch_size`` items, or ``queue_time_ms`` after the last one; ends with the queue."""

    def __init__(
        self,
        queue: EventQueue,
        dispatch: Dispatch,
        counters: Counters,
        *,
        clock: Clock,
        batch_size: int,
        queue_time_ms: int,
        callbacks: CallbackHandler | None,
    ) -> None:
        """``dispatch``: sends a batch. Its errors are logged and counted, and that batch is lost."""
        self._queue, self._dispatch, self._counters, self._clock = queue, dispatch, counters, clock
        self._batch_size, self._callbacks = batch_size, callbacks
        self._queue_time_ms = max(1, queue_time_ms)  # with 0 the thread would never rest
        self._thread = threading.Thread(target=self._run, name="commitlog producer", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits until the whole queue is sent. Close the queue first."""
        self._thread.join()

    def _run(self) -> None:
        events: list[QueueItem] = []
        last_send_ms = self._clock.now_ms()
        at_once = 1 if self._callbacks else self._batch_size
        while (taken := self._queue.take(at_once, self._time_left_ms(last_send_ms))) is not None:
            events += self._joining(taken)
            if len(taken) < at_once or len(events) >= self._batch_size:  # queue.time is over, or the batch is full
                self._send(events)
                events, last_send_ms = [], self._clock.now_ms()
        events += self._last()
        self._send(events)

    def _time_left_ms(self, last_send_ms: int) -> int:
        over_ms = last_send_ms + self._queue_time_ms - self._clock.now_ms()
        return max(0, min(over_ms, self._queue_time_ms))  # no longer if the clock was set back

    def _joining(self, taken: list[QueueItem]) -> Iterable[QueueItem]:
        if self._callbacks is None:
            return taken
        return self._called(self._callbacks.after_dequeuing_existing_data, taken[0] if taken else None)

    def _last(self) -> Iterable[QueueItem]:
        return self._called(self._callbacks.last_batch_before_close) if self._callbacks else ()

    def _called(self, callback: Callable[..., Iterable[QueueItem]], *given: QueueItem | None) -> Iterable[QueueItem]:
        try:
            return list(callback(*given))
        except Exception:
            self._counters.count_lost(sum(each is not None for each in given))
            _LOG.exception("callback.handler failed in %s", callback.__name__)
            return ()

    def _send(self, events: list[QueueItem]) -> None:
        if not events:
            return
        try:
            self._dispatch(events)
        except Exception as error:
            lost = len(error.items) if isinstance(error, NotSentError) else len(events)
            self._counters.count_lost(lost)
            _LOG.exception("%d of %d messages of a batch are lost", lost, len(events))
