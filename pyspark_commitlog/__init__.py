"""Kafka's commit log, native to Spark.

This is the public API. Spark finds ``format("commitlog")`` by itself, because the name of this module begins with
``pyspark_`` and it has a ``DefaultSource``. Names are imported on first use, so that importing
``pyspark_commitlog.storage``, or reading a topic with ``read_table`` and ``tail``, does not import Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_commitlog.pipeline.datasource import CommitLogDataSource, DefaultSource
    from pyspark_commitlog.pipeline.delta.tables import changes_to_records, table_sink
    from pyspark_commitlog.pipeline.metrics.queries import CommitLogMetrics
    from pyspark_commitlog.pipeline.read.table import read_table, tail
    from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink

__all__ = [
    "CommitLogDataSource",
    "CommitLogMetrics",
    "DefaultSource",
    "changes_to_records",
    "commitlog_sink",
    "read_table",
    "table_sink",
    "tail",
]

_HOMES = {
    "CommitLogDataSource": "pyspark_commitlog.pipeline.datasource",
    "CommitLogMetrics": "pyspark_commitlog.pipeline.metrics.queries",
    "DefaultSource": "pyspark_commitlog.pipeline.datasource",
    "changes_to_records": "pyspark_commitlog.pipeline.delta.tables",
    "commitlog_sink": "pyspark_commitlog.pipeline.write.foreach_batch",
    "read_table": "pyspark_commitlog.pipeline.read.table",
    "table_sink": "pyspark_commitlog.pipeline.delta.tables",
    "tail": "pyspark_commitlog.pipeline.read.table",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
