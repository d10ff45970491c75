"""Kafka's message schemas: structs of versioned fields, used in the records of its internal topics.

A table of fields lists the versions that have each field; if a version lacks one, it reads as the default of the
dataclass. Older versions write lengths as fixed-size integers. Flexible versions write length + 1 as a varint, and end
every struct with tagged fields.

Malformed bytes raise InvalidRecordError with the position in the given bytes; a length field never reserves more memory
than there are bytes.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ...errors import InvalidRecordError
from ...filesystem.port import Buffer
from ..varints import unsigned_varint

_LAYOUTS = {code: struct.Struct(f">{code}") for code in "bBhHiIqQ"}


class FieldDecoder:
    """Decodes the fields of a message one after the other, from its bytes."""

    def __init__(self, data: Buffer, flexible: bool) -> None:
        self.data = memoryview(data)
        self.at = 0
        self.flexible = flexible

    def take(self, length: int) -> memoryview:
        if length > len(self.data) - self.at:
            raise self.bad(f"a length field states {length} bytes, but only {len(self.data) - self.at} remain")
        self.at += length
        return self.data[self.at - length : self.at]

    def fixed(self, code: str) -> int:
        layout = _LAYOUTS[code]
        (value,) = layout.unpack(self.take(layout.size))
        return int(value)

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.bad("a varint has more than 5 bytes")

    def length(self, code: str) -> int | None:
        """None means null."""
        length = self.unsigned_varint() - 1 if self.flexible else self.fixed(code)
        return None if length < 0 else length

    def bad(self, reason: str) -> InvalidRecordError:
        return InvalidRecordError(reason, position=self.at)


class FieldEncoder:
    """Encodes the fields of a message one after the other, for one version of its schema."""

    def __init__(self, *, flexible: bool = False) -> None:
        self.data = bytearray()
        self.flexible = flexible

    def fixed(self, code: str, value: int) -> None:
        self.data += _LAYOUTS[code].pack(value)

    def unsigned_varint(self, value: int) -> None:
        self.data += unsigned_varint(value)

    def length(self, code: str, length: int | None) -> None:
        """``None`` means null."""
        if self.flexible:
            self.unsigned_varint(0 if length is None else length + 1)
        else:
            self.fixed(code, -1 if length is None else length)


class Kind(Protocol):
    """A type of field: how its values are read and written."""

    def read(self, reader: FieldDecoder, version: int) -> Any: ...

    def write(self, writer: FieldEncoder, version: int, value: Any) -> None: ...


class Int(NamedTuple):
    """A big-endian integer; ``code`` is its format character in the struct module."""

    code: str

    def read(self, reader: FieldDecoder, version: int) -> int:
        return reader.fixed(self.code)

    def write(self, writer: FieldEncoder, version: int, value: int) -> None:
        writer.fixed(self.code, value)


class Bool(NamedTuple):
    """One byte, 0 for false."""

    def read(self, reader: FieldDecoder, version: int) -> bool:
        return reader.fixed("b") != 0

    def write(self, writer: FieldEncoder, version: int, value: bool) -> None:
        writer.fixed("b", value)


class Float64(NamedTuple):
    """A double."""

    def read(self, reader: FieldDecoder, version: int) -> float:
        (value,) = struct.unpack(">d", reader.take(8))
        return float(value)

    def write(self, writer: FieldEncoder, version: int, value: float) -> None:
        writer.data += struct.pack(">d", value)


class Uuid(NamedTuple):
    """16 bytes, in Kafka's text form: URL-safe base64 without padding."""

    def read(self, reader: FieldDecoder, version: int) -> str:
        return base64.urlsafe_b64encode(reader.take(16)).rstrip(b"=").decode()

    def write(self, writer: FieldEncoder, version: int, value: str) -> None:
        writer.data += base64.urlsafe_b64decode(f"{value}==")


class Bytes(NamedTuple):
    """Bytes."""

    nullable: bool = False

    def read(self, reader: FieldDecoder, version: int) -> bytes | None:
        length = reader.length("i")
        if length is None and not self.nullable:
            raise reader.bad("a field that must not be null has null bytes")
        return None if length is None else bytes(reader.take(length))

    def write(self, writer: FieldEncoder, version: int, value: bytes | None) -> None:
        writer.length("i", None if value is None else len(value))
        writer.data += value or b""


class String(NamedTuple):
    """UTF-8 text."""

    nullable: bool = False

    def read(self, reader: FieldDecoder, version: int) -> str | None:
        length = reader.length("h")
        if length is None:
            if self.nullable:
                return None
            raise reader.bad("a field that must not be null has a null string")
        try:
            return bytes(reader.take(length)).decode()
        except UnicodeDecodeError as error:
            raise reader.bad(f"the text is not UTF-8: {error.reason}") from None

    def write(self, writer: FieldEncoder, version: int, value: str | None) -> None:
        data = None if value is None else value.encode()
        writer.length("h", None if data is None else len(data))
        writer.data += data or b""


