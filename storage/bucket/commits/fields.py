"""Checked fields of JSON objects; all content read from a store passes these checks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import CorruptionError, InvalidTopicError
from ...format.files.file_names import check_topic_name
from ...format.tables import Int64s

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
TEXT_MAX = 64 << 10  # characters

_HEX_128 = re.compile(r"[0-9a-f]{32}")
_HEX_256 = re.compile(r"[0-9a-f]{64}")
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def check_topic(name: str) -> None:
    """Raises CorruptionError unless Kafka allows the topic's name, which becomes part of paths."""
    try:
        check_topic_name(name)
    except InvalidTopicError as error:
        raise CorruptionError(str(error)) from error


class Fields:
    """A JSON object. Every method raises CorruptionError if its field does not have the type that it returns."""

    def __init__(self, value: Any, where: str = "") -> None:
        if not isinstance(value, dict):
            raise CorruptionError(f"{where or 'the content'} is not a JSON object")
        self._value: dict[str, Any] = value
        self._where = where

    @classmethod
    def of(cls, data: bytes) -> Fields:
        """Returns the fields of a JSON document in UTF-8."""
        try:
            return cls(json.loads(data.decode()))
        except (ValueError, RecursionError) as error:
            raise CorruptionError(f"does not parse as JSON: {str(error)[:200]}") from None

    def wrong(self, name: str, expected: str) -> CorruptionError:
        shown = repr(self._value.get(name, "missing"))[:80]
        return CorruptionError(f"{self._where}{name} is {shown}, where {expected} is expected")

    def has(self, name: str) -> bool:
        return self._value.get(name) is not None

    def integer(self, name: str, least: int = 0, most: int = INT64_MAX) -> int:
        value = self._value.get(name)
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(name, f"a number from {least} to {most}")
        return value

    def text(self, name: str) -> str:
        value = self._value.get(name)
        if not isinstance(value, str) or len(value) > TEXT_MAX:
            raise self.wrong(name, "a text")
        return value

    def one_of(self, name: str, *known: str) -> str:
        if (value := self.text(name)) not in known:
            raise self.wrong(name, f"one of {', '.join(known)}")
        return value

    def uid(self, name: str) -> str:
        return self._matching(name, _HEX_128, "32 hex digits")

    def sha256(self, name: str) -> str:
        return self._matching(name, _HEX_256, "64 hex digits")

    def topic_id(self, name: str) -> str:
        return self._matching(name, _TOPIC_ID, "a topic's id")

    def optional(self, name: str, read: Callable[[str], Any]) -> Any:
        """Returns ``read(name)``; None if the field is missing or null."""
        return read(name) if self.has(name) else None

    def rows(self, name: str, columns: int) -> Int64s:
        """Returns a list of lists of ``columns`` whole numbers as an array, shape (rows, columns)."""
        value = self._value.get(name)
        try:
            rows = np.array(value) if isinstance(value, list) else None
        except (ValueError, OverflowError):
            rows = None
        if (
            rows is None
            or (rows.shape[1:] != (columns,) if len(rows) else False)
            or (len(rows) and rows.dtype != np.int64)
        ):
            raise self.wrong(name, f"a list of rows of {columns} numbers")
        return rows.reshape(-1, columns).astype(np.int64, copy=False)

    def objects(self, name: str) -> Iterator[Fields]:
        """Yields the objects of a list."""
        for number, value in enumerate(self.values(name)):
            yield Fields(value, f"{self._where}{name}[{number}].")

    def values(self, name: str) -> list[Any]:
        value = self._value.get(name)
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        return value

    def uids(self, name: str) -> list[str]:
        values = self.values(name)
        if not all(isinstance(value, str) and _HEX_128.fullmatch(value) for value in values):
            raise self.wrong(name, "a list of texts of 32 hex digits")
        return values

    def inside(self, name: str) -> Fields:
        return Fields(self._value.get(name), f"{self._where}{name}.")

    def items(self) -> Iterator[tuple[str, Any]]:
        yield from self._value.items()

    def texts(self, name: str) -> Mapping[str, str]:
        """Returns an object whose values are texts."""
        found = self.inside(name)
        return {key: found.text(key) for key, _ in found.items()}

    def _matching(self, name: str, pattern: re.Pattern[str], expected: str) -> str:
        if not pattern.fullmatch(value := self.text(name)):
            raise self.wrong(name, expected)
        return value
