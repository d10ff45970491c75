"""The values of the export job's flags, and the names in the tables that it writes."""

from __future__ import annotations

from enum import Enum

DELTA, PARQUET = "delta", "parquet"  # --table-format
FROM_TIME, FROM_OFFSETS = "--from-time", "--from-offsets"

# Properties of a Delta table.
MODE_PROPERTY = "commitlog.mode"
SERDE_PROPERTY = "commitlog.serde"  # the serde that decodes the values (values.recorded)
BAD_RECORDS_PROPERTY = "commitlog.bad"  # the path of the table of bad records, or empty
LOADED_PROPERTY = "commitlog.loaded"  # of loads: {"flights": {"0": 12}, "flights:…": {}}, the next offsets

# The columns of a row besides its value, and the columns of the record that they come from.
COORDINATES = {
    "_key": "key",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
    "_headers": "headers",
}


class TableMode(Enum):
    """Which records of a topic a table has."""

    APPEND = "append"  # one row per record
    UPSERT = "upsert"  # the newest record of each key, unless that is a tombstone
