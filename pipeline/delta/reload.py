"""Loads records again from a point: replaces the rows at or above it by the current records of the log.

Rows below the point stay. The rows are compared first, so that loading the same records again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from ...storage import InvalidConfigError, Isolation, LogManager, TopicPartition
from ..rows.offsets import offsets_to_nested
from .command.words import TableMode
from .points import Points, Wanted, at_or_above, check_log_reaches, find_points, sql_at_or_above
from .table_ends import check_same_log, last_rows
from .tables import TableSink


class Reloaded(NamedTuple):
    """The reloaded range: from the points up to, not including, the ends, in partitions that had rows there."""

    points: Points
    ends: Points
    replaced: bool  # whether a row differed


def load_again(
    session: SparkSession, sink: TableSink, log_dir: str, topic: str, wanted: Wanted, options: Mapping[str, str]
) -> Reloaded:
    """Replaces the rows at or above a point in a Delta table with the records of the log, in one commit.

    Records after the table's last row are left to the query that continues the table. Nothing is replaced if the rows
    match the log, or if the table does not exist yet. ``options`` are those of the read. A crash leaves the table as it
    was, or with all rows replaced.

    Raises InvalidConfigError for a table of mode upsert, the errors of ``find_points``, and ProgressMismatchError if
    the rows below the points did not come from this log.
    """
    if sink.mode is TableMode.UPSERT:
        raise InvalidConfigError(
            "--mode upsert takes no --from-time and no --from-offsets: such a table has only the newest record of each "
            "key, so the rows from before the point are not known. Export to another table, from earliest"
        )
    with LogManager.open(log_dir) as manager:
        points = find_points(manager, topic, wanted)
        if not DeltaTable.isDeltaTable(session, sink.path):
            return Reloaded(points, {}, False)
        rows = session.read.format("delta").load(sink.path)
        ends = ends_above(manager, topic, rows, points, wanted, sink.path)
    points_there = {number: points[number] for number in ends}
    if not ends:
        return Reloaded(points, ends, False)
    records = read_between(session, log_dir, topic, points_there, ends, options)
    return Reloaded(points, ends, sink.replace(records, sql_at_or_above(points_there)))


def ends_above(
    manager: LogManager, topic: str, rows: DataFrame, points: Points, wanted: Wanted, path: str
) -> dict[int, int]:
    """Returns the offset after the last row of each partition that has rows at or above its point.

    Raises ProgressMismatchError if the rows did not come from this log.
    """
    below = last_rows(rows.where(~at_or_above(points)))
    for last in below:
        if last.partition in points:
            check_same_log(manager, topic, last, path)
    ends = {last.partition: last.offset + 1 for last in last_rows(rows.where(at_or_above(points)))}
    check_log_reaches(manager, topic, ends, points, wanted)
    return ends


def read_between(
    session: SparkSession, log_dir: str, topic: str, starts: Points, ends: Points, options: Mapping[str, str]
) -> DataFrame:
    """Returns the records of these partitions from ``starts`` up to, not including, ``ends``, or the log's end."""
    with LogManager.open(log_dir) as manager:
        most = {number: _log_end(manager, topic, number) for number in starts}
    upto = {number: max(starts[number], min(ends[number], most[number])) for number in starts}
    given = {
        "assign": json.dumps({topic: sorted(starts)}),
        "startingOffsets": _json(topic, starts),
        "endingOffsets": _json(topic, upto),
        "includeHeaders": "true",
        **options,
    }
    return session.read.format("commitlog").options(**given).load(log_dir)


def _log_end(manager: LogManager, topic: str, number: int) -> int:
    with manager.open_reader(topic, number) as reader:
        return reader.end_offset(Isolation.READ_COMMITTED)


def _json(topic: str, offsets: Points) -> str:
    return json.dumps(offsets_to_nested({TopicPartition(topic, number): at for number, at in offsets.items()}))
