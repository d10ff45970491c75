"""Where a table ends, held against the log that its rows came from.

The table's last row of a partition and the record at its offset have the same time. Where they do not, or the log ends
below, the log was put back from a backup, or the topic was deleted and made again: what was written since would be
passed over by a query that begins where the table ends.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_commitlog.storage import CorruptionError, Isolation, LogManager, LogReader, ProgressMismatchError


class LastRow(NamedTuple):
    """Of the rows from one partition that with the largest offset."""

    partition: int
    offset: int
    timestamp_ms: int | None


def last_rows(rows: DataFrame) -> list[LastRow]:
    """By partition."""
    last = F.max(F.struct("_offset", F.unix_millis("_timestamp").alias("_ms"))).alias("last")
    found = rows.groupBy("_partition").agg(last).select("_partition", "last._offset", "last._ms")
    return [LastRow(*row) for row in found.collect()]


def check_same_log(manager: LogManager, topic: str, last: LastRow, path: str) -> None:
    """Raises ProgressMismatchError where the log lacks the table's last row, or has another record at its offset.

    A record that was deleted, compacted or damaged tells nothing. Raises UnknownTopicOrPartitionError for a row from a
    partition that is not here.
    """
    row = f"table {path} has a row from offset {last.offset} of {topic}-{last.partition}"
    with manager.open_reader(topic, last.partition) as reader:
        if last.offset >= reader.log_end_offset:
            raise _other_log(f"{row}, and the log in {manager.directory} ends at {reader.log_end_offset}")
        found = _time_at(reader, last.offset)
    if None not in (found, last.timestamp_ms) and found != last.timestamp_ms:
        raise _other_log(
            f"{row} with the time {last.timestamp_ms}, and the log in {manager.directory} has {found} there"
        )


def _time_at(reader: LogReader, offset: int) -> int | None:
    """The time of the record with this offset, in ms; None where it is gone or cannot be read."""
    if offset < reader.log_start_offset:
        return None
    try:
        found = list(reader.records(offset, offset + 1, isolation=Isolation.READ_UNCOMMITTED, columns=()))
    except CorruptionError:
        return None
    return int(found[0].timestamps[0]) if found else None


def _other_log(what: str) -> ProgressMismatchError:
    return ProgressMismatchError(
        f"{what}: an older copy of the log is in its place, or the topic was deleted and made again. To go on where "
        "the table ends would leave records out. Put back the log that fits, or export to another table"
    )
