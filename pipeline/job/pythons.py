"""Which Python Spark runs: its own processes must find this package, or there is no data source ``commitlog``.

Tasks run ``PYSPARK_PYTHON``, by default the ``python3`` on the path, which in a virtual environment may be another one.
The process that looks for data sources runs ``PYSPARK_DRIVER_PYTHON`` if it is set, else the same (tried with 4.2).
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
    """Makes a JVM that is started later run this Python, except for tasks if ``PYSPARK_PYTHON`` says otherwise."""
    os.environ.setdefault(TASKS, sys.executable)
    os.environ[FINDER] = sys.executable  # this process is the driver, whatever the variable said: jupyter, ipython


def warn_of_another_python() -> None:
    """Logs a warning if Spark's tasks run a Python on this machine that does not have this package.

    Asks the session that runs already, if there is one, and else the environment. Says nothing of a Python that is not
    on this machine.
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
    """Whether a Python has this package; True for one that is not on this machine, where nobody can know."""
    path = shutil.which(python)
    if path is None or Path(path) == Path(sys.executable):
        return True
    look = [path, "-c", "import pyspark_commitlog"]
    try:
        return subprocess.run(look, capture_output=True, check=False, timeout=_LOOK_TIMEOUT_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
