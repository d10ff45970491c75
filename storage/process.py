"""What a process that runs nothing but this project asks of its system: open files, and memory that stays."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_FROM_THE_HEAP_BYTES = 32 * 2**20  # glibc's maximum; larger blocks are always returned to the system when freed


def raise_limit_to_highest() -> None:
    """Set the soft limit of open files to what the user may have at most, as Java does for a broker.

    Leaves it where the system refuses that.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def keep_freed_memory(kept_bytes: int) -> None:
    """Make this process, and processes that it forks, reuse up to so many freed bytes. Does nothing without glibc.

    By default, malloc returns freed blocks to the system from some 100 KB on, and gets them back page by page: to
    decompress a megabyte then takes five times as long.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _FROM_THE_HEAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, kept_bytes)
