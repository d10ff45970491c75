"""Bodies of requests and answers, by kio. No other module imports it.

A request is kio's object of its version. An answer is a mapping by kio's names of fields, nested for structs; fields
that the version does not have are left out, and missing ones have Kafka's defaults.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, get_args, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16

from .reading import MalformedRequestError

__all__ = ["Body", "ErrorCode", "made", "read_request", "write_answer"]

Body = Mapping[str, Any]
_EMPTY: Mapping[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(),
}


def read_request(key: int, version: int, frame: bytearray, position: int) -> Any:
    """Returns the body of a request, which begins at ``position``. Raises MalformedRequestError."""
    try:
        body, _ = _reader(key, version)(bytes(frame), position)
    except Exception as error:  # kio has no root of its errors
        raise MalformedRequestError(f"a request of kind {key} and version {version}: {error!r}") from None
    return body


def write_answer(key: int, version: int, body: Body) -> bytes:
    """Returns the bytes of an answer's body."""
    entity, write = _writer(key, version)
    with io.BytesIO() as buffer:
        write(buffer, made(entity, body))
        return buffer.getvalue()


@cache
def _reader(key: int, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reader(load_request_schema(key, version))


@cache
def _writer(key: int, version: int) -> tuple[Any, Callable[[io.BytesIO, Any], None]]:
    entity = load_response_schema(key, version)
    return entity, entity_writer(entity)


def made(entity: Any, values: Body) -> Any:
    """Returns an object of kio's class ``entity`` with the values that the class has."""
    return entity(
        **{name: make(values[name]) if name in values else default for name, make, default in _fields(entity)}
    )


@cache
def _fields(entity: Any) -> list[tuple[str, Callable[[Any], Any], Any]]:
    """Returns, for each field of an entity, its name, what makes its value, and its default."""
    hints = get_type_hints(entity)
    return [
        (one.name, _maker(one, hints[one.name]), _default(one, hints[one.name])) for one in dataclasses.fields(entity)
    ]


def _maker(one: dataclasses.Field[Any], hint: Any) -> Callable[[Any], Any]:
    nested = _nested(hint)
    kind = one.metadata.get("kafka_type")
    if nested is not None and _is_array(hint):
        return lambda items: None if items is None else tuple(made(nested, item) for item in items)
    if nested is not None:
        return lambda item: None if item is None else made(nested, item)
    if _is_array(hint):
        return lambda items: None if items is None else tuple(items)
    if kind == "error_code":
        return lambda code: ErrorCode(i16(code))
    if kind == "timedelta_i32":
        return lambda ms: timedelta(milliseconds=ms)
    return lambda value: value


def _default(one: dataclasses.Field[Any], hint: Any) -> Any:
    if one.default is not dataclasses.MISSING:
        return one.default
    if type(None) in get_args(hint):
        return None
    if _is_array(hint):
        return ()
    return _EMPTY.get(one.metadata.get("kafka_type", ""), 0)


def _nested(hint: Any) -> Any:
    """Returns the struct in a field's type; None: it has none."""
    inner = (hint, *get_args(hint), *(each for outer in get_args(hint) for each in get_args(outer)))
    return next((each for each in inner if dataclasses.is_dataclass(each)), None)


def _is_array(hint: Any) -> bool:
    return any(getattr(each, "__origin__", None) is tuple for each in (hint, *get_args(hint)))
