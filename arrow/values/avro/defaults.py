"""The values of fields that the writer's schema lacks: their defaults, by the rules of Apache's Java library."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from .schema import NO_DEFAULT, Node

_INT_BITS = {"int": 32, "long": 64}
# How Java chooses the branch of a union for a default: these kinds accept any JSON, the others only the types below.
_OF_ANY = ("record", "enum", "array", "map")
_TYPES = (
    {"null": (type(None),), "boolean": (bool,)}
    | dict.fromkeys(("int", "long", "float", "double"), (int, float))
    | dict.fromkeys(("string", "bytes", "fixed"), (str,))
)
_EMPTY: dict[str, Any] = {"map": {}, "record": {}}


class WrongDefaultError(ValueError):
    """A field's default is not a value of the field's type."""


def default_value(kind: Node, default: Any) -> Any:
    """Returns ``default``, which is JSON, as the value that fastavro would read: bytes, numbers, dicts, lists.

    In the JSON, bytes are text of the characters U+0000 to U+00FF. A fixed is truncated or filled with zeros to its
    size. The default of a union belongs to the first branch that it fits. Null also stands for an empty map, and for a
    record with the defaults of its fields. Raises WrongDefaultError.
    """
    if kind.kind == "union":
        return _of_union(kind, default)
    found = _scalar(kind, default)
    if found is not NO_DEFAULT:
        return decimal(found, kind.digits[1]) if kind.digits and isinstance(found, bytes) else found
    default = _EMPTY.get(kind.kind) if default is None else default
    if kind.kind == "array" and isinstance(default, list) and kind.inner:
        return [default_value(kind.inner, each) for each in default]
    if kind.kind == "map" and isinstance(default, dict) and kind.inner:
        return {key: default_value(kind.inner, each) for key, each in default.items()}
    if kind.kind == "record" and isinstance(default, dict):
        return {each.name: default_value(each.type, default.get(each.name, each.default)) for each in kind.fields}
    raise WrongDefaultError(
        f"its default {default!r:.100} is not of type {kind}" if default is not NO_DEFAULT else "it has no default"
    )


def decimal(unscaled: bytes, scale: int) -> Decimal:
    """Returns the decimal with these bytes: a big-endian integer, divided by 10 to the power of ``scale``."""
    number = int.from_bytes(unscaled, signed=True)
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


def single(number: float) -> float:
    """Returns a number as the nearest 32-bit float, rounded only once, even if it is an integer of more than 53 bits.

    Returns infinity for a number that is out of range.
    """
    with np.errstate(over="ignore"):
        return float(np.float32(np.int64(number) if isinstance(number, int) else number))


def _of_union(kind: Node, default: Any) -> Any:
    for branch in kind.branches:
        if branch.kind in _OF_ANY or type(default) in _TYPES[branch.kind]:
            return default_value(branch, default)
    raise WrongDefaultError(f"its default {default!r:.100} fits no branch of its union")


def _scalar(kind: Node, default: Any) -> Any:
    """Returns ``default`` as a value of ``kind``; NO_DEFAULT if ``kind`` is no scalar, or ``default`` does not fit."""
    name, is_number = kind.kind, isinstance(default, int | float) and not isinstance(default, bool)
    if name == "null" and default is None:
        return None
    if (name == "boolean" and isinstance(default, bool)) or (name == "string" and isinstance(default, str)):
        return default
    if name == "enum" and default in kind.symbols:
        return default
    if name in _INT_BITS and is_number and default == int(default) and -(1 << _INT_BITS[name] - 1) <= default:
        return int(default) if default < 1 << _INT_BITS[name] - 1 else NO_DEFAULT
    if name in ("float", "double") and is_number:
        return single(float(default)) if name == "float" else float(default)
    return _bytes(kind, default) if name in ("bytes", "fixed") and isinstance(default, str) else NO_DEFAULT


def _bytes(kind: Node, default: str) -> bytes:
    try:
        found = default.encode("iso-8859-1")
    except UnicodeEncodeError:
        raise WrongDefaultError(
            f"its default {default!r:.100} has characters beyond U+00FF, which are not bytes"
        ) from None
    return found if kind.kind == "bytes" else found[: kind.size].ljust(kind.size, b"\0")
