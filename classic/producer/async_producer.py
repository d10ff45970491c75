"""AsyncProducer: puts messages into a queue, from which a background thread sends them in batches."""

from __future__ import annotations

from collections.abc import Sequence

from ...storage import Clock
from ..errors import QueueClosedError, QueueFullError
from .encoders import Encoder
from .event_queue import EventQueue
from .figures import Counters, ProducerFigures
from .handlers import CallbackHandler, EventHandler, Sender
from .messages import QueueItem
from .send_thread import SendThread
from .settings import ProducerConfig


class AsyncProducer:
    """Sends messages through a queue. May be used by several threads."""

    def __init__(
        self,
        config: ProducerConfig,
        sender: Sender,
        counters: Counters,
        *,
        clock: Clock,
        encoder: Encoder,
        event_handler: EventHandler,
        callbacks: CallbackHandler | None,
    ) -> None:
        self._timeout_ms = config.enqueue_timeout_ms or 0
        self._counters, self._callbacks, self._event_handler = counters, callbacks, event_handler
        self._queue = EventQueue(config.queue_size, clock)
        self._thread = SendThread(
            self._queue,
            lambda events: event_handler.handle(events, sender, encoder),
            counters,
            clock=clock,
            batch_size=config.batch_size,
            queue_time_ms=config.queue_time_ms,
            callbacks=callbacks,
        )

    @property
    def figures(self) -> ProducerFigures:
        return self._counters.figures(self._queue.accepted, len(self._queue))

    def enqueue(self, items: Sequence[QueueItem]) -> None:
        """Puts messages into the queue, in their order.

        If a message gets no room in time, raises QueueFullError; that message is dropped, and later ones of the call
        are not tried. Raises QueueClosedError after the producer was closed.
        """
        if self._callbacks is None:
            if (accepted := self._queue.put(items, self._timeout_ms)) < len(items):
                raise self._refused(accepted, len(items))
            return
        for number, item in enumerate(items):
            if self._queue.is_closed:
                raise self._closed(number)
            put = self._callbacks.before_enqueue(item)
            is_added = self._queue.put([put], self._timeout_ms) == 1
            self._callbacks.after_enqueue(put, is_added)
            if not is_added:
                raise self._refused(number, len(items))

    def _refused(self, accepted: int, total: int) -> QueueClosedError | QueueFullError:
        if self._queue.is_closed:
            return self._closed(accepted)
        self._counters.count_dropped(1)
        return QueueFullError(
            f"the queue of the producer is full, after {accepted} of {total} messages of this call: send less, or "
            "raise queue.size or queue.enqueueTimeout.ms",
            accepted,
        )

    @staticmethod
    def _closed(accepted: int) -> QueueClosedError:
        return QueueClosedError(f"the producer is closed; {accepted} messages of this call were accepted", accepted)

    def close(self) -> bool:
        """Returns when all accepted messages were passed to the event handler; False if it was closed already.

        If the callback handler raises an error, it is raised after that.
        """
        try:
            if self._callbacks and not self._queue.is_closed:
                self._callbacks.close()
        finally:
            is_first = self._queue.close()
            self._thread.join()
            if is_first:
                self._event_handler.close()
        return is_first
