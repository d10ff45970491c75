"""JSON as Spark's from_json reads it, with names and numbers as they are written, and values converted back to text."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*")|'((?:[^'\\]|\\.)*)'|([^"']+)|(.)""", re.DOTALL)
_INFINITE = re.compile(r"(?<![\w.+-])(?:([+-])INF|\+Infinity)(?![\w.])")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')


class Whole(str):
    """The text of a number without fraction and exponent."""


class Real(str):
    """The text of any other number, including NaN, Infinity and -Infinity."""


class Pairs(list[tuple[str, Any]]):
    """The members of an object in order, including repeated names."""


def parse(text: str) -> Any:
    """Parses objects as Pairs, arrays as lists, numbers as Whole and Real, all else as ``json`` does.

    Accepts what Spark accepts besides JSON: text in single quotes, NaN, Infinity, and INF with a sign. Raises
    ValueError, also if anything but blanks follows.
    """
    try:
        return _DECODER.decode(text)
    except ValueError:
        plain = _plain(text)
        if plain == text:
            raise
        return _DECODER.decode(plain)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def as_text(value: Any) -> str:
    """Converts a value that is not text to what Spark puts into a text column: without blanks, floats as in Java."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Whole):
        return "0" if value == "-0" else str(value)
    if isinstance(value, Real):
        return java_double(float(value))
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{_quoted(name)}:{as_text(each)}" for name, each in value) + "}"
    return "[" + ",".join(map(as_text, value)) + "]" if isinstance(value, list) else _quoted(value)


def java_double(number: float) -> str:
    """Formats as ``Double.toString`` (since Java 19): ``1.0E10``; quoted unless finite, as Jackson does."""
    if not math.isfinite(number):
        return {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}[repr(number)]
    sign, digits, exponent = _decimal_parts(number)
    if -3 <= exponent < 7:
        before = digits[: exponent + 1] if exponent >= 0 else "0"
        after = digits[exponent + 1 :] if exponent >= 0 else "0" * (-exponent - 1) + digits
        return f"{sign}{before.ljust(exponent + 1, '0')}.{after or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _decimal_parts(number: float) -> tuple[str, str, int]:
    """Returns sign, shortest digits, and the first digit's exponent; two digits if that is more exact (4.9E-324)."""
    text = repr(number)
    if len(_digits(text)) == 1 and float(f"{number:.1e}") == number:
        text = f"{number:.1e}"
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    leading = len(whole) - 1 if whole.strip("0") else -1 - (len(fraction) - len(fraction.lstrip("0")))
    digits = _digits(text)
    return "-" * text.startswith("-"), digits or "0", leading + int(exponent or 0) if digits else 0


def _digits(text: str) -> str:
    return text.lstrip("-").partition("e")[0].replace(".", "").strip("0")


def _quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda found: _escape(found[0]), text) + '"'


def _escape(character: str) -> str:
    """Escapes a character; one beyond U+FFFF as two UTF-16 surrogates, as Jackson does."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    units = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _plain(text: str) -> str:
    """Replaces single quotes by double ones, and all spellings of Infinity by that of ``json``."""

    def replace(found: re.Match[str]) -> str:
        double, single, between, _ = found.groups()
        if single is not None:
            inside = single.replace("\\'", "'")
            return '"' + re.sub(r'\\.|"', lambda one: one[0] if one[0] != '"' else '\\"', inside, flags=re.DOTALL) + '"'
        if between is not None:
            return _INFINITE.sub(lambda one: "-Infinity" if one[1] == "-" else "Infinity", between)
        return re.sub(r"\\(.)", lambda one: "'" if one[1] == "'" else one[0], double or found[0], flags=re.DOTALL)

    return _QUOTED.sub(replace, text)


_DECODER = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=Whole, parse_float=Real, parse_constant=Real)
