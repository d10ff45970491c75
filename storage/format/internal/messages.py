"""Kafka's published message schemas, and records decoded by them into plain dictionaries.

``message_schemas/*.json`` holds the schemas of Kafka 4.3.1's coordinators, controllers, control records and remote
storage, and those of 3.9.1 that 4.3.1 no longer has; one message per line, without Kafka's comments. Control records
have no ``apiKey`` in Kafka: here it is the number of their type. Fields have the names of Kafka's JSON;
ids are in the text form that Kafka prints. A tagged field with its default value is omitted, as in Kafka's JSON.

Malformed bytes raise InvalidRecordError with the position in the given bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from ...errors import InvalidRecordError
from ...filesystem.port import Buffer
from .message_schema import (
    NO_DEFAULT,
    Array,
    Bool,
    Bytes,
    Field,
    FieldDecoder,
    FieldEncoder,
    Float64,
    Int,
    Kind,
    NullableStruct,
    String,
    Struct,
    Uuid,
)

FRAME_VERSION = 1  # in controllers' and remote storage's records: frame, type and version, each a varint
VERSION_MAX = 1 << 15

_PRIMITIVES: Mapping[str, Kind] = {
    "bool": Bool(),
    "int8": Int("b"),
    "int16": Int("h"),
    "uint16": Int("H"),
    "int32": Int("i"),
    "uint32": Int("I"),
    "int64": Int("q"),
    "float64": Float64(),
    "uuid": Uuid(),
}
_VERSIONS = re.compile(r"(\d+)(?:(\+)|-(\d+))?")


class Message(NamedTuple):
    """A decoded message."""

    name: str
    version: int
    fields: dict[str, Any]


class _Schema(NamedTuple):
    """A message schema from the file."""

    name: str
    versions: range
    flexible: range
    fields: list[dict[str, Any]]
    commons: dict[str, list[dict[str, Any]]]


class Messages:
    """The messages of one file, by type and ``apiKey``."""

    def __init__(self, name: str) -> None:
        """``name``: groups, transactions, share_state, metadata, remote_log or control."""
        self._name = name

    def key(self, data: Buffer) -> tuple[int, Message] | None:
        """Returns the kind of a coordinator's record and its decoded key; None for an unknown kind."""
        reader = FieldDecoder(data, flexible=False)
        kind = reader.fixed("h")
        if ("coordinator-key", kind) not in _schemas(self._name):
            return None
        return kind, self._decoded("coordinator-key", kind, 0, reader)

    def value(self, kind: int, data: Buffer) -> Message:
        """Returns the decoded value of a coordinator's record. Raises InvalidRecordError for an unknown version."""
        reader = FieldDecoder(data, flexible=False)
        return self._decoded("coordinator-value", kind, reader.fixed("h"), reader)

    def encoded_value(self, kind: int, fields: Mapping[str, Any]) -> bytes:
        """Returns the bytes of a coordinator's record, in the newest version of its schema."""
        schema = _schemas(self._name)["coordinator-value", kind]
        version = schema.versions[-1]
        writer = FieldEncoder(flexible=version in schema.flexible)
        writer.fixed("h", version)
        _struct(self._name, "coordinator-value", kind, version).write(writer, version, fields)
        return bytes(writer.data)

    def framed(self, data: Buffer) -> Message:
        """Returns the decoded value of a framed record.

        Raises InvalidRecordError for an unknown frame version or type.
        """
        reader = FieldDecoder(data, flexible=True)
        frame, kind, version = (reader.unsigned_varint() for _ in range(3))
        if frame != FRAME_VERSION or ("metadata", kind) not in _schemas(self._name):
            raise reader.bad(f"unknown record type {kind} in a frame of version {frame}")
        return self._decoded("metadata", kind, version, reader)

    def encoded_frame(self, kind: int, fields: Mapping[str, Any]) -> bytes:
        """Returns the bytes of a framed record, in the newest version of its schema."""
        schema = _schemas(self._name)["metadata", kind]
        version = schema.versions[-1]
        writer = FieldEncoder(flexible=version in schema.flexible)
        for number in (FRAME_VERSION, kind, version):
            writer.unsigned_varint(number)
        _struct(self._name, "metadata", kind, version).write(writer, version, fields)
        return bytes(writer.data)

    def control(self, kind: int, data: Buffer) -> Message:
        """Returns the decoded value of a control record of KRaft, whose first field is its version.

        Raises InvalidRecordError for an unknown version.
        """
        version = FieldDecoder(data, flexible=False).fixed("h")
        return self._decoded("control", kind, version, FieldDecoder(data, flexible=False))

    def _decoded(self, what: str, kind: int, version: int, reader: FieldDecoder) -> Message:
        schema = _schemas(self._name)[what, kind]
        if version not in schema.versions:
            reason = f"{schema.name} has version {version}, but the newest known is {schema.versions[-1]}"
            raise InvalidRecordError(reason, position=0)
        reader.flexible = version in schema.flexible
        return Message(schema.name, version, _struct(self._name, what, kind, version).read(reader, version))


