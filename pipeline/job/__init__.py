"""What the programs in ``jobs/`` share: a Spark session, a command line, and running a query to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .command_line import Parser as Parser, arguments as arguments, exit_code as exit_code, to_run as to_run
    from .delta_jars import check_delta as check_delta
    from .run_query import (
        ProgressLines as ProgressLines,
        Run as Run,
        on_jvm_shutdown as on_jvm_shutdown,
        run_available as run_available,
        run_together as run_together,
    )
    from .session import (
        WORKER_SETTINGS as WORKER_SETTINGS,
        Settings as Settings,
        job_session as job_session,
        spark_session as spark_session,
    )
    from .settings_files import properties as properties
    from .stderr import errors_apart as errors_apart, is_submitted as is_submitted
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "command_line": ["Parser", "arguments", "exit_code", "to_run"],
            "delta_jars": ["check_delta"],
            "settings_files": ["properties"],
            "run_query": ["ProgressLines", "Run", "on_jvm_shutdown", "run_available", "run_together"],
            "session": ["Settings", "WORKER_SETTINGS", "job_session", "spark_session"],
            "stderr": ["errors_apart", "is_submitted"],
        },
    )
