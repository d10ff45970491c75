"""The newest record of each key among the rows of a table and the records of a tail."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from ..table_rows import DELETED
from ..upserts import not_deleted_since, sql_is_newer

_ALL_MAX = 1_000_000  # up to this many keys are sent to every task; for more, the table is sorted by key
_COORDINATES = ("_key", "_partition", "_offset", "_timestamp")


def newest_of_both(
    rows: DataFrame, tombstones: DataFrame | None, tail: DataFrame, count: int, *, in_one_partition: bool
) -> DataFrame:
    """Returns the newest record of each key, without those that are tombstones.

    ``rows`` and ``tombstones`` are those of a table of mode upsert, ``tail`` the newest records of the keys since, with
    the column ``_deleted``, and ``count`` their largest possible number. With ``in_one_partition``, the topic has only
    one partition, so every record of the tail is newer than all in the table.
    """
    keys = tail.select(*_COORDINATES)
    keys = (F.broadcast(keys) if count <= _ALL_MAX else keys).alias("new")
    same_key = "old._key = new._key"
    kept = rows.alias("old").join(keys, F.expr(f"{same_key} AND {sql_is_newer('new', 'old')}"), "left_anti")
    if not in_one_partition:
        touched = rows.select(*_COORDINATES).alias("old").join(keys, F.expr(same_key), "left_semi").alias("old")
        is_older = F.expr(f"{same_key} AND NOT {sql_is_newer('new', 'old')}")
        tail = tail.alias("new").join(touched, is_older, "left_anti")
        tail = tail if tombstones is None else not_deleted_since(tail, tombstones)
    return kept.unionByName(tail.where(~F.col(DELETED)).drop(DELETED))
