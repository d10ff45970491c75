"""Chooses the implementation: an object store for its URLs, a log directory otherwise."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ....storage import InvalidConfigError, is_store_url
from . import bucket, log_directory
from .port import End


def end_at(directory: str) -> End:
    """Returns what begins writes to the log at a path, or at the URL of an object store."""
    return bucket if is_store_url(directory) else log_directory


def check_session(session: SparkSession, directory: str) -> None:
    """Raises InvalidConfigError under ``spark.speculation``, unless the log is on an object store."""
    if not end_at(directory).MAY_REPEAT_TASKS and session.conf.get("spark.speculation", "false") == "true":
        raise InvalidConfigError(
            "spark.speculation=true starts a task twice, and both would append: set it to false for a query that "
            "writes to a log directory"
        )
