"""Serdes: they convert values of records to structs and back, as Arrow arrays, with or without Spark.

There are :class:`JsonSerde` in this module, and ``AvroSerde`` in :mod:`pyspark_commitlog.arrow.values.avro.serde`.
A null value becomes a null struct, and a null struct becomes a null value: a tombstone stays a tombstone. The functions
of :mod:`pyspark_commitlog.pipeline.rows.values` apply a serde to a column of Spark.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ...storage import InvalidConfigError, LogStoreError
from .json.columns import ColumnParser
from .json.values import ValueParser
from .spark_times import zone_of

T = TypeVar("T")

# The treatment of a value that does not decode, named as in Spark's from_avro: raise an error, or read it as null.
Mode = Literal["failfast", "permissive"]


_CONFLUENT_MAGIC = b"\0"  # JSON cannot begin with it
_ONE_BY_ONE_MAX = 256  # decoding this many values takes about as long as starting the parser of columns
_SAMPLE, _PIECES = 64, 16


class SerializationError(LogStoreError):
    """A value cannot be decoded, or a row does not fit the schema that it is to be written with."""


class Serde(Protocol):
    """Converts columns of values to structs and back; for a ``ChunkedArray``, returns a ``ChunkedArray``."""

    type: pa.StructType
    mode: Mode

    def decode(self, values: pa.Array) -> pa.Array:
        """Returns binary or string values as structs of ``type``.

        A value that cannot be decoded raises SerializationError, which names its row (the index in ``values``); with
        mode ``permissive``, it becomes null.
        """

    def encode(self, rows: pa.Array) -> pa.Array:
        """Returns structs as binary values.

        A row that cannot be encoded raises SerializationError, which names it, in any mode: a null value would be a
        tombstone.
        """


class JsonSerde:
    """Serde for values that are one JSON object in UTF-8. Ignores unknown fields; missing fields are null.

    Reads values as Spark's from_json does; docs/values.md lists the exceptions. Writes dates and timestamps as ISO 8601
    text, decimals as text. With ``confluent_header``, skips Confluent's header (00 and a schema id of 4 bytes) at the
    start of a value, if it is there; such a serde only reads. ``timezone`` applies to timestamps written as text
    without a zone, in columns with a time zone. Raises InvalidConfigError for a type that this serde cannot write as
    JSON: bytes, times and maps.
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
        self._columns = ColumnParser(self.type, zone_of(timezone))

    def only(self, names: Collection[str]) -> JsonSerde:
        """Returns a serde that decodes only the fields ``names``; other fields are then not checked."""
        fields = pa.schema([field for field in self.type if field.name in names])
        return JsonSerde(fields, self.mode, confluent_header=self._confluent_header, timezone=self._timezone)

    def recorded(self) -> dict[str, Any]:
        """Returns the arguments for an equal serde, as JSON (``recorded.serde_from_text``)."""
        return {
            "format": "json",
            "schema": b64encode(pa.schema(list(self.type)).serialize()).decode(),
            "mode": self.mode,
            "confluent_header": self._confluent_header,
            "timezone": self._timezone,
        }

    def decode(self, values: pa.Array) -> pa.Array:
        return by_chunk(self._decode, values, self.type)

    def encode(self, rows: pa.Array) -> pa.Array:
        if self._confluent_header:
            raise InvalidConfigError(
                "a JsonSerde with confluent_header=True can read, but cannot write, because it has no id for the "
                "header: write with a JsonSerde without confluent_header"
            )
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
        """Decodes values with the fast parser of columns, or if that fails, in pieces, or one by one.

        Decoding one by one knows all of Spark's rules, and takes about five times as long. If only a few values need
        it, dividing the values into pieces keeps the others fast. If most values need it (the parser fails both for
        the first and for the last 64), the parser is not tried again.
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
        reader, found = ValueParser(self.type, zone_of(self._timezone)), list[dict[str, Any] | None]()
        for index, body in enumerate(self._bodies(values)):
            try:
                found.append(reader.read(body))
            except ValueError as error:
                if self.mode == "failfast":
                    value = values[index].as_py()
                    why = f"{error}{'' if self._confluent_header else _of_header(value)}"
                    raise _at(rows[index].as_py(), "is not the JSON that was expected", why, value) from None
                found.append(None)
        return pa.array(found, self.type)

    def _encode(self, rows: pa.Array) -> pa.Array:
        return encode_rows(cast_rows(rows, self.type), lambda row: _JSON.encode(row).encode())


def decoded_or_reasons(serde: Serde, values: pa.Array) -> list[tuple[pa.Array, str | None]]:
    """Returns ``values`` in pieces, in order: structs and None, or a null and why this value does not decode.

    Decodes all values at once and, if that fails, each half on its own, so that a few bad values cost little time.
    """
    try:
        return [(serde.decode(values), None)]
    except SerializationError as error:
        if len(values) == 1:
            return [(pa.nulls(1, serde.type), re.sub("^row 0 ", "its value ", str(error)))]
    half = len(values) // 2
    return decoded_or_reasons(serde, values[:half]) + decoded_or_reasons(serde, values[half:])


def narrowed(serde: Serde, names: Collection[str]) -> Serde:
    """Returns a serde that decodes only those of its fields that ``names`` has, ignoring case.

    Returns ``serde`` itself if it decodes all or none in the same time, or if it has no such field.
    """
    wanted = {name.lower() for name in names}
    found = [field.name for field in serde.type if field.name.lower() in wanted]
    return serde.only(found) if found and isinstance(serde, JsonSerde) else serde


def decode_rows(values: pa.Array, decode: Callable[[bytes], T], mode: Mode) -> list[T | None]:
    """Returns the result of ``decode`` for each value; None for null.

    If ``decode`` raises SerializationError, raises it with the number of the row, or with mode ``permissive`` returns
    None for the value.
    """
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
    """Returns the result of ``encode`` for each row. Raises SerializationError, which names the row, for its errors."""

    def values() -> Iterable[bytes | None]:
        for index, row in enumerate(rows.to_pylist()):
            try:
                yield None if row is None else encode(row)
            except (ValueError, TypeError, OverflowError) as error:
                raise SerializationError(f"row {index} does not fit the schema: {error}; the row is {row!r}") from error

    return pa.array(values(), pa.binary())


def cast_rows(rows: pa.Array, type: pa.StructType) -> pa.Array:
    """Returns ``rows`` with the fields of ``type``, by name. Raises SerializationError if a field is missing."""
    try:
        if missing := [field.name for field in type if rows.type.get_field_index(field.name) < 0]:
            raise SerializationError(f"the rows to encode lack the fields {', '.join(missing)}")
        columns = [pc.struct_field(rows, field.name).cast(field.type) for field in type]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SerializationError(f"rows of {rows.type} do not fit {type}: {error}") from None
    return pa.StructArray.from_arrays(columns, fields=list(type), mask=rows.is_null())


def by_chunk(convert: Callable[[pa.Array], pa.Array], column: pa.Array, type: pa.DataType) -> pa.Array:
    """Returns the result of ``convert``, which takes an Array, for an Array, or for each chunk of a ChunkedArray."""
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
    """Returns dates and timestamps as ISO 8601 text, and decimals as digits, since JSON has no such types."""
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
            f"field {where}: type {kind} is not supported in JSON; use text for bytes, and a list of structs for a map"
        )