# From Kafka's JSON to tables of fields


@cache
def _schemas(name: str) -> Mapping[tuple[str, int], _Schema]:
    text = files(__package__).joinpath("message_schemas", f"{name}.json").read_text(encoding="utf-8")
    return {(each["type"], each["apiKey"]): _schema(each) for each in json.loads(text)}


def _schema(message: Mapping[str, Any]) -> _Schema:
    return _Schema(
        message["name"],
        _range(message["validVersions"]),
        _range(message["flexibleVersions"]),
        message["fields"],
        {each["name"]: each["fields"] for each in message.get("commonStructs", ())},
    )


def _range(text: str | None) -> range:
    """Returns the versions in a text such as ``0``, ``2-4``, ``3+`` or ``none``."""
    found = _VERSIONS.fullmatch(text or "")
    if found is None:
        return range(0)
    first, is_open, last = found.groups()
    return range(int(first), VERSION_MAX if is_open else int(last or first) + 1)


@cache
def _struct(name: str, what: str, kind: int, version: int) -> Struct:
    """Returns the struct of a message's fields in one version."""
    schema = _schemas(name)[what, kind]
    return Struct(dict, tuple(_fields(schema, schema.fields, version)))


def _fields(schema: _Schema, fields: list[dict[str, Any]], version: int) -> list[Field]:
    return [_field(schema, field, version) for field in fields if version in _versions_with(field)]


def _versions_with(field: Mapping[str, Any]) -> range:
    """Returns the versions that have a field: by default those in which it is tagged, as in Kafka's generator."""
    return _range(field.get("versions") or field.get("taggedVersions") or "0+")


def _field(schema: _Schema, field: Mapping[str, Any], version: int) -> Field:
    is_tagged = version in _range(field.get("taggedVersions"))
    kind = _kind(schema, field, field["type"], version, is_tagged=is_tagged)
    name = field["name"][0].lower() + field["name"][1:]
    if not is_tagged:
        return Field(name, kind)
    return Field(name, kind, tag=int(field["tag"]), default=_default(field, kind))


def _kind(schema: _Schema, field: Mapping[str, Any], type_: str, version: int, *, is_tagged: bool = False) -> Kind:
    nullable = version in _range(field.get("nullableVersions"))
    if type_.startswith("[]"):
        return Array(_kind(schema, {"fields": field.get("fields")}, type_[2:], version), nullable)
    if type_ in _PRIMITIVES:
        return _PRIMITIVES[type_]
    if type_ in ("string", "bytes"):
        return String(nullable) if type_ == "string" else Bytes(nullable)
    inner = Struct(dict, tuple(_fields(schema, field.get("fields") or schema.commons[type_], version)))
    return NullableStruct(inner, is_tagged) if nullable else inner


_ZEROS: Mapping[type[Any], Any] = {Bool: False, Int: 0, Float64: 0.0, Uuid: "A" * 22, String: "", Bytes: b"", Array: ()}


def _default(field: Mapping[str, Any], kind: Kind) -> Any:
    """Returns the default value of a field, which the schema has as a JSON value or as text.

    Without one, returns the type's zero.
    """
    given = field.get("default")
    if given is None:
        return _ZEROS.get(type(kind), NO_DEFAULT)
    if given == "null":
        return None
    return json.loads(given) if isinstance(given, str) and isinstance(kind, Bool | Int | Float64) else given
