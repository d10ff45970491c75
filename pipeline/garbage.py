"""What Spark's Python processes do with memory between tasks, and need not.

Each garbage collection looks through all that was ever imported: with pandas, Arrow and Numba that takes 70 to 150 ms
of a core, in a process that may have worked for five. And memory that a task frees goes back to the system, from which
the next one gets it page fault by page fault: 10 to 15 ms of a core for the 18 MB that reading takes.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import lru_cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT_BYTES = 128 * 2**20  # of addresses that are free: more than a task of ours gives back
_FROM_THE_HEAP_BYTES = 32 * 2**20  # the most that glibc takes: what is larger is the system's again once it is free


def freeze_imports() -> None:
    """Leave what there is now out of every later collection; nothing happens where no module came since the last time.

    To be called behind whatever may import: a question about time takes Numba, in a process that did without.
    """
    _freeze_with(len(sys.modules))


@lru_cache(maxsize=1)
def _freeze_with(_modules: int) -> None:
    gc.collect()
    gc.freeze()


def freeze_worker_imports() -> None:
    """The same where Spark runs this process for its own ends; elsewhere the objects are the user's, and stay."""
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        freeze_imports()


def keep_freed_memory() -> None:
    """Let this process, and those it forks, use memory again that they freed. Does nothing without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _FROM_THE_HEAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
