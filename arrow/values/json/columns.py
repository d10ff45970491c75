"""Decodes columns of JSON with Arrow's parser, if all values have usual forms, which Spark reads the same way."""

from __future__ import annotations

import io
import re
from datetime import UTC, tzinfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from .values import Convert, date_converter, time_converter

_ODD_NUMBER = re.compile(rb"[:\[,]\s*[+-]?(?:NaN|Inf)")
_OBJECT = r"(?s)^\s*\{.*\}\s*$"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "[ T][0-9]{2}:[0-9]{2}:[0-9]{2}"
_ZONE = "(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])"
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class ColumnParser:
    """Parses values as structs of ``kind``; ``zone`` is the time zone of times that name none."""

    def __init__(self, kind: pa.StructType, zone: tzinfo) -> None:
        self._kind = kind
        self._zone = zone
        self._read_as = pa.schema([pa.field(field.name, _read_type(field.type)) for field in kind])

    def read(self, values: list[bytes]) -> pa.Array:
        """Returns the values as structs. Raises ArrowInvalid unless each is one object with fields of usual forms.

        The values are parsed as one text, in which each value is checked to begin and end with a brace. Inside an
        object, an opening brace never follows a closing one, so between two values the parser is outside all objects.
        Each value therefore has at least one object, and exactly one if there are as many objects as values.
        """
        if not values:
            return pa.nulls(0, self._kind)
        if not pc.all(pc.match_substring_regex(pa.array(values, pa.binary()), _OBJECT)).as_py():
            raise pa.ArrowInvalid("a value is not a JSON object")
        data = b"\n".join(values)
        if _has_odd_number(data):
            raise pa.ArrowInvalid("a number is not finite")
        table = pyarrow.json.read_json(
            io.BytesIO(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data)),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=self._read_as, newlines_in_values=True, unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows != len(values):
            raise pa.ArrowInvalid("a value holds several JSON objects")
        parsed = table.combine_chunks().to_struct_array().combine_chunks()
        parsed.validate(full=True)  # the parser accepts text that is not UTF-8
        return self._typed(parsed, self._kind)

    def _typed(self, parsed: pa.Array, kind: pa.DataType) -> pa.Array:
        """Returns ``parsed``, which has the type ``_read_type(kind)``, as ``kind``. Raises ArrowInvalid."""
        if pa.types.is_struct(kind):
            columns = [self._typed(parsed.field(index), field.type) for index, field in enumerate(kind)]
            return pa.StructArray.from_arrays(columns, fields=list(kind), mask=parsed.is_null())
        if pa.types.is_list(kind):
            items = self._typed(parsed.values, kind.value_type)
            return pa.ListArray.from_arrays(parsed.offsets, items, type=kind, mask=parsed.is_null())
        if pa.types.is_timestamp(kind):
            return self._times(parsed, kind)
        return self._dates(parsed, kind) if pa.types.is_date(kind) else parsed.cast(kind)

    def _dates(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        return texts.cast(kind) if _all_match(texts, f"^{_DATE}$") else _one_by_one(texts, kind, date_converter(kind))

    def _times(self, texts: pa.Array, kind: pa.TimestampType) -> pa.Array:
        digits = _DIGITS[kind.unit]
        clock = f"^{_DATE}{_CLOCK}" + (rf"(\.[0-9]{{1,{digits}}})?" if digits else "")
        if kind.tz is not None and _all_match(texts, f"{clock}{_ZONE}$"):
            return texts.cast(kind)
        if (kind.tz is None or self._zone is UTC) and _all_match(texts, f"{clock}$"):
            return texts.cast(pa.timestamp(kind.unit)).cast(kind)
        return _one_by_one(texts, kind, time_converter(kind, self._zone))


def _one_by_one(texts: pa.Array, kind: pa.DataType, read: Convert) -> pa.Array:
    """Returns ``texts`` of unusual forms as ``kind``; converts each distinct text only once. Raises ArrowInvalid."""
    encoded = texts.dictionary_encode()
    try:
        return pa.array(map(read, encoded.dictionary.to_pylist()), kind).take(encoded.indices)
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _read_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type that Arrow's parser reads ``kind`` as: text for dates and times, which have more forms."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _read_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_read_type(kind.value_type))
    return pa.string() if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else kind


def _all_match(texts: pa.Array, form: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, form), min_count=0).as_py())


def _has_odd_number(data: bytes) -> bool:
    """Whether a number is NaN or Infinity, for which Arrow's parser accepts other spellings than Spark."""
    return (b"NaN" in data or b"Inf" in data) and _ODD_NUMBER.search(data) is not None
