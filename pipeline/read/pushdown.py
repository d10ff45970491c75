"""Filter pushdown: which parts of the logs a query's ``where`` on topic, partition, offset, timestamp and key needs.

Spark passes a list of filters, and a row must satisfy all of them. Each filter narrows what is read. If all rows of the
narrowed read satisfy the filter, Spark need not apply it. Spark applies the others: those on timestamps, since records
are ordered by offset and not by time, and those on other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ...storage import KeyChoice, Timespan, TopicPartition
from .task_ranges import OffsetRange

_LEAST, _MOST = -(2**63), 2**63 - 1
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_US_PER_MS = 1000
KEYS_MAX = 100  # each key of a list is compared with each record; a longer list is left to Spark


class Interval(NamedTuple):
    """An interval of integers, including both ends."""

    first: int = _LEAST
    last: int = _MOST

    def __and__(self, other: Interval) -> Interval:
        return Interval(max(self.first, other.first), min(self.last, other.last))


@dataclass(frozen=True)
class Wanted:
    """The part of the logs that the filters need."""

    names: Mapping[str, frozenset[Any]] = field(default_factory=dict)  # by column: the values that filters list
    bounds: Mapping[str, Interval] = field(default_factory=dict)  # by column: of numbers, and of times in microseconds
    keys: frozenset[bytes] | None = None  # None: any

    def narrow(self, part: OffsetRange, offset_at: Callable[[TopicPartition, int], int | None]) -> OffsetRange:
        """Returns the part of a range that is needed, which may be empty.

        ``offset_at`` returns the offset of the first record at or after a time in ms; all records before it are older.
        """
        if not self._includes(part.source) or self.keys == frozenset():
            return OffsetRange(part.source, part.end, part.end)
        offsets = self.bounds.get("offset", Interval())
        start, end = min(max(part.start, offsets.first), part.end), min(part.end, offsets.last + 1)
        if start < end and self.timespan.first > 0:
            found = offset_at(part.source, self.timespan.first)
            start = end if found is None else max(start, found)
        return OffsetRange(part.source, start, max(start, end))

    def _includes(self, source: TopicPartition) -> bool:
        partitions = self.bounds.get("partition", Interval())
        return partitions.first <= source.partition <= partitions.last and all(
            value in self.names.get(column, (value,)) for column, value in source._asdict().items()
        )

    def with_keys(self, keys: frozenset[bytes]) -> Wanted:
        """Returns the part narrowed to these keys."""
        return replace(self, keys=keys if self.keys is None else keys & self.keys)

    @property
    def key_choice(self) -> KeyChoice | None:
        """The choice of records with the requested keys; None: all records."""
        return None if self.keys is None else KeyChoice(tuple(sorted(self.keys)))

    @property
    def timespan(self) -> Timespan:
        """The requested times in whole milliseconds, the unit of records' times."""
        first, last = self.bounds.get("timestamp", Interval())
        return Timespan(
            _LEAST if first == _LEAST else -(-first // _US_PER_MS), _MOST if last == _MOST else last // _US_PER_MS
        )


def push(filters: Iterable[Filter]) -> tuple[Wanted, list[Filter]]:
    """Returns the part of the logs that the filters need, and the filters that Spark must still apply."""
    wanted, remaining = Wanted(), list[Filter]()
    for each in filters:
        wanted, is_exact = _with(wanted, each)
        if not is_exact:
            remaining.append(each)
    return wanted, remaining


def _with(wanted: Wanted, each: Filter) -> tuple[Wanted, bool]:
    """Returns ``wanted`` narrowed by a filter, and whether all rows in the narrowed part satisfy the filter."""
    column = _column(each)
    if isinstance(each, IsNotNull):
        return wanted, column in _NEVER_NULL
    values = _values(each, column) if column in _NUMBER_OF else []
    if not values:
        return wanted, False
    is_listed = isinstance(each, EqualTo | EqualNullSafe | In)
    if column == "key":
        is_pushed = is_listed and len(values) <= KEYS_MAX
        return (wanted.with_keys(frozenset(values)) if is_pushed else wanted), is_pushed
    if is_listed and column in TopicPartition._fields:
        names = frozenset(values) & wanted.names.get(column, frozenset(values))
        return replace(wanted, names={**wanted.names, column: names}), True
    bounds = _BOUNDS.get(type(each))
    if bounds is None or column == "topic":
        return wanted, False
    interval = bounds(values) & wanted.bounds.get(column, Interval())
    is_exact = column != "timestamp" and not isinstance(each, In)
    return replace(wanted, bounds={**wanted.bounds, column: interval}), is_exact


def _column(each: Filter) -> str:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _values(each: Filter, column: str) -> list[Any]:
    """Returns the values that the filter compares with; [] if one of them does not have the column's type."""
    value = getattr(each, "value", None)
    # A null in a list matches nothing.
    given = [one for one in value if one is not None] if isinstance(each, In) and value is not None else [value]
    values = [_NUMBER_OF[column](one) for one in given]
    return [] if None in values else values


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _bytes(value: object) -> bytes | None:
    return bytes(value) if isinstance(value, bytes | bytearray) else None


def _microseconds(value: object) -> int | None:
    is_instant = isinstance(value, datetime) and value.tzinfo is not None
    return (value - _EPOCH) // timedelta(microseconds=1) if is_instant else None  # type: ignore[operator]


_NUMBER_OF: Mapping[str, Callable[[object], Any]] = {
    "topic": _text,
    "partition": _whole,
    "offset": _whole,
    "timestamp": _microseconds,
    "key": _bytes,
}
_NEVER_NULL = ("topic", "partition", "offset", "timestampType")  # a timestamp may be null with mode permissive

_BOUNDS: Mapping[type[Filter], Callable[[list[int]], Interval]] = {
    EqualTo: lambda values: Interval(values[0], values[0]),
    EqualNullSafe: lambda values: Interval(values[0], values[0]),
    GreaterThan: lambda values: Interval(first=values[0] + 1),
    GreaterThanOrEqual: lambda values: Interval(first=values[0]),
    LessThan: lambda values: Interval(last=values[0] - 1),
    LessThanOrEqual: lambda values: Interval(last=values[0]),
    In: lambda values: Interval(min(values), max(values)),
}
