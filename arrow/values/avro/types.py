"""The Arrow types of Avro schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ....storage import InvalidConfigError

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "timestamp-nanos": pa.timestamp("ns", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}
_DECIMAL_DIGITS = 38


def arrow_type(schema: Any) -> pa.StructType:
    """Returns the Arrow struct for values of a schema that fastavro has parsed.

    Raises InvalidConfigError if the schema is not a record, or for a field that has no Arrow type, which it names.
    """
    if not isinstance(schema, Mapping) or schema["type"] != "record":
        raise InvalidConfigError("the Avro schema of a column of values must be a record")
    return _Types().of(schema, schema["name"])


class _Types:
    """Converts the types of one schema; remembers named types, as None while a type is being defined."""

    def __init__(self) -> None:
        self._named: dict[str, pa.DataType | None] = {}

    def of(self, schema: Any, where: str) -> pa.DataType:
        if isinstance(schema, list):
            return self.of(_not_null(schema, where), where)
        if isinstance(schema, str):
            return self._by_name(schema, where)
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            self._named[schema["name"]] = None
            self._named[schema["name"]] = found = self._define(schema, kind, where)
            return found
        if kind == "array":
            return pa.list_(self._field("element", schema["items"], f"{where}[]"))
        if kind == "map":
            return pa.map_(pa.string(), self._field("value", schema["values"], f"{where}{{}}"))
        return _logical(schema, where) or self.of(kind, where)

    def _define(self, schema: Mapping[str, Any], kind: str, where: str) -> pa.DataType:
        if kind == "enum":
            return pa.string()
        if kind == "fixed":
            return _logical(schema, where) or pa.binary(schema["size"])
        fields = schema["fields"]
        if not fields:
            raise InvalidConfigError(f"field {where}: a record without fields cannot be a column")
        return pa.struct([self._field(each["name"], each["type"], f"{where}.{each['name']}") for each in fields])

    def _by_name(self, name: str, where: str) -> pa.DataType:
        found = _PRIMITIVES.get(name) or self._named.get(name)
        if found is None:
            what = "contains itself" if name in self._named else f"is {name}"
            raise InvalidConfigError(f"field {where}: a type that {what} has no Arrow type; read the values as bytes")
        return found

    def _field(self, name: str, schema: Any, where: str) -> pa.Field:
        return pa.field(name, self.of(schema, where), nullable=isinstance(schema, list) and "null" in schema)


def _not_null(union: list[Any], where: str) -> Any:
    others = [each for each in union if each != "null"]
    if len(others) != 1:
        raise InvalidConfigError(f"field {where}: a union must be of null and one other type, not of {union}")
    return others[0]


def _logical(schema: Mapping[str, Any], where: str) -> pa.DataType | None:
    name = schema.get("logicalType")
    if name != "decimal":
        return _LOGICAL.get(name) if name else None
    if schema["precision"] > _DECIMAL_DIGITS:
        raise InvalidConfigError(
            f"field {where}: a decimal of {schema['precision']} digits is too long: Arrow has {_DECIMAL_DIGITS} at most"
        )
    return pa.decimal128(schema["precision"], schema.get("scale", 0))
