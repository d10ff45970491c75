"""Garbage collector and malloc settings for Spark's long-lived Python processes.

Each garbage collection traverses all imported modules: with pandas, Arrow and Numba this takes 70 to 150 ms of a core,
in a process whose task may have taken 5 ms. And malloc returns the memory that a task frees to the system, so the next
task gets it back page fault by page fault: 10 to 15 ms of a core for the 18 MB that reading needs.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import lru_cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT_BYTES = 128 * 2**20  # free heap that stays allocated: more than one of our tasks frees
_FROM_THE_HEAP_BYTES = 32 * 2**20  # glibc's maximum; larger blocks are always returned to the system when freed


def freeze_imports() -> None:
    """Excludes all current objects from later garbage collections.

    Does nothing if no module was imported since the last call. Call it after anything that may import modules: a lookup
    by time, for example, may be the first to need Numba.
    """
    _freeze_with(len(sys.modules))


@lru_cache(maxsize=1)
def _freeze_with(_modules: int) -> None:
    gc.collect()
    gc.freeze()


def freeze_worker_imports() -> None:
    """Calls :func:`freeze_imports` in a process that Spark started; does nothing in the user's own process."""
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        freeze_imports()


def keep_freed_memory() -> None:
    """Makes this process, and processes that it forks, reuse freed memory. Does nothing without glibc's mallopt."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _FROM_THE_HEAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
