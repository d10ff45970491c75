"""Bodies of requests and answers, by the library kio, which no other module imports.

A request is read as an object of kio's class for its version. An answer is written from a mapping by kio's field names,
nested for structs; fields that the version does not have are ignored, and missing ones have Kafka's defaults. ``old``
has the versions that kio lacks.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i16

from .decoding import decode, decode_whole, shape_of
from .old.table import OLD
from .reading import ENTRIES_MAX, Entries, Frame

__all__ = ["Body", "ErrorCode", "by_topic", "made", "read_answer", "read_request", "write_answer", "write_request"]

Body = Mapping[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EMPTY: Mapping[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(),
    "datetime_i64": _EPOCH,
}
_MAKERS: Mapping[object, Callable[[Any], Any]] = {
    "error_code": lambda code: ErrorCode(i16(code)),
    "timedelta_i32": lambda ms: timedelta(milliseconds=ms),
    "datetime_i64": lambda ms: _EPOCH + timedelta(milliseconds=ms),
}


def read_request(key: int, version: int, frame: Frame, position: int, entries_max: int = ENTRIES_MAX) -> Any:
    """Returns the body of a request, which begins at ``position``.

    Raises MalformedRequestError, and TooManyEntriesError if its arrays have more than ``entries_max`` entries.
    """
    return decode(request_class(key, version), frame, position, Entries(entries_max))


def write_answer(key: int, version: int, body: Body) -> bytes:
    """Returns the bytes of an answer's body."""
    entity, write = _writer(key, version)
    with io.BytesIO() as buffer:
        write(buffer, made(entity, body))
        return buffer.getvalue()


def write_request(key: int, version: int, body: Body) -> bytes:
    """Returns the bytes of a request's body, for our own clients."""
    entity = request_class(key, version)
    with io.BytesIO() as buffer:
        entity_writer(entity)(buffer, made(entity, body))
        return buffer.getvalue()


def read_answer(key: int, version: int, frame: Frame, position: int) -> Any:
    """Returns the body of an answer, kio's object, from ``position`` to the frame's end. Raises MalformedRequestError.

    An error code that kio does not know is its number.
    """
    return decode_whole(answer_class(key, version), frame, position)


@cache
def _writer(key: int, version: int) -> tuple[Any, Callable[[io.BytesIO, Any], None]]:
    entity = answer_class(key, version)
    return entity, entity_writer(entity)


def request_class(key: int, version: int) -> Any:
    """Returns the class of a request's body: one of kio's, or of ``old``."""
    old = OLD.get((key, version))
    layout = version if old is None else old.request
    return load_request_schema(key, layout) if isinstance(layout, int) else layout


def answer_class(key: int, version: int) -> Any:
    """Returns the class of an answer's body: one of kio's, or of ``old``."""
    old = OLD.get((key, version))
    layout = version if old is None else old.answer
    return load_response_schema(key, layout) if isinstance(layout, int) else layout


@cache
def has_error(key: int, version: int) -> bool:
    """Whether an answer has a field for an error of the whole request."""
    return "error_code" in {each.name for each in dataclasses.fields(answer_class(key, version))}


def by_topic(answers: Iterable[tuple[tuple[str, int], Body]]) -> Sequence[Body]:
    """Groups the answers for partitions, each a topic with its number, by topic, as most of Kafka's answers do."""
    found: dict[str, list[Body]] = {}
    for (topic, number), answer in answers:
        found.setdefault(topic, []).append({"partition_index": number, **answer})
    return [{"name": topic, "partitions": partitions} for topic, partitions in found.items()]


def made(entity: Any, values: Body) -> Any:
    """Returns an object of kio's class ``entity``; ignores values for fields that the class lacks."""
    return entity(
        **{name: make(values[name]) if name in values else default for name, make, default in _fields(entity)}
    )


@cache
def _fields(entity: Any) -> list[tuple[str, Callable[[Any], Any], Any]]:
    """Returns, for each field of an entity, its name, a function that converts its value, and its default."""
    hints = get_type_hints(entity)
    return [
        (one.name, _maker(one, hints[one.name]), _default(one, hints[one.name])) for one in dataclasses.fields(entity)
    ]


def _maker(one: dataclasses.Field[Any], hint: Any) -> Callable[[Any], Any]:
    shape, kind = shape_of(hint), one.metadata.get("kafka_type")
    if shape.nested is not None and shape.is_array:
        return lambda items: None if items is None else tuple(made(shape.nested, item) for item in items)
    if shape.nested is not None:
        return lambda item: None if item is None else made(shape.nested, item)
    if shape.is_array:
        return lambda items: None if items is None else tuple(items)
    return _MAKERS.get(kind, lambda value: value)


def _default(one: dataclasses.Field[Any], hint: Any) -> Any:
    shape = shape_of(hint)
    if one.default is not dataclasses.MISSING:
        return one.default
    if shape.is_nullable:
        return None
    return () if shape.is_array else _EMPTY.get(one.metadata.get("kafka_type", ""), 0)
