"""The last rows of an exported table, and the check that they came from the given log.

The last row from each partition must have the same time as the record at the row's offset. If it does not, or if the
log ends below this offset, the log was restored from a backup, or the topic was deleted and created again. A query that
begins where the table ends would then skip records that were written since.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, functions as F

from ...storage import CorruptionError, Isolation, LogManager, LogReader
from .provenance.other_log import other_log


class LastRow(NamedTuple):
    """The row with the largest offset among the rows from one partition."""

    partition: int
    offset: int
    timestamp_ms: int | None


def last_rows(rows: DataFrame) -> list[LastRow]:
    """Returns the last row from each partition."""
    last = F.max(F.struct("_offset", F.unix_millis("_timestamp").alias("_ms"))).alias("last")
    found = rows.groupBy("_partition").agg(last).select("_partition", "last._offset", "last._ms")
    return [LastRow(*row) for row in found.collect()]


def check_same_log(manager: LogManager, topic: str, last: LastRow, path: str) -> None:
    """Raises ProgressMismatchError if the log ends below the table's last row, or has another record at its offset.

    Accepts a log in which this record was deleted, compacted or damaged. Raises UnknownTopicOrPartitionError for a row
    from a partition that is not in the log directory.
    """
    row = f"table {path} has a row from offset {last.offset} of {topic}-{last.partition}"
    with manager.open_reader(topic, last.partition) as reader:
        if last.offset >= reader.log_end_offset:
            raise other_log(f"{row}, but the log in {manager.directory} ends at {reader.log_end_offset}")
        found = _time_at(reader, last.offset)
    if None not in (found, last.timestamp_ms) and found != last.timestamp_ms:
        raise other_log(
            f"{row} with the time {last.timestamp_ms} ms, but the record there in the log in {manager.directory} has "
            f"the time {found} ms"
        )


def _time_at(reader: LogReader, offset: int) -> int | None:
    """Returns the time of the record at an offset, in ms; None if it does not exist or cannot be read."""
    if offset < reader.log_start_offset:
        return None
    try:
        found = list(reader.records(offset, offset + 1, isolation=Isolation.READ_UNCOMMITTED, columns=()))
    except CorruptionError:
        return None
    return int(found[0].timestamps[0]) if found else None
