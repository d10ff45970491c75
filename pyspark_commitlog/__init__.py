"""Kafka's commit log, native to Spark.

This is the public API. Spark finds ``format("commitlog")`` by itself, because this module's name begins with
``pyspark_`` and it has a ``DefaultSource``. Names are imported on first use, so that importing
``pyspark_commitlog.storage``, or calling ``read_table``, ``tail``, ``append``, ``find`` or ``follow``, does not import
Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from pyspark_commitlog.arrow.finding import find as find
    from pyspark_commitlog.arrow.follower import Follower as Follower, follow as follow
    from pyspark_commitlog.arrow.producer import Producer as Producer, append as append
    from pyspark_commitlog.arrow.rows import Record as Record
    from pyspark_commitlog.arrow.table import read_table as read_table, tail as tail
    from pyspark_commitlog.arrow.values.avro.serde import AvroSerde as AvroSerde, Confluent as Confluent
    from pyspark_commitlog.arrow.values.schema_stores import (
        SchemaFolder as SchemaFolder,
        SchemaRegistry as SchemaRegistry,
    )
    from pyspark_commitlog.arrow.values.serde import JsonSerde as JsonSerde
    from pyspark_commitlog.gateway.server import Gateway as Gateway
    from pyspark_commitlog.pipeline.datasource import (
        CommitLogDataSource as CommitLogDataSource,
        DefaultSource as DefaultSource,
    )
    from pyspark_commitlog.pipeline.delta.table_and_tail.topic_table import topic_table as topic_table
    from pyspark_commitlog.pipeline.delta.tables import (
        changes_to_records as changes_to_records,
        table_sink as table_sink,
    )
    from pyspark_commitlog.pipeline.job.run_query import run_available as run_available
    from pyspark_commitlog.pipeline.job.session import spark_session as spark_session
    from pyspark_commitlog.pipeline.metrics.queries import CommitLogMetrics as CommitLogMetrics
    from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink as commitlog_sink
    from pyspark_commitlog.pipeline.write.partitioners.own import (
        Destination as Destination,
        LeastBytesPartitioner as LeastBytesPartitioner,
        Partitioner as Partitioner,
        RowPartitioner as RowPartitioner,
    )

    __version__: str
else:
    _loaded, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "arrow.finding": ["find"],
            "arrow.follower": ["Follower", "follow"],
            "arrow.producer": ["Producer", "append"],
            "arrow.rows": ["Record"],
            "arrow.table": ["read_table", "tail"],
            "arrow.values.avro.serde": ["AvroSerde", "Confluent"],
            "arrow.values.schema_stores": ["SchemaFolder", "SchemaRegistry"],
            "arrow.values.serde": ["JsonSerde"],
            "gateway.server": ["Gateway"],
            "pipeline.datasource": ["CommitLogDataSource", "DefaultSource"],
            "pipeline.delta.table_and_tail.topic_table": ["topic_table"],
            "pipeline.delta.tables": ["changes_to_records", "table_sink"],
            "pipeline.job.run_query": ["run_available"],
            "pipeline.job.session": ["spark_session"],
            "pipeline.metrics.queries": ["CommitLogMetrics"],
            "pipeline.write.foreach_batch": ["commitlog_sink"],
            "pipeline.write.partitioners.own": [
                "Destination",
                "LeastBytesPartitioner",
                "Partitioner",
                "RowPartitioner",
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
