"""Parses JSON as Spark's from_json does, keeping numbers and names as written, and converts values back to text."""

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
    """The text of a number without a fraction or exponent."""


class Real(str):
    """The text of a number with a fraction or exponent, or NaN, Infinity or -Infinity."""


class Pairs(list[tuple[str, Any]]):
    """The members of an object, pairs of name and value, in order; names may be repeated."""


def parse(text: str) -> Any:
    """Returns objects as Pairs, arrays as lists, numbers as Whole or Real, and all else as ``json`` does.

    Also accepts text in single quotes, NaN, Infinity, and INF with a sign, as Spark does. Raises ValueError for other
    text, and if anything except blanks follows the value.
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
    """Returns a value that is not text as the JSON that Spark puts into a text column: no blanks, floats as in Java."""
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
    """Returns a number as ``Double.toString`` writes it since Java 19 (``1.0E10``); in quotes unless it is finite."""
    if not math.isfinite(number):
        return {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}[repr(number)]
    sign, digits, exponent = _decimal_parts(number)
    if -3 <= exponent < 7:
        before = digits[: exponent + 1] if exponent >= 0 else "0"
        after = digits[exponent + 1 :] if exponent >= 0 else "0" * (-exponent - 1) + digits
        return f"{sign}{before.ljust(exponent + 1, '0')}.{after or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _decimal_parts(number: float) -> tuple[str, str, int]:
    """Returns sign, shortest digits, and the exponent of the first digit.

    Returns two digits in place of one if they are closer to the number, as in 4.9E-324.
    """
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
    """Returns the escape of a character; beyond U+FFFF, two UTF-16 surrogates, as Jackson writes."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    units = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _plain(text: str) -> str:
    """Returns ``text`` with double quotes in place of single ones, and with Infinity spelled as ``json`` expects it."""

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
