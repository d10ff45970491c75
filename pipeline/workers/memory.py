"""Settings of the garbage collector for Spark's long-lived Python processes.

Each garbage collection traverses all imported modules: with pandas, Arrow and Numba this takes 70 to 150 ms of a core,
in a process whose task may have taken 5 ms.
"""

from __future__ import annotations

import gc
import os
import sys
from functools import lru_cache


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
