"""The maintenance jobs: from a command line to tasks on a cluster, a report, and an exit code.

The operations themselves are in storage/maintenance, which does not depend on Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .run import job_runner as job_runner, maintain as maintain, show as show
    from .spark_tasks import SparkTasks as SparkTasks
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "run": ["job_runner", "maintain", "show"],
            "spark_tasks": ["SparkTasks"],
        },
    )
