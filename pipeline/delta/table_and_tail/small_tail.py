"""A short tail, read and decoded by the program itself; a query then needs no Python process for it.

Spark has the rows in the plan of the query up to ``spark.sql.execution.arrow.localRelationThreshold``, and applies
filters to them before it runs anything: if a filter keeps none of them, the query reads only the table. Tasks decode
larger tails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ....arrow.values.serde import Serde, SerializationError
from ....storage import LogManager
from ...read.options import ReadOptions
from ...read.task import batches_of
from ...read.task_ranges import OffsetRange
from ...rows.arrow_schema import as_arrow
from ..table_stream.tail_rows import TailRows
from .plan import Span

OFFSETS_MAX = 250_000  # of a short tail
_BYTES_MAX = 32 * 1024 * 1024  # of its rows, which the driver holds


def small_tail(
    session: SparkSession,
    log_dir: str,
    spans: list[Span],
    options: Mapping[str, str],
    schema: StructType,
    serde: Serde | None,
    *,
    drops_bad: bool,
) -> DataFrame | None:
    """Returns the rows of ``spans`` with ``schema``; None if they are many, or if a value does not decode.

    Then a query that does not need the value still succeeds, and others fail when they run.
    """
    if sum(each.offset_count for each in spans) > OFFSETS_MAX:
        return None
    rows = TailRows(as_arrow(schema), serde, drops_bad)
    try:
        found = _read(log_dir, spans, options, rows)
    except SerializationError:
        return None
    return None if found is None else session.createDataFrame(found, schema)


def _read(log_dir: str, spans: list[Span], options: Mapping[str, str], rows: TailRows) -> pa.Table | None:
    batches, size = list[pa.RecordBatch](), 0
    with LogManager.open(log_dir) as manager:
        for partition, start, end in spans:
            given = {"path": log_dir, "assign": json.dumps({partition.topic: [partition.partition]}), **options}
            part, parsed = OffsetRange(partition, start, end), ReadOptions.parse(given)
            with manager.open_reader(*partition, reports_remote=False) as reader:
                for records in batches_of(reader, part, parsed, rows.record_schema) if start < end else ():
                    batches.append(rows.rows(records, partition))
                    size += batches[-1].nbytes
                    if size > _BYTES_MAX:
                        return None
    # Columns of a table without batches have no chunks, which Spark does not take.
    return pa.Table.from_batches(batches, rows.columns) if batches else rows.columns.empty_table()
