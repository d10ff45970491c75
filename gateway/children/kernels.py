"""Compiles the kernels in a child process, while the gateway serves with plain Python in their place.

Compiling takes half a minute at the first start on a machine; later starts load numba's results from disk. It holds the
GIL, so in the gateway's own process it would stop the other threads.
"""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ...storage import ProduceTables, load_kernels, load_kernels_beside
from ..threads.kept import KeptThread
from .lifetime import deaf, end_with_parent, start_child

_TURNS = "turns"  # an argument of the child
DESCRIPTORS = 32  # enough for a child's pipes, and for files that importing opens

logger = logging.getLogger(__name__)


def compile_kernels_beside() -> None:
    """Starts the child, and uses plain Python until it has ended. Only the first call in a process does anything.

    A child that ends early keeps what it has compiled, and the next one continues there.
    """
    load_kernels_beside(_compile, _start)


def compile_turns() -> None:
    """Compiles the kernels of ``gateway.turns`` in a child process, unless they are compiled already."""
    try:
        _compile_in_child(_TURNS)
    except OSError as error:
        logger.warning("kernels are compiled in this process, which slows it down: %s", error)


def _start(task: Callable[[], None]) -> KeptThread:
    thread = KeptThread("gateway-kernels", task)
    thread.start()
    return thread


def _compile() -> None:
    """Compiles in a child process. Raises OSError while this process lacks descriptors, which importing needs, too.

    An import that fails in between leaves half of a library. So the import does not begin without spare descriptors.
    """
    _check_descriptors()
    _compile_in_child()
    _check_descriptors()


def _check_descriptors() -> None:
    with ExitStack() as opened:
        for _ in range(DESCRIPTORS):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))


def _compile_in_child(*arguments: str) -> None:
    try:
        with compiler(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            code = child.wait()
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM):
            raise
        logger.warning("kernels are compiled in this process, which slows it down: %s", error)
    else:
        if code:
            logger.warning("kernels are compiled in this process, which slows it down: a child ended with %s", code)


def compiler(*arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
    """Starts the child.

    A signal to both processes does not end the child; otherwise the gateway would compile while it stops.
    """
    with deaf():
        return start_child(["-m", __name__, *arguments], **streams)


if __name__ == "__main__":
    end_with_parent()
    os.nice(5)  # clients of the gateway come first
    if _TURNS in sys.argv:
        ProduceTables().load()
    else:
        load_kernels()
