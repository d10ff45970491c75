"""The columns of the data source with their Arrow types, for reading with or without Spark."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from ..storage import InvalidConfigError, did_you_mean

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

# The order and the types are those of Spark's Kafka source (spark-sql-kafka-0-10).
READ_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER)),
}
# The columns with a record's own bytes; building the other columns costs next to nothing.
IN_RECORDS = ("key", "value", "headers")


def read_names(include_headers: bool) -> list[str]:
    """Returns the names of the columns of a read that selects none, in order."""
    return [name for name in READ_TYPES if name != "headers" or include_headers]


def schema_of(names: Iterable[str]) -> pa.Schema:
    """Returns the schema of some columns, in the given order.

    Raises InvalidConfigError for an unknown column (with the most similar name), for a column that is named twice, and
    for no column.
    """
    wanted = list(names)
    if not wanted or len(set(wanted)) < len(wanted):
        raise InvalidConfigError(f"columns are {', '.join(wanted) or 'none'}; name at least one, and none twice")
    for name in wanted:
        check_known(name)
    return pa.schema([pa.field(name, READ_TYPES[name]) for name in wanted])


def check_known(name: str) -> None:
    """Raises InvalidConfigError, with the most similar name, for a column that the data source does not have."""
    if name not in READ_TYPES:
        hint = did_you_mean(name, READ_TYPES)
        raise InvalidConfigError(f"the commitlog source has no column {name!r}{hint}; it has {', '.join(READ_TYPES)}")
