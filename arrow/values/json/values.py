"""Decodes single JSON values by the rules of Spark's from_json (JacksonParser).

This parser is slower than the one of :mod:`pyspark_commitlog.arrow.values.json.columns`, but it accepts all that
Spark accepts, and its errors say why a value is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from .. import spark_times
from .text import Pairs, Real, Whole, as_text, parse

Convert = Callable[[Any], Any]

_LONG_MAX = 2**63
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")  # what Java's BigDecimal accepts
_NOT_UTF8 = re.compile(r"[\udc80-\udcff]|\\uDC[89A-F]")  # how surrogateescape decodes such bytes, escaped or not
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_FINITE = {"NaN": "nan"} | dict.fromkeys(("+INF", "+Infinity", "Infinity"), "inf")
_NOT_FINITE |= dict.fromkeys(("-INF", "-Infinity"), "-inf")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class ValueParser:
    """Parses values as rows of ``kind``; ``zone`` is the time zone of times that name none."""

    def __init__(self, kind: pa.StructType, zone: tzinfo) -> None:
        self._zone = zone
        self._is_utf8 = True
        self._convert = self._struct(kind)

    def read(self, value: bytes) -> dict[str, Any]:
        """Returns the fields of ``kind`` that the object in ``value`` has. Raises ValueError with the reason."""
        try:
            text, self._is_utf8 = value.decode(), True
        except UnicodeDecodeError:  # maybe only in a field that is not read
            text, self._is_utf8 = value.decode(errors="surrogateescape"), False
        found = parse(text)
        if not isinstance(found, Pairs):
            raise ValueError(f"it is {_named(found)}, not an object")
        row: dict[str, Any] = self._convert(found)
        return row

    def _of(self, kind: pa.DataType) -> Convert:
        if pa.types.is_struct(kind):
            return self._struct(kind)
        if pa.types.is_list(kind):
            return self._list(kind)
        if pa.types.is_timestamp(kind):
            return time_converter(kind, self._zone)
        if pa.types.is_string(kind):
            return self._string
        return next(make(kind) for is_one, make in _SCALARS if is_one(kind))

    def _string(self, value: Any) -> str:
        text = value if type(value) is str else as_text(value)
        if not self._is_utf8 and _NOT_UTF8.search(text):
            raise ValueError("its text is not UTF-8")
        return _SURROGATE.sub("?", text)  # lone surrogates, as Java writes them

    def _struct(self, kind: pa.StructType) -> Convert:
        fields = {field.name: self._of(field.type) for field in kind}

        def convert(value: Any) -> dict[str, Any]:
            _check(value, "an object", Pairs)
            row = {}
            for name, each in value:
                if name in fields:
                    row[name] = None if each is None else _at(name, fields[name], each)
            return row

        return convert

    def _list(self, kind: pa.ListType) -> Convert:
        item = self._of(kind.value_type)

        def convert(value: Any) -> list[Any]:
            _check(value, "an array", list)
            return [None if each is None else item(each) for each in value]

        return convert


def _at(name: str, convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except ValueError as error:
        raise ValueError(f"field {name}: {error}") from None


def _check(value: Any, what: str, *kinds: type) -> None:
    if type(value) not in kinds:  # not isinstance, because numbers are subclasses of str
        raise ValueError(f"{_named(value)} instead of {what}")


def _named(value: Any) -> str:
    """Returns ``value`` as it is shown in messages."""
    return f"text {value!r:.100}" if type(value) is str else f"{as_text(value):.100}"


def _boolean(_: pa.DataType) -> Convert:
    def convert(value: Any) -> bool:
        _check(value, "true or false", bool)
        return bool(value)

    return convert


def _integer(kind: pa.DataType) -> Convert:
    is_signed = pa.types.is_signed_integer(kind)
    least = -(1 << kind.bit_width - 1) if is_signed else 0
    above = 1 << (kind.bit_width - is_signed)

    def convert(value: Any) -> int:
        _check(value, "a whole number", Whole)
        if len(value) > 21 or not least <= (number := int(value)) < above:
            raise ValueError(f"{value:.100} is out of range for {kind}")
        return number

    return convert


def _floating(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> float:
        if type(value) is str and value in _NOT_FINITE:
            return float(_NOT_FINITE[value])
        _check(value, "a number", Whole, Real)
        return float(value) if kind.bit_width == 64 else _rounded(value, kind)

    return convert


def _rounded(text: str, kind: pa.DataType) -> float:
    """Returns the number in ``text`` as a float of 16 or 32 bits, rounded only once."""
    with np.errstate(over="ignore"):
        near = np.dtype(kind.to_pandas_dtype()).type(text)
        candidates = [float(each) for each in (near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf))]
    if not np.isfinite(near) or candidates[0] == float(text):
        return candidates[0]
    # Of two equally near candidates, the first is right: NumPy rounded it to even.
    finite = [each for each in candidates if np.isfinite(each)]
    return min(finite, key=lambda each: abs(Decimal(each) - Decimal(text)))


def _decimal(kind: pa.DataType) -> Convert:
    context = Context(prec=kind.precision, rounding=ROUND_HALF_UP, Emin=-999_999_999, Emax=999_999_999)
    step = Decimal(1).scaleb(-kind.scale)

    def convert(value: Any) -> Decimal:
        _check(value, "a number", Whole, Real, str)
        text = value.replace(",", "") if type(value) is str else value
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"{_named(value)} is not a number")
        try:
            return Decimal(text).quantize(step, context=context)
        except InvalidOperation:
            raise ValueError(f"{text:.100} is out of range for {kind}") from None

    return convert


def date_converter(kind: pa.DataType) -> Convert:
    """Returns a function that converts a date as text to the number in a column of ``kind``; it raises ValueError."""

    def convert(value: Any) -> int:
        _check(value, "a date as text", str)
        days = _or_without_gmt(spark_times.days_of, value)
        if not -(2**31) <= days < 2**31:
            raise ValueError(f"{value!r:.100} is out of range for {kind}")
        return days if pa.types.is_date32(kind) else days * 86_400_000

    return convert


def time_converter(kind: pa.TimestampType, zone: tzinfo) -> Convert:
    """Returns a function that converts a time to the number that a column of ``kind`` stores; it raises ValueError.

    The function takes text and, if the column has a time zone, whole seconds since 1970.
    """
    ns_per_step = 10**9 // _PER_SECOND[kind.unit]
    has_zone = kind.tz is not None

    def steps(value: Any) -> int:
        if has_zone and type(value) is Whole:
            return int(value) * _PER_SECOND[kind.unit] if len(value) < 21 else _LONG_MAX
        _check(value, "a time as text, or as whole seconds" if has_zone else "a time as text", str)
        if not has_zone:
            return spark_times.nanoseconds_of(value, None) // ns_per_step
        return _or_without_gmt(lambda text: spark_times.nanoseconds_of(text, zone), value) // ns_per_step

    def convert(value: Any) -> int:
        if not -_LONG_MAX <= (found := steps(value)) < _LONG_MAX:
            raise ValueError(f"{_named(value)} is out of range for {kind}")
        return found

    return convert


def _or_without_gmt(read: Callable[[str], int], text: str) -> int:
    """Returns the result of ``read``, which is tried again without ``GMT`` in the text if it fails, as Spark does.

    Early versions of Spark wrote ``GMT`` before an offset.
    """
    try:
        return read(text)
    except ValueError:
        if "GMT" not in text:
            raise
        return read(text.replace("GMT", ""))


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Convert]], ...] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _floating),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date, date_converter),
)
