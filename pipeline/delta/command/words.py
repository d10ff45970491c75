"""What flags of the export job may say."""

from __future__ import annotations

from enum import Enum

DELTA, PARQUET = "delta", "parquet"  # --table-format
FROM_TIME, FROM_OFFSETS = "--from-time", "--from-offsets"


class TableMode(Enum):
    """Which records of a topic a table has."""

    APPEND = "append"  # one row per record
    UPSERT = "upsert"  # the newest record of each key, unless that is a tombstone
