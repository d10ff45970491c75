"""JSON as Kafka's tools print it: Jackson's text form, and the generated converters' form of a message's values."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from typing import Any

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|.)")
_LARGEST_PLAIN, _SMALLEST_PLAIN = 1e7, 1e-3  # in this range, Java writes a double without an exponent


def json_text(value: Any) -> str:
    """Returns JSON text; bytes become base64, sequences arrays; escapes have upper-case digits."""
    match value:
        case None | bool() | int():
            return json.dumps(value)
        case float():
            return _double(value)
        case str():
            text = json.dumps(value, ensure_ascii=False)
            return _ESCAPE.sub(lambda escape: escape[0] if escape[1] is None else "\\u" + escape[1].upper(), text)
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case Mapping():
            return "{" + ",".join(f"{json_text(name)}:{json_text(each)}" for name, each in value.items()) + "}"
        case _:
            return "[" + ",".join(map(json_text, value)) + "]"


def _double(value: float) -> str:
    """Returns the text of Java's Double.toString (1000000.0, 1.0E7); like Jackson's, in quotes if not finite."""
    if not math.isfinite(value):
        return {"inf": '"Infinity"', "-inf": '"-Infinity"'}.get(str(value), '"NaN"')
    if value == 0 or _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        return repr(value)
    shortest = next(text for places in range(18) if float(text := f"{value:.{places}e}") == value)
    digits, exponent = shortest.split("e")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
