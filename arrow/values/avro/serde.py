"""Avro values: a header that identifies the schema of the value, followed by Avro's binary encoding.

Uses fastavro, which the extra ``avro`` installs.
"""

from __future__ import annotations

import io
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from ....storage import InvalidConfigError, needs_extra
from ..schema_stores import SchemaFolder, SchemaRegistry, SchemaStore, schema_in
from ..serde import Mode, SerializationError, by_chunk, cast_rows, check_mode, decode_rows, encode_rows
from .resolution import resolved
from .schema import graph
from .types import arrow_type

with needs_extra("Avro"):
    import fastavro
    from fastavro.read import SchemaResolutionError
    from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form

AvroSchema = Mapping[str, Any] | str  # parsed JSON, or its text
Parsed = Any  # a schema parsed by fastavro

# The errors of fastavro for bytes that are not a value of the schema; EOFError if they end too soon.
BAD_BYTES = (EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, SchemaResolutionError)
_NOT_ARROW = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)


class Framing(Hashable, Protocol):
    """The header of values that identifies a schema: the bytes ``magic``, then an id of ``id_size`` bytes."""

    @property
    def magic(self) -> bytes: ...

    @property
    def id_size(self) -> int: ...

    @property
    def where(self) -> str:
        """A part of error messages: where schemas are searched, and what to do if one is missing."""

    def name(self, schema_id: bytes) -> str:
        """Returns an id in readable form, for messages."""

    def schema(self, schema_id: bytes, own: str) -> str | None:
        """Returns the schema with this id as JSON text, or None if it is unknown; ``own`` is the serde's schema."""

    def id_of(self, schema: str) -> bytes:
        """Returns the id of ``schema``, for the header of a value. Raises InvalidConfigError if it has no id."""


@dataclass(frozen=True)
class SingleObject:
    """The header of Avro's single-object encoding: C3 01 and the schema's CRC-64-AVRO fingerprint, little-endian.

    Knows the serde's own schema, and the schemas in files ``*.avsc`` in ``folder``.
    """

    folder: str | None = None
    magic = b"\xc3\x01"
    id_size = 8

    def recorded(self) -> dict[str, Any]:
        return {"framing": "single-object", "folder": self.folder and str(Path(self.folder).absolute())}

    @property
    def where(self) -> str:
        return f"folder {self.folder}: save it there" if self.folder else "this reader: give a folder of *.avsc files"

    def name(self, schema_id: bytes) -> str:
        return f"fingerprint {schema_id.hex()}"

    def schema(self, schema_id: bytes, own: str) -> str | None:
        files = sorted(Path(self.folder).glob("*.avsc")) if self.folder else []
        texts = [own, *map(schema_in, files)]
        return next((text for text in texts if self.id_of(text) == schema_id), None)

    def id_of(self, schema: str) -> bytes:
        return bytes.fromhex(fingerprint(to_parsing_canonical_form(parse_schema(schema)), "CRC-64-AVRO"))


@dataclass(frozen=True)
class Confluent:
    """Confluent's header: 00 and the id that the schema has in ``store``, 4 bytes, big-endian.

    Writing needs ``subject``, which is ``<topic>-value`` by convention for the values of a topic.
    """

    store: SchemaStore
    subject: str | None = None
    magic = b"\x00"
    id_size = 4

    def recorded(self) -> dict[str, Any] | None:
        """Returns the arguments for an equal header, or None if its store must not be recorded."""
        nowhere: dict[str, Any] = {"framing": "confluent", "subject": self.subject}
        nowhere |= {"folder": None, "registry": None, "headers": None}
        match self.store:
            case SchemaFolder():
                return nowhere | {"folder": str(Path(self.store.path).absolute())}
            case SchemaRegistry(headers=()):
                return nowhere | {"registry": self.store.url, "headers": self.store.headers_file}
        return None

    @property
    def where(self) -> str:
        return str(self.store)

    def name(self, schema_id: bytes) -> str:
        return f"id {int.from_bytes(schema_id)}"

    def schema(self, schema_id: bytes, own: str) -> str | None:
        return self.store.schema(int.from_bytes(schema_id))

    def id_of(self, schema: str) -> bytes:
        if self.subject is None:
            raise InvalidConfigError("writing Avro with Confluent's header needs a subject, such as 'flights-value'")
        return self.store.id_of(self.subject, schema).to_bytes(self.id_size)


