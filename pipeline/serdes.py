"""Values of records as columns: bytes to structs and back, on Arrow arrays, with or without Spark.

A serde (:class:`JsonSerde` here, ``AvroSerde`` in :mod:`pyspark_commitlog.pipeline.avro`) knows the struct its values
hold. A null value is a null struct, both ways: a tombstone stays one. In Spark columns take a serde through
:mod:`pyspark_commitlog.pipeline.values`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_commitlog.pipeline.json_columns import ColumnReader
from pyspark_commitlog.pipeline.json_values import Reader
from pyspark_commitlog.pipeline.spark_times import zone_of
from pyspark_commitlog.storage import InvalidConfigError, LogStoreError

T = TypeVar("T")

# As Spark's from_avro and from_json name them: raise at the first value that does not decode, or make it null.
Mode = Literal["failfast", "permissive"]


_CONFLUENT_MAGIC = b"\0"  # no JSON begins with it
_ONE_BY_ONE_MAX = 256  # about as many as take as long as the parser of columns needs to begin
_SAMPLE, _PIECES = 64, 16


class SerializationError(LogStoreError):
    """A value that does not decode, or a row that does not fit the schema it is to be written with."""


class Serde(Protocol):
    """Whole columns to and from values. Both take a ``pyarrow.Array`` or ``ChunkedArray`` and answer the same."""

    type: pa.StructType
    mode: Mode

    def decode(self, values: pa.Array) -> pa.Array:
        """Binary or string to structs of ``type``.

        Raises SerializationError naming the row (its index in ``values``); with mode ``permissive`` it is null.
        """

    def encode(self, rows: pa.Array) -> pa.Array:
        """Structs to binary. Raises SerializationError naming the row, whatever the mode: a null would delete."""


class JsonSerde:
    """A JSON object a value, UTF-8. Fields the schema does not have are passed over, missing ones are null.

    Values are read as Spark's from_json reads them; docs/values.md says where not. Dates and timestamps are written as
    ISO 8601 text, decimals as text. ``confluent_header``: values may begin with Confluent's header, 00 and a schema's
    id of 4 bytes, which is passed over; such a serde only reads. ``timezone`` is that of timestamps in UTC whose text
    has none. Raises InvalidConfigError for types that have no form in JSON here, such as bytes, times and maps.
    """

    def __init__(
        self, schema: pa.Schema, mode: Mode = "failfast", *, confluent_header: bool = False, timezone: str = "UTC"
    ) -> None:
        check_mode(mode)
        self.mode = mode
        self._confluent_header = confluent_header
        check_timezone(timezone)
        self._timezone = timezone
        for field in schema:
            _check_json(field.type, field.name)
        self.type = pa.struct(list(schema))
        self._columns = ColumnReader(self.type, zone_of(timezone))

    def decode(self, values: pa.Array) -> pa.Array:
        return by_chunk(self._decode, values, self.type)

    def encode(self, rows: pa.Array) -> pa.Array:
        if self._confluent_header:
            raise InvalidConfigError("a JsonSerde with confluent_header only reads: JSON is written without a header")
        return by_chunk(self._encode, rows, pa.binary())

    def _decode(self, values: pa.Array) -> pa.Array:
        valid = values.drop_null().cast(pa.binary())
        objects = pa.concat_arrays(
            [pa.array([], self.type), *self._parts(valid, pc.indices_nonzero(values.is_valid()))]
        )
        where = pc.if_else(
            values.is_valid(), pc.subtract(pc.cumulative_sum(values.is_valid().cast(pa.int64())), 1), None
        )
        return objects.take(where)

    def _parts(self, values: pa.Array, rows: pa.Array) -> list[pa.Array]:
        """All at once; where that fails, in pieces, or one by one, by the rules that the parser does not know.

        One by one takes about five times as long. So a few bad values in a column must cost little more than none,
        and values of which most are read one by one must not be tried again and again at once.
        """
        if (found := self._at_once(values)) is not None:
            return [found]
        first, last = values[:_SAMPLE], values[-_SAMPLE:]
        if len(values) <= _ONE_BY_ONE_MAX or self._at_once(first) is None is self._at_once(last):
            return [self._one_by_one(values, rows)]
        size = -(-len(values) // _PIECES)
        pieces = range(0, len(values), size)
        return [part for at in pieces for part in self._parts(values[at : at + size], rows[at : at + size])]

    def _at_once(self, values: pa.Array) -> pa.Array | None:
        try:
            return self._columns.read(self._bodies(values))
        except pa.ArrowInvalid:
            return None

    def _bodies(self, values: pa.Array) -> list[bytes]:
        found: list[bytes] = values.to_pylist()
        if not self._confluent_header:
            return found
        return [value[5:] if value.startswith(_CONFLUENT_MAGIC) else value for value in found]

    def _one_by_one(self, values: pa.Array, rows: pa.Array) -> pa.Array:
        reader, found = Reader(self.type, zone_of(self._timezone)), list[dict[str, Any] | None]()
        for place, body in enumerate(self._bodies(values)):
            try:
                found.append(reader.read(body))
            except ValueError as error:
                if self.mode == "failfast":
                    value = values[place].as_py()
                    told = f"{error}{'' if self._confluent_header else _of_header(value)}"
                    raise _at(rows[place].as_py(), "is not the JSON that was expected", told, value) from None
                found.append(None)
        return pa.array(found, self.type)

    def _encode(self, rows: pa.Array) -> pa.Array:
        return encode_rows(cast_rows(rows, self.type), lambda row: _JSON.encode(row).encode())


def decode_rows(values: pa.Array, decode: Callable[[bytes], T], mode: Mode) -> list[T | None]:
    """``decode`` of each value; it raises SerializationError for a bad one."""
    found: list[T | None] = []
    for row, value in enumerate(values.cast(pa.binary()).to_pylist()):
        try:
            found.append(None if value is None else decode(value))
        except SerializationError as error:
            if mode == "failfast":
                raise _at(row, "does not decode", error, value) from error.__cause__
            found.append(None)
    return found


def encode_rows(rows: pa.Array, encode: Callable[[dict[str, Any]], bytes]) -> pa.Array:
    """``encode`` of each row; what it raises is told with the row."""

    def values() -> Iterable[bytes | None]:
        for index, row in enumerate(rows.to_pylist()):
            try:
                yield None if row is None else encode(row)
            except (ValueError, TypeError, OverflowError) as error:
                raise SerializationError(f"row {index} does not fit the schema: {error}; the row is {row!r}") from error

    return pa.array(values(), pa.binary())


def cast_rows(rows: pa.Array, type: pa.StructType) -> pa.Array:
    """``rows`` with the fields of ``type``, found by name. Raises SerializationError where a field is missing."""
    try:
        if missing := [field.name for field in type if rows.type.get_field_index(field.name) < 0]:
            raise SerializationError(f"the rows to encode lack the fields {', '.join(missing)}")
        columns = [pc.struct_field(rows, field.name).cast(field.type) for field in type]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SerializationError(f"rows of {rows.type} do not fit {type}: {error}") from None
    return pa.StructArray.from_arrays(columns, fields=list(type), mask=rows.is_null())


def by_chunk(convert: Callable[[pa.Array], pa.Array], column: pa.Array, type: pa.DataType) -> pa.Array:
    """``convert``, which takes an Array, for a ChunkedArray as well."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([convert(chunk) for chunk in column.chunks], type)
    return convert(column)


