"""Writing from Spark: the foreachBatch sink, ``df.write`` and ``writeStream``, each write visible as a whole or not.

``targets`` has the topics that are written, ``task`` what a worker does, ``kept_writers`` the driver's writers,
``exactly_once/`` the progress of queries, compared with their checkpoints, and ``publication/`` how rows become visible
in a log directory or on an object store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .answers import Written as Written
    from .classic_session import committed_version as committed_version
    from .dataframe import (
        BatchWrite as BatchWrite,
        WriteOptions as WriteOptions,
        refuse_overwrite as refuse_overwrite,
    )
    from .exactly_once.checkpoint import check_readable as check_readable
    from .exactly_once.connect_queries import KnowsItsQuery as KnowsItsQuery
    from .exactly_once.progress import Run as Run
    from .foreach_batch import commitlog_sink as commitlog_sink
    from .kept_writers import SinkBatch as SinkBatch, newest_batches as newest_batches
    from .partitioners.own import (
        Destination as Destination,
        LeastBytesPartitioner as LeastBytesPartitioner,
        Partitioner as Partitioner,
        RowPartitioner as RowPartitioner,
    )
    from .stream import StreamWrite as StreamWrite
    from .targets import ProducerSettings as ProducerSettings
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "answers": ["Written"],
            "classic_session": ["committed_version"],
            "dataframe": ["BatchWrite", "WriteOptions", "refuse_overwrite"],
            "stream": ["StreamWrite"],
            "exactly_once.checkpoint": ["check_readable"],
            "exactly_once.connect_queries": ["KnowsItsQuery"],
            "exactly_once.progress": ["Run"],
            "foreach_batch": ["commitlog_sink"],
            "kept_writers": ["SinkBatch", "newest_batches"],
            "partitioners.own": ["Destination", "LeastBytesPartitioner", "Partitioner", "RowPartitioner"],
            "targets": ["ProducerSettings"],
        },
    )