class AvroSerde:
    """Serde for values of ``schema``, a record. Values written with another schema are resolved by Avro's rules.

    Raises InvalidConfigError, which names the field, for a union of anything other than null and one type, for a type
    that contains itself, and for a decimal of more than 38 digits. Enums become strings. A registry that does not
    answer is an error in any mode.
    """

    def __init__(self, schema: AvroSchema, framing: Framing, mode: Mode = "failfast") -> None:
        check_mode(mode)
        self._text = schema if isinstance(schema, str) else json.dumps(schema)
        self._framing = framing
        self.mode = mode
        self.type = arrow_type(parse_schema(self._text))
        self._schema = _without_logical(parse_schema(self._text))
        self._physical = arrow_type(self._schema)

    def recorded(self) -> dict[str, Any] | None:
        """Returns the arguments for an equal serde, as JSON; None if there are credentials or a user's own framing."""
        framing = self._framing.recorded() if isinstance(self._framing, SingleObject | Confluent) else None
        return framing and {"format": "avro", "schema": self._text, "mode": self.mode, **framing}

    def decode(self, values: pa.Array) -> pa.Array:
        return by_chunk(self._decode, values, self.type)

    def encode(self, rows: pa.Array) -> pa.Array:
        header = self._framing.magic + self._framing.id_of(self._text)
        return by_chunk(lambda chunk: self._encode(chunk, header), rows, pa.binary())

    def _decode(self, values: pa.Array) -> pa.Array:
        column = _Column(self._framing, self._text, self.type)
        try:
            return pa.array(decode_rows(values, column.decode, self.mode), self.type)
        except _NOT_ARROW:  # some number is out of range for its type: find the row
            return pa.array(decode_rows(values, column.decode_checked, self.mode), self.type)

    def _encode(self, rows: pa.Array, header: bytes) -> pa.Array:
        schema = fastavro.parse_schema(self._schema)  # here, because it cannot be pickled

        def encode(row: dict[str, Any]) -> bytes:
            out = io.BytesIO()
            out.write(header)
            fastavro.schemaless_writer(out, schema, _maps_as_dicts(row, self._physical))
            return out.getvalue()

        return encode_rows(cast_rows(cast_rows(rows, self.type), self._physical), encode)


class _Column:
    """Decodes the values of one column; searches only once for a schema that is not found."""

    def __init__(self, framing: Framing, text: str, kind: pa.StructType) -> None:
        self._framing = framing
        self._text = text
        self._kind = kind
        self._unknown: set[bytes] = set()

    def decode(self, value: bytes) -> Any:
        """Returns the record in ``value``. Raises SerializationError for a wrong header, schema or encoding."""
        magic, start = self._framing.magic, len(self._framing.magic) + self._framing.id_size
        if not value.startswith(magic) or len(value) < start:
            raise SerializationError(f"it has no header of {start} bytes that begins with {magic.hex(' ')}")
        writer, body = self._writer(value[len(magic) : start]), io.BytesIO(value[start:])
        try:
            record = fastavro.schemaless_reader(body, writer, None)
        except EOFError:
            raise SerializationError("it ends within the record") from None
        except BAD_BYTES as error:
            raise SerializationError(f"it is not a record of its schema: {type(error).__name__} {error}") from error
        if body.tell() != len(value) - start:
            raise SerializationError(f"{len(value) - start - body.tell()} bytes follow the record")
        return record

    def decode_checked(self, value: bytes) -> Any:
        """Does the same as :meth:`decode`, but raises SerializationError too if a value does not fit its Arrow type."""
        record = self.decode(value)
        try:
            pa.array([record], self._kind)
        except _NOT_ARROW as error:
            raise SerializationError(str(error)) from None
        return record

    def _writer(self, schema_id: bytes) -> Parsed:
        if schema_id in self._unknown:
            raise SerializationError(_unknown(self._framing, schema_id))
        try:
            return _writer(self._framing, self._text, schema_id)
        except SerializationError:
            self._unknown.add(schema_id)
            raise


@lru_cache(maxsize=1000)
def _writer(framing: Framing, own: str, schema_id: bytes) -> Parsed:
    """Returns the schema with which fastavro reads values with this id as values of ``own``; cached per process.

    Raises SerializationError for an unknown id.
    """
    found = framing.schema(schema_id, own)
    if found is None:
        raise SerializationError(_unknown(framing, schema_id))
    return fastavro.parse_schema(resolved(graph(parse_schema(found)), graph(parse_schema(own))))


def _unknown(framing: Framing, schema_id: bytes) -> str:
    return f"its schema, {framing.name(schema_id)}, is unknown to {framing.where}"


def parse_schema(text: str) -> Parsed:
    """Returns a parsed schema. Checks no defaults: as in Spark, a wrong default is an error only when it is used."""
    try:
        return fastavro.parse_schema(json.loads(text), _write_hint=False, _ignore_default_error=True)
    except (
        SchemaParseException,
        UnknownType,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        why = f"{type(error).__name__} {error}"
        raise InvalidConfigError(f"the Avro schema {text:.200} is invalid: {why}") from None


def _without_logical(schema: Any) -> Any:
    """Returns ``schema`` with the plain numbers that store dates and times in place of these; Arrow stores the same."""
    if isinstance(schema, list):
        return [_without_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    drop = schema.get("logicalType") not in (None, "decimal")
    return {name: _without_logical(value) for name, value in schema.items() if not (drop and name == "logicalType")}


def _maps_as_dicts(value: Any, kind: pa.DataType) -> Any:
    """Returns a row with maps as dicts, as fastavro expects them; Arrow has maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _maps_as_dicts(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_maps_as_dicts(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        return {key: _maps_as_dicts(each, kind.item_type) for key, each in value}
    return value
