"""Imports kernels when they are first used, or runs them as plain Python until they are compiled.

Importing numba takes a third of a second, and listing topics needs no kernel. A process that must answer at once calls
:func:`compile_beside`: its kernels run as plain Python (``plain/``) until they are compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from threading import Event, Lock, Thread
from types import FunctionType, ModuleType
from typing import Any, Protocol

import numpy as np

PLAIN_BYTES_MAX = 4 << 20  # of a plain kernel's arrays: half a second for records of 100 bytes
TRIES_MAX = 5  # attempts to compile and import, unless the system's limits are the reason for a failure
IN_PLAIN = ("canonical", "memory", "murmur2", "records", "scan", "streams", "varint", "writing")  # of plain Python, too
_ROOM = __name__.rpartition(".")[0]
_WITH_NUMBA = frozenset(f"{_ROOM}.{module}" for module in (*IN_PLAIN, "compiling"))  # these import numba


class Running(Protocol):
    """A thread."""

    def is_alive(self) -> bool:
        """Whether the thread runs; False in a forked child, which lacks it."""
        ...


Start = Callable[[Callable[[], None]], Running]  # calls a function in a thread, again if it raises


class _Compiling:
    """The compilation of kernels beside this process's use of them."""

    def __init__(self) -> None:
        self.begun = Lock()  # held once it has begun
        self._done = Event()
        self._is_begun = False
        self._thread: Running | None = None
        self._tries = 0

    def begin(self, compile_all: Callable[[], None], load: Callable[[], None], start: Start) -> None:
        self._is_begun = True  # before the thread runs, which asks
        self._thread = start(partial(self._run, compile_all, load))

    @property
    def is_going_on(self) -> bool:
        """Whether compilation is in progress; False in a forked child, which lacks the thread and compiles on use."""
        if not self._is_begun or self._done.is_set():  # as after a minute, for each batch
            return False
        return self._thread is None or self._thread.is_alive()

    def wait(self) -> None:
        """Waits until kernels can be used."""
        while self.is_going_on:
            self._done.wait(1)

    def _run(self, compile_all: Callable[[], None], load: Callable[[], None]) -> None:
        """Compiles and imports, unless that is done, then loads. After an error it may be called again.

        If it always fails, users of the kernels import them, and get the error.
        """
        self._tries += 1
        if not self._done.is_set():
            try:
                compile_all()
                for module in IN_PLAIN:  # with numba, which no thread that others wait for may import
                    import_module(f"{_ROOM}.{module}")
            except OSError:  # such as no free descriptor; plain Python is used until there is one
                _forget_imports()
                raise
            except BaseException:
                _forget_imports()
                if self._tries >= TRIES_MAX:
                    self._done.set()
                raise
            self._done.set()
        load()


def _forget_imports() -> None:
    """Removes the modules of a failed import; otherwise half of a package would stay, and fail at each use."""
    for name in list(sys.modules):
        if name in _WITH_NUMBA or name.partition(".")[0] in ("numba", "llvmlite"):
            del sys.modules[name]


_compiling = _Compiling()


class OnUse(ModuleType):
    """Acts as a module of kernels, which it imports when one of its attributes is first used."""

    def __getattr__(self, name: str) -> Any:
        if _compiling.is_going_on:
            return self._before_compiled(name)
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value

    def _before_compiled(self, name: str) -> Any:
        if name.startswith("_"):  # a tool that inspects all modules must not wait
            raise AttributeError(name)
        package, _, module = self.__name__.rpartition(".")
        if module not in IN_PLAIN:
            _compiling.wait()
            return getattr(self, name)
        value = getattr(import_module(f"{package}.plain.{module}"), name)
        return partial(self._run_plainly, value) if isinstance(value, FunctionType) else value

    def _run_plainly(self, kernel: FunctionType, *arguments: Any) -> Any:
        """Runs a kernel as plain Python; a call that would take long waits for the compiled one."""
        if sum(_sizes(arguments)) > PLAIN_BYTES_MAX:
            _compiling.wait()
            return getattr(self, kernel.__name__)(*arguments)
        with np.errstate(over="ignore"):  # 64 bits, wrapping
            found = kernel(*arguments)
        return tuple(map(_number, found)) if isinstance(found, tuple) else _number(found)


def _sizes(arguments: Iterable[Any]) -> Iterable[int]:
    for each in arguments:
        if isinstance(each, np.ndarray):
            yield each.nbytes
        elif isinstance(each, tuple):
            yield from _sizes(each)


def _number(found: Any) -> Any:
    """Converts a number to Python's, as compiled kernels return it."""
    return found.item() if isinstance(found, np.generic) else found


def are_imported() -> bool:
    """Whether numba has been imported, so that using a kernel costs no import."""
    return "numba" in sys.modules and not _compiling.is_going_on


def are_being_compiled() -> bool:
    """Whether kernels still run as plain Python, or wait to be compiled; avoid them in a thread of many clients."""
    return _compiling.is_going_on


def compile_beside(compile_all: Callable[[], None], load: Callable[[], None], start: Start | None = None) -> None:
    """Runs kernels as plain Python until ``compile_all``, called in a thread, has returned; at most once per process.

    ``compile_all`` fills numba's cache, best in another process: compiling holds the GIL for seconds. Then ``load`` is
    called in the thread. Results are the same. A call that would take long in plain Python waits for the compiled
    kernels. ``start`` starts the thread, in which all of this is done again after an error; None: once.
    """
    if _compiling.begun.acquire(blocking=False):
        _compiling.begin(compile_all, load, start or _started)


def _started(task: Callable[[], None]) -> Thread:
    thread = Thread(target=task, name="kernels", daemon=True)
    thread.start()
    return thread
