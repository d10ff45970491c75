"""Loads a topic into a Delta table to its end, without a query and a checkpoint: docs/tables.md.

A property of the table has the next offset to load from each partition, as does the row with the largest offset; the
larger of both counts. Some offsets have no row: those of markers, of aborted and of bad records, and all before the
first point of a load. In one commit, a load replaces the rows from that next offset to the log's end by the records
there, so repeated or simultaneous loads add no row twice. Rows that another load added above that end stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from ....storage import CorruptionError, InvalidConfigError, TopicIds
from ...rows.topic_ids import KnownOffsets
from ..command.words import LOADED_PROPERTY
from ..points import Points, sql_between_or_above
from ..table_ends import last_rows
from ..table_progress import properties_of, set_properties
from ..tables import TableSink
from .topic_load import Done, Loaded, TopicLoad


@dataclass(frozen=True)
class DeltaLoad(TopicLoad):
    """A load of a topic into the table of ``sink``, whose mode is append."""

    sink: TableSink

    def run(self) -> Loaded:
        """Adds records written to the topic since the last load; with ``wanted``, first goes back to that point.

        1. The property is set to the start of the load, unless it is already. The table has the rows as before.
        2. The rows are committed. A crash before leaves the table as it was, and after it, with all rows.
        3. The property is set to the end of the load. A load after a crash before this begins after the last rows.

        Raises the errors of ``ParquetLoad.run``, without its lock.
        """
        rows = self._rows()
        before = Done({}, {}) if rows is None else self._recorded()
        done = before.offsets if rows is None else _later(before.offsets, rows)
        starts, ends, ids = self._spans(Done(done, before.ids), rows, self.sink.path)
        is_back = any(start < done.get(number, start) for number, start in starts.items())
        if rows is None or is_back or any(starts[number] < end for number, end in ends.items()):
            beyond = {number for number, end in ends.items() if done.get(number, 0) > end}  # of another log
            where = sql_between_or_above(starts, ends, beyond)
            self.sink.load(self._records(starts, ends), where, self._progress(starts, ids), self._progress(ends, ids))
        elif before != (ends, ids):
            set_properties(self.session, self.sink.path, self._progress(ends, ids))
        return Loaded(starts, ends, is_back, bool(done))

    def _rows(self) -> DataFrame | None:
        if not DeltaTable.isDeltaTable(self.session, self.sink.path):
            return None
        return self.session.read.format("delta").load(self.sink.path)

    def _progress(self, offsets: Points, ids: TopicIds) -> dict[str, str]:
        return {LOADED_PROPERTY: self._known(offsets, ids).to_json()}

    def _recorded(self) -> Done:
        """Returns the offsets in the table's property; empty without it, if an older version loaded the rows."""
        text = properties_of(self.session, self.sink.path).get(LOADED_PROPERTY)
        if text is None:
            return Done({}, {})
        try:
            known = KnownOffsets.from_json(text, LOADED_PROPERTY)
        except InvalidConfigError as error:
            raise CorruptionError(
                f"table {self.sink.path}: property {LOADED_PROPERTY}: {error}. Correct it, or remove it: then the next "
                "load begins after the last row of each partition"
            ) from None
        return self._of_topic(known, self.sink.path)


def _later(recorded: Mapping[int, int], rows: DataFrame) -> dict[int, int]:
    """Returns the next offset of each partition: the larger of the recorded one and the one after its last row."""
    after = {last.partition: last.offset + 1 for last in last_rows(rows)}
    return {number: max(recorded.get(number, 0), after.get(number, 0)) for number in recorded.keys() | after.keys()}