class Array(NamedTuple):
    """Elements of one kind, as a tuple."""

    of: Kind
    nullable: bool = False

    def read(self, reader: FieldDecoder, version: int) -> tuple[Any, ...] | None:
        count = reader.length("i")
        if count is None:
            if self.nullable:
                return None
            raise reader.bad("a field that must not be null has a null array")
        if count > len(reader.data) - reader.at:  # an element takes at least one byte
            raise reader.bad(
                f"a length field states {count} elements, but only {len(reader.data) - reader.at} bytes remain"
            )
        return tuple(self.of.read(reader, version) for _ in range(count))

    def write(self, writer: FieldEncoder, version: int, value: tuple[Any, ...] | None) -> None:
        writer.length("i", None if value is None else len(value))
        for element in value or ():
            self.of.write(writer, version, element)


NO_DEFAULT = object()


class Field(NamedTuple):
    """A field of a struct, and the versions that have it."""

    name: str
    kind: Kind
    versions: range = range(100)
    tag: int | None = None  # None: untagged, in order; tagged fields follow the others, in flexible versions only
    default: Any = NO_DEFAULT  # of a tagged field: omitted if it has this value


class Struct(NamedTuple):
    """Fields in order; ``make`` is the dataclass they become, whose defaults replace missing fields."""

    make: type[Any]
    fields: tuple[Field, ...]

    def read(self, reader: FieldDecoder, version: int) -> Any:
        in_place = [f for f in self.fields if f.tag is None and version in f.versions]
        values = {f.name: f.kind.read(reader, version) for f in in_place}
        if reader.flexible:
            values.update(self._read_tagged(reader, version))
            values = {f.name: values[f.name] for f in self.fields if f.name in values}  # in the order of Kafka's JSON
        return self.make(**values)

    def write(self, writer: FieldEncoder, version: int, value: Any) -> None:
        for f in self.fields:
            if f.tag is None and version in f.versions:
                f.kind.write(writer, version, _value_of(value, f))
        if writer.flexible:
            self._write_tagged(writer, version, value)

    def _write_tagged(self, writer: FieldEncoder, version: int, value: Any) -> None:
        """Write the number of tagged fields, and the fields in order of their tags.

        Omits fields with default values.
        """
        tagged = [f for f in self.fields if f.tag is not None and _value_of(value, f) != f.default]
        writer.unsigned_varint(len(tagged))
        for f in sorted(tagged, key=lambda field: field.tag or 0):
            inner = FieldEncoder(flexible=True)
            f.kind.write(inner, version, _value_of(value, f))
            writer.unsigned_varint(f.tag or 0)
            writer.unsigned_varint(len(inner.data))
            writer.data += inner.data

    def _read_tagged(self, reader: FieldDecoder, version: int) -> Mapping[str, Any]:
        """Returns the tagged fields by name; ignores unknown tags, which a later release may have added."""
        known = {f.tag: f for f in self.fields if f.tag is not None}
        values = {}
        for _ in range(reader.unsigned_varint()):
            tag, size = reader.unsigned_varint(), reader.unsigned_varint()
            inner = FieldDecoder(reader.take(size), flexible=True)
            if tag in known:
                values[known[tag].name] = known[tag].kind.read(inner, version)
        return {f.name: values[f.name] for f in known.values() if values.get(f.name, f.default) != f.default}


def _value_of(value: Any, field: Field) -> Any:
    """Returns a field of a dataclass, or of a mapping, which may lack tagged fields that have their defaults."""
    if not isinstance(value, Mapping):
        return getattr(value, field.name)
    return value[field.name] if field.tag is None else value.get(field.name, field.default)


class NullableStruct(NamedTuple):
    """A struct after a byte, or a varint if the field is tagged, that states whether the struct is present."""

    of: Struct
    is_tagged: bool

    def read(self, reader: FieldDecoder, version: int) -> Any:
        is_there = reader.unsigned_varint() > 0 if self.is_tagged else reader.fixed("b") >= 0
        return self.of.read(reader, version) if is_there else None

    def write(self, writer: FieldEncoder, version: int, value: Any) -> None:
        if self.is_tagged:
            writer.unsigned_varint(0 if value is None else 1)
        else:
            writer.fixed("b", -1 if value is None else 1)
        if value is not None:
            self.of.write(writer, version, value)


class Schema(NamedTuple):
    """A message: its version, followed by a struct."""

    struct: Struct
    versions: range
    flexible_from: int = 100

    def decode(self, data: Buffer) -> Any:
        """Returns the decoded message.

        Raises InvalidRecordError for an unknown version; ignores bytes after the last field.
        """
        reader = FieldDecoder(data, flexible=False)
        version = reader.fixed("h")
        if version not in self.versions:
            name = self.struct.make.__name__
            raise InvalidRecordError(
                f"{name} has version {version}, but the newest known is {self.versions[-1]}", position=0
            )
        reader.flexible = version >= self.flexible_from
        return self.struct.read(reader, version)

    def encode(self, version: int, value: Any) -> bytes:
        """Returns the bytes of the message in ``version``, without fields that this version lacks."""
        writer = FieldEncoder(flexible=version >= self.flexible_from)
        writer.fixed("h", version)
        self.struct.write(writer, version, value)
        return bytes(writer.data)


INT16, INT32, INT64 = Int("h"), Int("i"), Int("q")
