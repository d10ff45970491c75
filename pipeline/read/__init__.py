"""The data source's reading half: ``spark.read`` and ``spark.readStream``, and ``read_table`` without Spark.

``options`` parses what a user asks for, ``task_ranges`` and ``rate_limits`` divide offsets among tasks and
micro-batches, ``batch`` and ``stream`` have Spark's readers, and ``task`` reads what one task was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .batch import batch_reader as batch_reader
    from .options import (
        INT_MAX as INT_MAX,
        Columns as Columns,
        Given as Given,
        ReadOptions as ReadOptions,
        Use as Use,
    )
    from .positions import PositionBatchReader as PositionBatchReader, refused_stream as refused_stream
    from .stream import RefusedStreamReader as RefusedStreamReader, StreamReader as StreamReader
    from .table import (
        chosen_partitions as chosen_partitions,
        isolation_of as isolation_of,
        read_table as read_table,
        tail as tail,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "batch": ["batch_reader"],
            "options": ["Columns", "Given", "INT_MAX", "ReadOptions", "Use"],
            "positions": ["PositionBatchReader", "refused_stream"],
            "stream": ["RefusedStreamReader", "StreamReader"],
            "table": ["chosen_partitions", "isolation_of", "read_table", "tail"],
        },
    )
