"""Decodes a body by the fields of kio's class for it.

kio's own reader refuses tagged fields that it does not know; a broker passes over them, since a client may be newer.
It also allocates memory for as many items as an array states, before it reads their bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, get_args, get_type_hints

from .reading import Entries, Frame, MalformedRequestError, RequestReader

Read = Callable[[RequestReader], Any]

_PRIMITIVES: Mapping[str, Read] = {
    "bool": lambda reader: reader.int8() != 0,
    "int8": RequestReader.int8,
    "int16": RequestReader.int16,
    "int32": RequestReader.int32,
    "int64": RequestReader.int64,
    "float64": RequestReader.float64,
    "string": RequestReader.string,
    "bytes": lambda reader: None if (found := reader.records()) is None else bytes(found),
    "records": lambda reader: None if (found := reader.records()) is None else bytes(found),
    "uuid": lambda reader: found if (found := reader.uuid()).int else None,
    "timedelta_i32": lambda reader: timedelta(milliseconds=reader.int32()),
    "timedelta_i64": lambda reader: _duration(reader.int64()),
    "datetime_i64": lambda reader: None if (ms := reader.int64()) == _NO_TIME else _time(ms),
}
_NO_TIME = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULLABLE = (
    "string",
    "bytes",
    "records",
    "uuid",
    "datetime_i64",
)  # types whose bytes can say null; a field says whether it may be null


def decode(entity: Any, frame: Frame, position: int, entries: Entries | None = None) -> Any:
    """Returns an object of ``entity``, kio's class, from the bytes at ``position``. Raises MalformedRequestError."""
    reader = RequestReader(memoryview(frame), position, is_flexible=entity.__flexible__, entries=entries)
    return _decoder(entity)(reader)


def decode_whole(entity: Any, frame: Frame, position: int) -> Any:
    """Like :func:`decode`. Raises MalformedRequestError also if bytes follow."""
    reader = RequestReader(memoryview(frame), position, is_flexible=entity.__flexible__)
    found = _decoder(entity)(reader)
    if reader.position != len(frame):
        raise MalformedRequestError(f"{len(frame) - reader.position} bytes follow the body")
    return found


@cache
def _decoder(entity: Any) -> Read:
    hints = get_type_hints(entity)
    every = [(one, _field(one, hints[one.name])) for one in dataclasses.fields(entity)]
    fields = [(one.name, read) for one, read in every if "tag" not in one.metadata]
    tagged = {one.metadata["tag"]: (one.name, read) for one, read in every if "tag" in one.metadata}

    def read(reader: RequestReader) -> Any:
        values = {name: read_field(reader) for name, read_field in fields}
        for tag, field_reader in reader.tags():
            if tag in tagged:
                name, read_field = tagged[tag]
                values[name] = read_field(field_reader)
        return entity(**values)

    return read


def _field(one: dataclasses.Field[Any], hint: Any) -> Read:
    kind, shape = one.metadata.get("kafka_type"), shape_of(hint)
    if kind == "error_code":
        return _error_code(hint)
    item = _decoder(shape.nested) if shape.nested is not None else _PRIMITIVES[kind or ""]
    if shape.is_array:
        required = item if kind not in _NULLABLE else _required(item)
        return _array(required, is_nullable=shape.is_nullable)
    return item if shape.is_nullable or kind not in _NULLABLE else _required(item)


def _array(item: Read, *, is_nullable: bool) -> Read:
    def read(reader: RequestReader) -> Any:
        found = reader.array(lambda: item(reader))
        if found is None and not is_nullable:
            raise MalformedRequestError("an array is null")
        return None if found is None else tuple(found)

    return read


def _required(read: Read) -> Read:
    def read_it(reader: RequestReader) -> Any:
        found = read(reader)
        if found is None:
            raise MalformedRequestError("a value is null")
        return found

    return read_it


def _error_code(codes: type[int]) -> Read:
    """Reads a code; a code of a newer Kafka stays a number. ``codes``: kio's enumeration, or int."""

    def read(reader: RequestReader) -> int:
        number = reader.int16()
        try:
            return codes(number)
        except ValueError:
            return number

    return read


def _time(ms: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        raise MalformedRequestError(f"a time of {ms} ms") from None


def _duration(ms: int) -> timedelta:
    try:
        return timedelta(milliseconds=ms)
    except OverflowError:
        raise MalformedRequestError(f"a duration of {ms} ms is out of range") from None


@dataclasses.dataclass(frozen=True)
class Shape:
    """The parts of a field's type."""

    nested: Any  # the struct in it; None: it has none
    is_array: bool
    is_nullable: bool


def shape_of(hint: Any) -> Shape:
    """Returns the shape of a field's type: a primitive, a struct, or an array of them; each may be optional."""
    outer = get_args(hint)
    inner = (hint, *outer, *(each for one in outer for each in get_args(one)))
    return Shape(
        nested=next((each for each in inner if dataclasses.is_dataclass(each)), None),
        is_array=any(getattr(each, "__origin__", None) is tuple for each in (hint, *outer)),
        is_nullable=type(None) in outer,
    )
