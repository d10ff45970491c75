"""Garbage collection in Spark's Python processes: after each task they look through all that they ever imported.

With pandas, Arrow and Numba that takes 70 to 150 ms of a core, in a process that may have worked for five.
"""

from __future__ import annotations

import gc
import os
from functools import cache


@cache
def freeze_imports() -> None:
    """Leave what there is now out of every later collection; once in a process, when all is imported."""
    gc.collect()
    gc.freeze()


def freeze_worker_imports() -> None:
    """The same where Spark runs this process for its own ends; elsewhere the objects are the user's, and stay."""
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        freeze_imports()
