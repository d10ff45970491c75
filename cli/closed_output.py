"""What commands do when the reader of their output, such as ``head``, has ended: they end too, without a word."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_UNREAD = 128 + signal.SIGPIPE  # as a shell shows programs that the signal ends
_OUTPUTS = (1, 2)  # standard output and standard error


@contextmanager
def ends_with_its_reader() -> Iterator[None]:
    """Exits with 141 if the ``with`` block writes to a pipe without a reader; also what is written as it ends.

    SIGPIPE itself stays ignored: it would also end a gateway whose client has closed a connection.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as ended:
        # typer makes an exit with 1 of a broken pipe.
        is_broken = isinstance(ended, BrokenPipeError) or isinstance(ended.__context__, BrokenPipeError)
        unread = [each for each in _OUTPUTS if is_broken and _is_unread(each)]
        if not unread:
            raise
        _discard(unread)
        sys.exit(EXIT_UNREAD)


def _is_unread(descriptor: int) -> bool:
    """Whether a descriptor is of a pipe whose reader has closed it."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _discard(descriptors: list[int]) -> None:
    """Discards what is still buffered, which Python writes when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    for each in descriptors:
        os.dup2(null, each)
    os.close(null)
