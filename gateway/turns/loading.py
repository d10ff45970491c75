"""Loads the kernels of turns when a client first produces: a gateway without producers needs no memory for them.

They are compiled by a child, as the others are, and loaded by a thread. Until then, requests go the usual way.
"""

from __future__ import annotations

import logging
from threading import Lock

from ...storage import ProduceTables, are_being_compiled
from ..children.kernels import compile_turns
from ..threads.kept import run_apart

logger = logging.getLogger(__name__)


class Loading:
    """Of one process. For any thread."""

    def __init__(self) -> None:
        self._begun = Lock()  # held once it has begun
        self.is_done = False

    def begin(self) -> None:
        """Begins to load the kernels, unless that has begun, or the others are not loaded yet."""
        if are_being_compiled() or not self._begun.acquire(blocking=False):
            return
        try:
            run_apart("gateway-turns", self._run)
        except RuntimeError:  # no more threads: tried again with the next request
            self._begun.release()

    def _run(self) -> None:
        compile_turns()
        ProduceTables().load()
        self.is_done = True


LOADING = Loading()
