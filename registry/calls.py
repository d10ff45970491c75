"""Calls: a thread that calls watches and listeners, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread, current_thread

logger = logging.getLogger(__name__)


class Calls:
    """Calls functions in order, in its own thread. For any thread."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def put(self, call: Callable[[], None]) -> None:
        """Queues ``call``; its errors are logged."""
        self._queue.put(call)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the queued calls, and waits for that, unless called in this thread."""
        self._queue.put(None)
        if self._thread.ident is not None and self._thread is not current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            try:
                call()
            except Exception:
                logger.exception("a watch or listener of the registry raised an error")
