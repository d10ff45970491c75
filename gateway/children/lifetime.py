"""The life of a child process: it ends when its standard input does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..threads.kept import KeptThread


def start_child(arguments: Sequence[str], **streams: Any) -> subprocess.Popen[bytes]:
    """Starts this Python with ``arguments``; ``streams`` as for ``Popen``.

    The child calls :func:`end_with_parent`. Raises OSError.
    """
    return subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, **streams)


@contextmanager
def deaf() -> Iterator[None]:
    """Within the block, children that this thread starts never get Ctrl-C or SIGTERM.

    Both are sent to all processes of a terminal or a service: the parent answers, and its children end with it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Ends this child process when its parent ends or closes the pipe, whatever it is doing at that moment."""
    KeptThread("parent", _wait_for_end).start()


def _wait_for_end() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)
