"""Creates the classes of bodies that kio lacks. As in kio's classes, the fields describe their encoding."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """The type of a field: Kafka's name, and Python's type."""

    name: str
    type: Any


class Nullable(NamedTuple):
    """An array that may be null."""

    array: list[Any]


INT8, INT16, INT32, INT64 = (Kind(name, int) for name in ("int8", "int16", "int32", "int64"))
BOOL = Kind("bool", bool)
STRING, NULLABLE_STRING = Kind("string", str), Kind("string", str | None)
BYTES = Kind("bytes", bytes | None)
ERROR = Kind("error_code", int)
MS = Kind("timedelta_i32", int)

Field = Kind | Nullable | list[Any]


def struct(name: str, /, **fields: Field) -> type[Any]:
    """Returns the class of a struct. A field's kind in a list, such as ``[INT32]``, means an array of it."""
    columns = [(field, *_column(kind)) for field, kind in fields.items()]
    return dataclasses.make_dataclass(
        name, columns, frozen=True, slots=True, kw_only=True, namespace={"__flexible__": False}
    )


def _column(kind: Field) -> tuple[Any, Any]:
    """Returns a field's Python type and kio's description of its encoding."""
    array = kind.array if isinstance(kind, Nullable) else kind
    inner = array if isinstance(array, Kind) else array[0]
    of: Any = inner.type if isinstance(inner, Kind) else inner
    if not isinstance(array, Kind):
        of = tuple[of, ...]
    metadata = {"kafka_type": inner.name} if isinstance(inner, Kind) else {}
    return (of | None if isinstance(kind, Nullable) else of), dataclasses.field(metadata=metadata)
