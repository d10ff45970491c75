"""A worker daemon for Spark that imports what our tasks need before it forks.

``spark.python.daemon.module = pyspark_commitlog.pipeline.workers.daemon`` replaces ``pyspark.daemon``, which forks
first and leaves the imports to each worker. Here workers share the imported modules, and garbage collection skips them.

A fork copies only one thread, so a lock that another thread holds stays locked in the worker forever; this is why
Spark's daemon imports nothing before it forks. So this daemon checks its threads after the imports, and runs
``pyspark.daemon`` in its place unless each thread is known to survive a fork. See docs/decisions/worker_daemon.md.
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from ... import storage
from .memory import freeze_imports
from .quiet_end import PLAIN_DAEMON, ending_quietly

# More than one of our tasks frees. Without it, the 18 MB that reading needs cost the next task 10 to 15 ms of a core.
_KEPT_BYTES = 128 * 2**20
_OF_ANY_TASK = (
    "concurrent.futures.thread",
    "pandas",
    "pyarrow.compute",
    "pyarrow.pandas_compat",
    "pyspark.sql.pandas.serializers",
    "pyspark_commitlog.pipeline.write.dataframe",
    "pyspark_commitlog.pipeline.datasource",
    "pyspark_commitlog.pipeline.write.foreach_batch",
)

_READ_BY_LIBRARIES = {
    # Otherwise NumPy's algebra library starts a thread per core of the executor as soon as it is loaded.
    "OPENBLAS_NUM_THREADS": "1",
    # Otherwise Arrow's allocator returns memory to the system 10 ms after it is freed, and the next table gets it back
    # page fault by page fault.
    "MIMALLOC_PURGE_DELAY": "-1",
}

# Started by one of Arrow's allocators when the library is loaded. Its fork handlers acquire all its locks before a
# fork, and reset them in the child (jemalloc's prefork and postfork_child of background_thread).
BEARS_A_FORK = frozenset({"jemalloc_bg_thd"})
_THREADS = Path("/proc/self/task")


def main() -> None:
    """Runs the daemon until Spark closes its standard input.

    The first command-line argument is the module whose ``main`` a worker runs.
    """
    for name, value in _READ_BY_LIBRARIES.items():
        os.environ.setdefault(name, value)
    with redirect_stdout(sys.stderr):  # standard output is for the port that Spark connects to
        preload(sys.argv[1])
    if not may_fork():
        os.execv(sys.executable, [sys.executable, "-m", PLAIN_DAEMON, *sys.argv[1:]])
    freeze_imports()
    storage.keep_freed_memory(_KEPT_BYTES)
    plain: Any = import_module(PLAIN_DAEMON)
    plain.worker = ending_quietly(plain.worker)
    plain.manager()


def preload(worker: str) -> None:
    """Imports the modules that a worker needs to run the module ``worker`` and our tasks."""
    for name in (worker, *_OF_ANY_TASK):
        import_module(name)
    storage.load_kernels()  # the first one loads most of Numba


def may_fork() -> bool:
    """Whether all other threads of this process survive a fork; False if the system does not list threads."""
    if not _THREADS.exists():
        return False
    others = [thread for thread in _THREADS.iterdir() if thread.name != str(os.getpid())]
    return BEARS_A_FORK.issuperset((thread / "comm").read_text().strip() for thread in others)


if __name__ == "__main__":
    main()
