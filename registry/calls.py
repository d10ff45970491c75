"""Calls: a thread that calls watches and listeners, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread, current_thread

logger = logging.getLogger(__name__)


class Calls:
    """Calls what it is given, in order, in its thread. For any thread."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def put(self, call: Callable[[], None]) -> None:
        """Has ``call`` called; what it raises is logged."""
        self._queue.put(call)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after what was given, and waits for it, unless it is this one."""
        self._queue.put(None)
        if self._thread.ident is not None and self._thread is not current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            try:
                call()
            except Exception:
                logger.exception("a watch of the registry failed")
