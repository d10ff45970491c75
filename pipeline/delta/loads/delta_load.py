"""Loads a topic into a Delta table to its end, without a query and a checkpoint: docs/tables.md.

A property of the table has the next offset to load from each partition, as does the row with the largest offset; the
larger of both counts. Some offsets have no row: those of markers, of aborted and of bad records, and all before the
first point of a load. A load makes the rows from there to the log's end what the log has there, in one commit, so a
load that is repeated, or two at once, add no row twice. Rows that another load added above that end stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from ....storage import CorruptionError, InvalidConfigError, TopicPartition
from ...rows import offsets_from_json, offsets_to_nested
from ..points import Points, sql_between_or_above
from ..table_ends import last_rows
from ..table_progress import properties_of, set_properties
from ..tables import TableSink
from .topic_load import Loaded, TopicLoad

_PROGRESS = "commitlog.loaded"  # property of the table: {"flights": {"0": 12}}, the next offsets


@dataclass(frozen=True)
class DeltaLoad(TopicLoad):
    """A load of a topic into the table of ``sink``, whose mode is append."""

    sink: TableSink

    def run(self) -> Loaded:
        """Adds what was written to the topic since the last load; with ``wanted``, first goes back to that point.

        1. The property is set to where the load begins, if it is not. The table has the rows as before.
        2. The rows are committed. A crash before leaves the table as it was, and after it, with all rows.
        3. The property is set to where the load ended. A load after a crash before this begins after the last rows.

        Raises as ``ParquetLoad.run``, without its lock.
        """
        rows = self._rows()
        recorded = {} if rows is None else self._recorded()
        done = recorded if rows is None else _later(recorded, rows)
        starts, ends = self._spans(done, rows, self.sink.path)
        is_back = any(start < done.get(number, start) for number, start in starts.items())
        if rows is None or is_back or any(starts[number] < end for number, end in ends.items()):
            beyond = {number for number, end in ends.items() if done.get(number, 0) > end}  # of another log
            where = sql_between_or_above(starts, ends, beyond)
            self.sink.load(self._records(starts, ends), where, self._progress(starts), self._progress(ends))
        elif recorded != ends:
            set_properties(self.session, self.sink.path, self._progress(ends))
        return Loaded(starts, ends, is_back)

    def _rows(self) -> DataFrame | None:
        if not DeltaTable.isDeltaTable(self.session, self.sink.path):
            return None
        return self.session.read.format("delta").load(self.sink.path)

    def _progress(self, offsets: Points) -> dict[str, str]:
        named = {TopicPartition(self.log.topic, number): offset for number, offset in sorted(offsets.items())}
        return {_PROGRESS: json.dumps(offsets_to_nested(named))}

    def _recorded(self) -> dict[int, int]:
        """Returns the next offsets in the table's property; {} if there is none: an older version loaded the rows."""
        text = properties_of(self.session, self.sink.path).get(_PROGRESS)
        if text is None:
            return {}
        try:
            offsets = offsets_from_json(text, _PROGRESS)
        except InvalidConfigError as error:
            raise CorruptionError(
                f"table {self.sink.path}: property {_PROGRESS}: {error}. Correct it, or remove it: then the next load "
                "begins after the last row of each partition"
            ) from None
        return self._of_topic(offsets, self.sink.path)


def _later(recorded: Mapping[int, int], rows: DataFrame) -> dict[int, int]:
    """Returns the next offset of each partition: what is recorded, or after its last row."""
    after = {last.partition: last.offset + 1 for last in last_rows(rows)}
    return {number: max(recorded.get(number, 0), after.get(number, 0)) for number in recorded.keys() | after.keys()}
