"""Kafka's commit log, native to Spark.

This is the public API. Spark finds ``format("commitlog")`` by itself, because this module's name begins with
``pyspark_`` and it has a ``DefaultSource``. Names are imported on first use, so that importing
``pyspark_commitlog.storage``, or calling ``read_table``, ``tail``, ``append`` or ``follow``, does not import Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from pyspark_commitlog.gateway import Gateway as Gateway
    from pyspark_commitlog.pipeline.datasource import (
        CommitLogDataSource as CommitLogDataSource,
        DefaultSource as DefaultSource,
    )
    from pyspark_commitlog.pipeline.delta import changes_to_records as changes_to_records, table_sink as table_sink
    from pyspark_commitlog.pipeline.job import run_available as run_available, spark_session as spark_session
    from pyspark_commitlog.pipeline.metrics import CommitLogMetrics as CommitLogMetrics
    from pyspark_commitlog.pipeline.programs import (
        Follower as Follower,
        Producer as Producer,
        Record as Record,
        append as append,
        follow as follow,
    )
    from pyspark_commitlog.pipeline.read import read_table as read_table, tail as tail
    from pyspark_commitlog.pipeline.values import (
        AvroSerde as AvroSerde,
        Confluent as Confluent,
        JsonSerde as JsonSerde,
        SchemaFolder as SchemaFolder,
        SchemaRegistry as SchemaRegistry,
    )
    from pyspark_commitlog.pipeline.write import (
        Destination as Destination,
        LeastBytesPartitioner as LeastBytesPartitioner,
        Partitioner as Partitioner,
        RowPartitioner as RowPartitioner,
        commitlog_sink as commitlog_sink,
    )

    __version__: str
else:
    _loaded, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "gateway": ["Gateway"],
            "pipeline.datasource": ["CommitLogDataSource", "DefaultSource"],
            "pipeline.delta": ["changes_to_records", "table_sink"],
            "pipeline.job": ["spark_session", "run_available"],
            "pipeline.metrics": ["CommitLogMetrics"],
            "pipeline.programs": ["Follower", "Producer", "Record", "append", "follow"],
            "pipeline.read": ["read_table", "tail"],
            "pipeline.values": ["AvroSerde", "Confluent", "JsonSerde", "SchemaFolder", "SchemaRegistry"],
            "pipeline.write": [
                "Destination",
                "LeastBytesPartitioner",
                "Partitioner",
                "RowPartitioner",
                "commitlog_sink",
            ],
        },
    )

    def __getattr__(name: str) -> object:
        if name == "__version__":  # of the installed package
            from importlib.metadata import version  # noqa: PLC0415  takes 20 ms

            return version("spark-commitlog")
        from pyspark_commitlog.storage import needs_extra  # noqa: PLC0415  after the first name, it is there

        with needs_extra(f"{__name__}.{name}"):
            return _loaded(name)
