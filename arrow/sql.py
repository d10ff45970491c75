"""Filters and shapes found records by SQL, in an embedded engine (duckdb, the extra ``find``)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..storage import FoundRecords, InvalidConfigError, Records, TopicPartition, Unsearched, needs_extra
from .batches import to_batch
from .columns import read_names, schema_of

if TYPE_CHECKING:
    import duckdb

    from .avro_texts import AvroTexts
    from .values.avro.serde import Framing

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "threads": 1,
}

# Text is null for bytes that are not UTF-8; json is null for values that are neither JSON nor Avro with a known schema.
_RECORDS = """
SELECT * EXCLUDE (avro), COALESCE(CAST(avro AS JSON), TRY_CAST(value_text AS JSON)) AS json
FROM (SELECT *, TRY(decode(key)) AS key_text, TRY(decode(value)) AS value_text FROM found)
"""
_TIMES_OF_NOW = {"current_timestamp", "current_time", "localtime", "localtimestamp"}  # without parentheses
_NAMED = ("--where", "--select")
_OFFSET_HINT = '\noffset is a word of SQL: write the column as "offset", in double quotes'
_ROW_BY_ROW = "each record gives at most one row: for sums, sorting and the like, give the output to another program"


class RecordQuery:
    """``SELECT select FROM records WHERE where``, over one batch of records after the other.

    The columns are those of the data source, with headers, and ``key_text``, ``value_text`` and ``json``, the value as
    JSON; with ``schemas``, values of Avro too, each by the schema that its header names. A time that does not fit a
    timestamp in microseconds is null. The engine reads no files and loads no extensions. A context manager that closes
    the engine.
    """

    def __init__(
        self, where: str | None, select: str | None, schemas: Framing | None = None, *, named: tuple[str, str] = _NAMED
    ) -> None:
        """``select`` defaults to the data source's columns, ``where`` to all records.

        ``named``: the names of the flags or arguments for ``where`` and ``select``, for errors.

        Raises InvalidConfigError, with the engine's message, for SQL that it refuses, and for SQL that needs more than
        one record (aggregates, windows, DISTINCT); MissingExtraError without duckdb.
        """
        self._where, self._select = named
        self._named = f"{self._where} or {self._select}"
        with needs_extra(f"{self._where} and {self._select}", extra="find"):
            import duckdb  # noqa: PLC0415  an extra
        self._error: type[Exception] = duckdb.Error
        self._avro: AvroTexts | None = None
        self._schema = schema_of(read_names(include_headers=True))
        columns = select or ", ".join(f'"{name}"' for name in self._schema.names)
        self._query = f"WITH records AS ({_RECORDS}) SELECT {columns}\nFROM records WHERE ({where or 'true'}\n)"
        self._engine: duckdb.DuckDBPyConnection = duckdb.connect(":memory:", config=_CONFIG)
        self._engine.execute("SET TimeZone = 'UTC'")
        needs_json = self._check()
        if schemas is not None and needs_json:
            from .avro_texts import AvroTexts  # noqa: PLC0415  an extra

            self._avro = AvroTexts(schemas)

    def _check(self) -> bool:
        """Raises InvalidConfigError for a query that is refused; returns whether it may need the column ``json``."""
        nothing = FoundRecords(TopicPartition("", 0), Records.to_append([], [], 0))
        if self.rows(nothing):
            raise InvalidConfigError(f"{self._select} has an aggregate; {_ROW_BY_ROW}")
        node = self.parsed()
        has_window = '"class": "WINDOW"' in json.dumps(node)
        if node["modifiers"] or node["group_expressions"] or has_window:
            raise InvalidConfigError(f"{self._named} sorts, groups, or uses a window or DISTINCT; {_ROW_BY_ROW}")
        parts = json.dumps([node["select_list"], node["where_clause"]]).lower()
        return any(name in parts for name in ('"json"', '"class": "star"', '"records"'))  # the last: whole rows

    def parsed(self) -> dict[str, Any]:
        """Returns the query's syntax, as the engine serializes it. Raises InvalidConfigError if it is not one query."""
        [[text]] = self._engine.execute("SELECT json_serialize_sql(?)", [self._query]).fetchall()
        parsed = json.loads(text)
        if parsed.get("error") or len(parsed["statements"]) != 1:
            raise InvalidConfigError(f"{self._where} and {self._select} must be parts of one SELECT statement")
        node: dict[str, Any] = parsed["statements"][0]["node"]
        return node

    def changing_functions(self) -> set[str]:
        """Returns the names of functions whose result may change between calls, such as ``random``."""
        rows = self._engine.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
        ).fetchall()
        return {name for (name,) in rows} | _TIMES_OF_NOW

    def table(self, found: FoundRecords) -> pa.Table:
        """Returns the rows of the query over these records, in their order.

        Raises InvalidConfigError if the query fails, and SchemaRegistryError.
        """
        batch = to_batch(found.records, found.partition, self._schema, null_times=True)
        texts = pa.nulls(len(batch), pa.string()) if self._avro is None else self._avro.texts(found)
        try:
            self._engine.register("found", batch.append_column("avro", texts))
            return self._engine.sql(self._query).to_arrow_table()
        except self._error as error:
            raise InvalidConfigError(f"{self._named}: {error}{self._hint(error)}") from None

    def _hint(self, error: Exception) -> str:
        is_unquoted = re.search(r'(?<!")\boffset\b(?!")', self._query, re.IGNORECASE)
        return _OFFSET_HINT if is_unquoted and "syntax error" in str(error) else ""

    def rows(self, found: FoundRecords) -> list[dict[str, Any]]:
        """Returns what :meth:`table` returns, as dicts."""
        rows: list[dict[str, Any]] = self.table(found).to_pylist()
        return rows

    @property
    def unsearched(self) -> list[Unsearched]:
        """The values of Avro that could not be decoded until now, so that the query saw no ``json`` of them."""
        return [] if self._avro is None else self._avro.unsearched

    def close(self) -> None:
        """Closes the engine."""
        self._engine.close()

    def __enter__(self) -> RecordQuery:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
