"""What Spark forks its Python workers from, with all loaded that a task of ours imports.

``spark.python.daemon.module = pyspark_commitlog.pipeline.daemon`` puts it in the place of ``pyspark.daemon``, which
forks first and leaves the imports to each worker. Here workers share them, and garbage collection passes over them.

A fork copies one thread only, so a lock that another one holds stays locked in the worker for good. That is why Spark
imports nothing before. So when all is imported the threads are counted, and unless each is known to bear a fork, plain
``pyspark.daemon`` takes the place of this one. See docs/decisions/worker_daemon.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark_commitlog import storage
from pyspark_commitlog.pipeline.garbage import freeze_imports, keep_freed_memory

PLAIN_DAEMON = "pyspark.daemon"
_OF_ANY_TASK = (
    "concurrent.futures.thread",
    "pandas",
    "pyarrow.compute",
    "pyarrow.pandas_compat",
    "pyspark.sql.pandas.serializers",
    "pyspark_commitlog.pipeline.batch_writer",
    "pyspark_commitlog.pipeline.datasource",
    "pyspark_commitlog.pipeline.sink",
)

_READ_BY_LIBRARIES = {
    # Else NumPy's algebra starts a thread for each core of the executor as soon as it is loaded.
    "OPENBLAS_NUM_THREADS": "1",
    # Arrow's allocator else gives memory back to the system 10 ms after it is free, and gets it again with the next
    # table, page fault by page fault.
    "MIMALLOC_PURGE_DELAY": "-1",
}

# An allocator of Arrow's starts it when the library is loaded. Its fork handlers take all locks it has before a fork,
# and begin anew in the child (jemalloc's prefork and postfork_child of background_thread).
BEARS_A_FORK = frozenset({"jemalloc_bg_thd"})
_THREADS = Path("/proc/self/task")


def main() -> None:
    """Run until Spark closes standard input. The first argument is the module whose ``main`` a worker runs."""
    for name, value in _READ_BY_LIBRARIES.items():
        os.environ.setdefault(name, value)
    with redirect_stdout(sys.stderr):  # on standard output Spark is told where to connect
        preload(sys.argv[1])
    if not may_fork():
        os.execv(sys.executable, [sys.executable, "-m", PLAIN_DAEMON, *sys.argv[1:]])
    freeze_imports()
    keep_freed_memory()
    plain: Any = import_module(PLAIN_DAEMON)
    plain.worker = ending_quietly(plain.worker)
    plain.manager()


def preload(worker: str) -> None:
    """Import what a worker that runs the module ``worker`` would import."""
    for name in (worker, *_OF_ANY_TASK):
        import_module(name)
    storage.load_kernels()  # and with the first of them most of Numba


def ending_quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """Spark's ``worker``, which ends without a traceback when Spark has hung up.

    So an idle one is told that it is not needed any more. It tries to answer that there was no task, and over a unix
    socket that fails, while over TCP what nobody reads can still be sent.
    """

    @wraps(worker)
    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return 1

    return run


def may_fork() -> bool:
    """Whether all other threads of this process bear a fork; False where the system does not show threads."""
    if not _THREADS.exists():
        return False
    others = [thread for thread in _THREADS.iterdir() if thread.name != str(os.getpid())]
    return BEARS_A_FORK.issuperset((thread / "comm").read_text().strip() for thread in others)


if __name__ == "__main__":
    main()
