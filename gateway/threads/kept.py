"""KeptThread: a thread that survives errors. Also the state of all threads: which run, and how often each failed.

If an appender or a network thread ended in silence, the gateway would look alive and answer nothing. So every thread of
the gateway is a KeptThread: after an error, which is logged and counted, its function is called again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread
from weakref import WeakSet

from .said import Said

PAUSE_S, PAUSE_MAX_S = 0.1, 10.0  # pauses before it runs again: after the first error, and at most
TRIES_AT_THE_END = 3  # a thread that must end, but keeps failing, is given up

logger = logging.getLogger(__name__)
_said = Said(logger)


class KeptThread:
    """Runs a function until it returns; if it raises, runs it again after a pause, which grows with each error.

    The function keeps what it has to do in objects that outlive it, as most loops do. For any thread.
    """

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        """``run`` returns when the thread is to end."""
        self.name = name
        self._run_once = run
        self._is_ending = Event()
        self._is_failing = False
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread. Raises RuntimeError if the system has no room for one."""
        self._thread.start()
        with _lock:
            _KNOWN.add(self)

    def join(self, timeout_s: float | None = None) -> None:
        """Waits until the function returns; the caller has asked it to end. No-op if the thread was not started.

        ``timeout_s``: how long to wait; None: forever.
        """
        self._is_ending.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    @property
    def ident(self) -> int | None:
        """The id of the thread; None before it was started."""
        return self._thread.ident

    def is_alive(self) -> bool:
        """Whether the thread runs; False in a forked child, which lacks it."""
        return self._thread.is_alive()

    @property
    def is_well(self) -> bool:
        """Whether it runs, or has ended on request; False while it pauses after an error."""
        return not self._is_failing

    def _run(self) -> None:
        pause_s, tries = PAUSE_S, TRIES_AT_THE_END
        while tries:
            try:
                self._run_once()
                return
            except BaseException as error:  # a bug, or an error of the system: no descriptor, no memory
                _failed(self.name, "is started again", error)
            self._is_failing = True
            self._is_ending.wait(pause_s)
            tries -= self._is_ending.is_set()
            pause_s = min(2 * pause_s, PAUSE_MAX_S)
            self._is_failing = self._is_ending.is_set()


def run_apart(name: str, task: Callable[[], None]) -> None:
    """Runs ``task`` once in a thread of its own; an error is logged and counted.

    Raises RuntimeError if the system has no room for a thread.
    """

    def run() -> None:
        try:
            task()
        except BaseException as error:
            _failed(name, "has ended", error)

    Thread(target=run, name=name, daemon=True).start()


# The state of all threads of this process

_KNOWN: WeakSet[KeptThread] = WeakSet()
_failures: Counter[str] = Counter()
_ended: set[str] = set()
_lock = Lock()  # Guards the three collections.


def thread_failures() -> Mapping[str, int]:
    """Returns how often threads failed since the start of this process, by their names; those that never did have 0."""
    with _lock:
        return {**{each.name: 0 for each in _KNOWN}, **_failures}


def unwell_threads() -> list[str]:
    """Returns the names of threads that pause after an error, or have ended with one, sorted."""
    with _lock:
        return sorted({*_ended, *(each.name for each in _KNOWN if not each.is_well)})


def watch_all_threads() -> None:
    """Also counts other threads of this process that end with an error: those of libraries, and of the registry."""
    before = threading.excepthook

    def note(arguments: threading.ExceptHookArgs) -> None:
        name = "unknown" if arguments.thread is None else arguments.thread.name
        if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
            with _lock:
                _ended.add(name)
            _failed(name, "has ended, and the gateway should be started again", arguments.exc_value)
        before(arguments)

    threading.excepthook = note


def _failed(name: str, outcome: str, error: BaseException) -> None:
    with _lock:
        _failures[name] += 1
    _said.log(f"thread {name} failed and {outcome}", error, with_trace=True)
