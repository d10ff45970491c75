"""Which Python Spark runs: its own processes must find this package, or there is no data source ``commitlog``.

Tasks run ``PYSPARK_PYTHON``, by default the ``python3`` on the path, which may not be that of the virtual environment.
The process that searches data sources runs ``PYSPARK_DRIVER_PYTHON`` if it is set, else the same (tried with 4.2).
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from pyspark import SparkContext

logger = logging.getLogger(__name__)

TASKS, FINDER = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"
_LOOK_TIMEOUT_S = 60


def run_this_python() -> None:
    """Makes a JVM that is started later run this Python; tasks run ``PYSPARK_PYTHON`` if it is set."""
    os.environ.setdefault(TASKS, sys.executable)
    os.environ[FINDER] = sys.executable  # this process is the driver, even if the variable named jupyter or ipython


def warn_of_another_python() -> None:
    """Logs a warning if Spark's tasks run a Python on this machine that does not have this package.

    Checks the running session, if there is one, and otherwise the environment. Gives no warning about a Python that is
    not on this machine.
    """
    context = SparkContext._active_spark_context
    python = str(os.environ.get(TASKS, "python3") if context is None else context.pythonExec)
    if not _has_package(python):
        logger.warning(
            "Spark runs %s, which does not have spark-commitlog: queries fail with DATA_SOURCE_NOT_FOUND, or with No "
            "module named 'pyspark_commitlog'. Set %s=%s before the first session starts",
            *(python, TASKS, sys.executable),
        )


@cache
def _has_package(python: str) -> bool:
    """Whether a Python has this package; True for one that is not on this machine, which cannot be checked."""
    path = shutil.which(python)
    if path is None or Path(path) == Path(sys.executable):
        return True
    look = [path, "-c", "import pyspark_commitlog"]
    try:
        return subprocess.run(look, capture_output=True, check=False, timeout=_LOOK_TIMEOUT_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
