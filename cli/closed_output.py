"""Ends a command silently when the reader of its output, such as ``head``, has ended."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_UNREAD = 128 + signal.SIGPIPE  # the code that shells show for programs ended by the signal
_OUTPUTS = (1, 2)  # standard output and standard error


@contextmanager
def ends_with_its_reader() -> Iterator[None]:
    """Exits with 141 if the ``with`` block, or the exit itself, writes to a pipe without a reader.

    SIGPIPE itself stays ignored: it would also end a gateway whose client has closed a connection.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as ended:
        # typer turns a broken pipe into an exit with 1.
        is_broken = isinstance(ended, BrokenPipeError) or isinstance(ended.__context__, BrokenPipeError)
        unread = [each for each in _OUTPUTS if is_broken and _is_unread(each)]
        if not unread:
            raise
        _discard(unread)
        sys.exit(EXIT_UNREAD)


def _is_unread(descriptor: int) -> bool:
    """Whether a descriptor is a pipe whose reader has closed it."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _discard(descriptors: list[int]) -> None:
    """Discards buffered output, which Python would write at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    for each in descriptors:
        os.dup2(null, each)
    os.close(null)