def check_timezone(name: str) -> None:
    try:
        zone_of(name)
    except ValueError as error:
        raise InvalidConfigError(f"timezone: {error}") from None


def check_mode(mode: str) -> None:
    if mode not in ("failfast", "permissive"):
        raise InvalidConfigError(f"mode is {mode!r}; it must be failfast or permissive")


def _of_header(value: bytes) -> str:
    if not value.startswith(_CONFLUENT_MAGIC) or len(value) < 5:
        return ""
    return (
        f"; it begins with Confluent's header (00 and the schema's id, {int.from_bytes(value[1:5])}), "
        "which confluent_header=True skips, or --confluent-header of the export job"
    )


def _at(row: int, what: str, why: object, value: bytes) -> SerializationError:
    begins = value[:24].hex(" ") + (" ..." if len(value) > 24 else "")
    return SerializationError(
        f"row {row} {what}: {why}; its value has {len(value)} bytes: {begins}. "
        "Fix the producer, skip the record, or set mode='permissive', which reads the value as null"
    )


def _to_text(value: object) -> str:
    """What JSON has no form for: dates and timestamps as ISO 8601, decimals by their digits."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_JSON = json.JSONEncoder(default=_to_text, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


_IN_JSON = (
    *(pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    *(pa.types.is_string, pa.types.is_date, pa.types.is_timestamp),
)


def _check_json(kind: pa.DataType, where: str) -> None:
    if pa.types.is_struct(kind):
        for field in kind:
            _check_json(field.type, f"{where}.{field.name}")
    elif pa.types.is_list(kind):
        _check_json(kind.value_type, f"{where}[]")
    elif not any(is_one(kind) for is_one in _IN_JSON):
        raise InvalidConfigError(
            f"field {where}: {kind} has no form in JSON here; use text for bytes, and a list of structs for a map"
        )
