"""The defaults of fields that the writer's schema lacks, by the rules of Apache's Java library."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from .schema import NO_DEFAULT, Node

_INT_BITS = {"int": 32, "long": 64}
# How Java chooses a branch by the JSON: these kinds accept any, the others only the types named here.
_OF_ANY = ("record", "enum", "array", "map")
_TYPES = (
    {"null": (type(None),), "boolean": (bool,)}
    | dict.fromkeys(("int", "long", "float", "double"), (int, float))
    | dict.fromkeys(("string", "bytes", "fixed"), (str,))
)
_EMPTY: dict[str, Any] = {"map": {}, "record": {}}


class WrongDefaultError(ValueError):
    """A default is not a value of its type."""


def default_value(kind: Node, default: Any) -> Any:
    """Converts ``default``, which is JSON, to a value as fastavro reads one: bytes, numbers, dicts, lists.

    Bytes are written as the characters U+0000 to U+00FF. A fixed is truncated or zero-filled to its size. The default
    of a union belongs to the first branch that it fits. Null is also an empty map, and a record of defaults. Raises
    WrongDefaultError.
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
        f"its default {default!r:.100} is not of type {kind}" if default is not NO_DEFAULT else "no default"
    )


def decimal(unscaled: bytes, scale: int) -> Decimal:
    """Returns the number of a decimal's bytes: a big-endian integer, divided by 10 to the power of ``scale``."""
    number = int.from_bytes(unscaled, signed=True)
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


def single(number: float) -> float:
    """Rounds a number once to a 32-bit float, also an integer of more than 53 bits; infinite if out of range."""
    with np.errstate(over="ignore"):
        return float(np.float32(np.int64(number) if isinstance(number, int) else number))


def _of_union(kind: Node, default: Any) -> Any:
    for branch in kind.branches:
        if branch.kind in _OF_ANY or type(default) in _TYPES[branch.kind]:
            return default_value(branch, default)
    raise WrongDefaultError(f"its default {default!r:.100} fits no branch of its union")


def _scalar(kind: Node, default: Any) -> Any:
    """Returns the value of a scalar; NO_DEFAULT if ``kind`` is not one, or ``default`` not one of its values."""
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
