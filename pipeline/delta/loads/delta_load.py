"""Loads a topic into a Delta table to its end, without a query and a checkpoint: docs/tables.md.

The table says how far it is: the largest offset that it has of each partition. A load makes the rows from there to the
log's end what the log has there, in one commit, so a load that is repeated, or two at once, add no row twice. Rows that
another load added above that end stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from ..points import sql_at_or_above, sql_between
from ..table_ends import last_rows
from ..tables import TableSink
from .topic_load import Loaded, TopicLoad


@dataclass(frozen=True)
class DeltaLoad(TopicLoad):
    """A load of a topic into the table of ``sink``, whose mode is append."""

    sink: TableSink

    def run(self) -> Loaded:
        """Adds what was written to the topic since the last load; with ``wanted``, first goes back to that point.

        A crash leaves the table as it was, or with all rows. Raises as ``ParquetLoad.run``, without its lock.
        """
        rows = self._rows()
        done = {} if rows is None else {last.partition: last.offset + 1 for last in last_rows(rows)}
        starts, ends = self._spans(done, rows, self.sink.path)
        is_back = any(start < done.get(number, start) for number, start in starts.items())
        if rows is None or is_back or any(starts[number] < end for number, end in ends.items()):
            where = sql_at_or_above(starts) if is_back else sql_between(starts, ends)
            self.sink.load(self._records(starts, ends), where)
        return Loaded(starts, ends, is_back)

    def _rows(self) -> DataFrame | None:
        if not DeltaTable.isDeltaTable(self.session, self.sink.path):
            return None
        return self.session.read.format("delta").load(self.sink.path)
