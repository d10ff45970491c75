"""Decodes a body by the fields of kio's class for it.

kio's own reader refuses tagged fields that it does not know; a broker passes over them, since a client may be newer.
Requests that are read here have no tagged field that is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, get_args, get_type_hints

from .reading import MalformedRequestError, RequestReader

Read = Callable[[RequestReader], Any]

_PRIMITIVES: Mapping[str, Read] = {
    "bool": lambda reader: reader.int8() != 0,
    "int8": RequestReader.int8,
    "int16": RequestReader.int16,
    "int32": RequestReader.int32,
    "int64": RequestReader.int64,
    "string": RequestReader.string,
    "bytes": lambda reader: None if (found := reader.records()) is None else bytes(found),
    "uuid": lambda reader: found if (found := reader.uuid()).int else None,
    "timedelta_i32": lambda reader: timedelta(milliseconds=reader.int32()),
    "timedelta_i64": lambda reader: _duration(reader.int64()),
}
_NULLABLE = ("string", "bytes", "uuid")  # that may be null in bytes; a field says whether it may


def decode(entity: Any, frame: bytearray, position: int) -> Any:
    """Returns an object of ``entity``, kio's class, from the bytes at ``position``. Raises MalformedRequestError."""
    return _decoder(entity)(RequestReader(memoryview(frame), position, is_flexible=entity.__flexible__))


@cache
def _decoder(entity: Any) -> Read:
    hints = get_type_hints(entity)
    fields = [(one.name, _field(one, hints[one.name])) for one in dataclasses.fields(entity)]

    def read(reader: RequestReader) -> Any:
        values = {name: read_field(reader) for name, read_field in fields}
        reader.tags()
        return entity(**values)

    return read


def _field(one: dataclasses.Field[Any], hint: Any) -> Read:
    kind, shape = one.metadata.get("kafka_type"), shape_of(hint)
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


def _duration(ms: int) -> timedelta:
    try:
        return timedelta(milliseconds=ms)
    except OverflowError:
        raise MalformedRequestError(f"a duration of {ms} ms") from None


@dataclasses.dataclass(frozen=True)
class Shape:
    """A field's type, taken apart."""

    nested: Any  # the struct in it; None: it has none
    is_array: bool
    is_nullable: bool


def shape_of(hint: Any) -> Shape:
    """Returns the shape of a field's type: a primitive or a struct, or an array of them, perhaps None."""
    outer = get_args(hint)
    inner = (hint, *outer, *(each for one in outer for each in get_args(one)))
    return Shape(
        nested=next((each for each in inner if dataclasses.is_dataclass(each)), None),
        is_array=any(getattr(each, "__origin__", None) is tuple for each in (hint, *outer)),
        is_nullable=type(None) in outer,
    )
