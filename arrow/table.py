"""Reads a topic into a pyarrow Table without Spark, for notebooks and tools."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from datetime import datetime
from os import PathLike
from typing import Literal

import pyarrow as pa

from ..storage import (
    TIME_FORMS,
    InvalidConfigError,
    Isolation,
    LogManager,
    LogReader,
    Records,
    TopicPartition,
    ms_of,
    parse_instant,
    tier_address,
)
from .batches import to_batch
from .columns import IN_RECORDS, read_names, schema_of

Bound = int | str | datetime | None
Path = str | PathLike[str]
TimeMode = Literal["failfast", "permissive"]


def read_table(
    path: Path | None,
    topic: str,
    *,
    start: Bound = None,
    end: Bound = None,
    by: Literal["offset", "timestamp"] = "offset",
    partition: int | Collection[int] | None = None,
    columns: Collection[str] | None = None,
    isolation: Isolation | str = Isolation.READ_COMMITTED,
    mode: TimeMode = "failfast",
    tier: Path | None = None,
    tier_keys: Collection[Path] = (),
) -> pa.Table:
    """Returns the records of a topic, by partition and then by offset, with the columns of the data source.

    ``path`` is the log directory. ``tier``: the directory or the URL of tiered storage, for records before the first
    segments in ``path``, or with ``path=None`` for all; ``tier_keys``: files with private keys, if it is encrypted.

    ``start`` and ``end`` (exclusive) apply to every partition; the default is all records. With ``by="offset"`` they
    are offsets; offsets that the log does not have are missing in the table. With ``by="timestamp"`` they are times: a
    datetime with a time zone, ISO 8601 text (in UTC unless it has a zone), or milliseconds since 1970. They are
    compared with the column ``timestamp``: the table begins with the first record at or after ``start``, and ends
    before the first one at or after ``end``. If records are not in order of time, some in between may be older or
    younger. Unlike with a broker, transaction markers do not count.

    ``partition``: one, several, or None for all. ``columns``: some of key, value, topic, partition, offset, timestamp,
    timestampType and headers, in any order; the default is all but headers. Other columns are not even built.
    ``isolation``: ``read_committed`` or ``read_uncommitted``. ``mode``: a record's time that does not fit a timestamp
    in microseconds raises TimeBeyondSparkError, or is null with ``permissive``.

    The whole table is in memory. Takes no lock and changes nothing. Raises InvalidConfigError for an invalid argument,
    NotALogDirError, UnknownTopicOrPartitionError, the errors of LogReader.records for damage, and MissingSegmentError
    if first segments with requested records were lost; a ``start`` after them avoids this.

    >>> read_table("data/log", "flights", start=1000, end=1010, partition=0)  # doctest: +SKIP
    """
    first, behind = asked = _bounds(start, end, by)
    level, schema, null_times = isolation_of(isolation), _schema(columns), _null_times(mode)
    batches = []
    with LogManager.open(_location(path, tier, tier_keys)) as manager:
        for source in chosen_partitions(manager, topic, partition):
            with manager.open_reader(*source) as reader:
                if by == "timestamp":
                    first, behind = (_offset_at(reader, time, level) for time in asked)
                found = _records(reader, first, behind, level, schema)
                batches += [to_batch(records, source, schema, null_times=null_times) for records in found]
    return pa.Table.from_batches(batches, schema=schema)


def tail(
    path: Path | None,
    topic: str,
    n: int = 10,
    *,
    partition: int | Collection[int] | None = None,
    columns: Collection[str] | None = None,
    isolation: Isolation | str = Isolation.READ_COMMITTED,
    mode: TimeMode = "failfast",
    tier: Path | None = None,
    tier_keys: Collection[Path] = (),
) -> pa.Table:
    """Returns the last ``n`` records of each partition, or all of them if there are fewer, in order.

    Other arguments, errors and the table are those of :func:`read_table`.
    """
    if n < 0:
        raise InvalidConfigError(f"n is {n}; it must be 0 or more")
    level, schema, null_times = isolation_of(isolation), _schema(columns), _null_times(mode)
    batches = []
    with LogManager.open(_location(path, tier, tier_keys)) as manager:
        for source in chosen_partitions(manager, topic, partition):
            with manager.open_reader(*source) as reader:
                found = _last(reader, n, level, schema)
                batches += [to_batch(records, source, schema, null_times=null_times) for records in found]
    return pa.Table.from_batches(batches, schema=schema)


def _location(path: Path | None, tier: Path | None, keys: Collection[Path]) -> str:
    """Returns the location as ``LogManager.open`` takes it.

    Raises InvalidConfigError if there is neither a path nor a tier.
    """
    log = None if path is None else os.fspath(path)
    if tier is not None:
        return str(tier_address(os.fspath(tier), log, [os.fspath(each) for each in keys]))
    if log is None:
        raise InvalidConfigError("path is None: give the log directory, or its tier")
    return log


def _null_times(mode: str) -> bool:
    if mode not in ("failfast", "permissive"):
        raise InvalidConfigError(f"mode is {mode!r}; it must be failfast or permissive")
    return mode == "permissive"


def _last(reader: LogReader, n: int, isolation: Isolation, schema: pa.Schema) -> list[Records]:
    """Returns the last ``n`` records, in order.

    Offsets have gaps, so this doubles the range of offsets that it reads until there are enough records.
    """
    end, span = reader.end_offset(isolation), n
    while n:
        start, found = max(end - span, reader.log_start_offset), list[Records]()
        for records in _records(reader, start, end, isolation, schema):
            found.append(records)
            while sum(map(len, found[1:])) >= n:
                found.pop(0)
        surplus = sum(map(len, found)) - n
        if surplus < 0 and start == reader.log_start_offset:
            _raise_if_lost(reader, 0, end)
        if surplus >= 0 or start == reader.log_start_offset:
            return [found[0].slice(max(surplus, 0), len(found[0])), *found[1:]] if found else []
        span *= 2
    return []


def _records(
    reader: LogReader, start: int | None, end: int | None, isolation: Isolation, schema: pa.Schema
) -> Iterator[Records]:
    """Yields the records from ``start`` up to ``end`` that the log has; None stands for the log's start or end."""
    first = max(start or 0, reader.log_start_offset)
    behind = reader.end_offset(isolation) if end is None else end
    _raise_if_lost(reader, start or 0, behind)
    asked = [name for name in schema.names if name in IN_RECORDS]
    return reader.records(first, behind, isolation=isolation, columns=asked)


def _raise_if_lost(reader: LogReader, start: int, behind: int) -> None:
    """Raises MissingSegmentError if the log's first segments were lost, and with them offsets from ``start`` on."""
    lost = reader.lost_start() if start < reader.log_start_offset else None
    if lost is not None and behind > reader.earliest_offset:
        raise lost


def _offset_at(reader: LogReader, timestamp_ms: int | None, isolation: Isolation) -> int | None:
    """Returns the offset of the first record at or after a time, or the log's end; None if no time is given."""
    if timestamp_ms is None:
        return None
    found = reader.first_at(timestamp_ms, isolation)
    return reader.end_offset(isolation) if found is None else found


def _bounds(start: Bound, end: Bound, by: str) -> tuple[int | None, int | None]:
    """Returns start and end as offsets, or as milliseconds since 1970. Raises InvalidConfigError."""
    if by not in ("offset", "timestamp"):
        raise InvalidConfigError(f"by is {by!r}; it must be 'offset' or 'timestamp'")
    first, behind = (_number(name, bound, by) for name, bound in (("start", start), ("end", end)))
    if first is not None and behind is not None and first > behind:
        raise InvalidConfigError(f"start {start} is after end {end}")
    return first, behind


def _number(name: str, bound: Bound, by: str) -> int | None:
    if isinstance(bound, datetime) and by == "timestamp":
        if bound.tzinfo is None:
            raise InvalidConfigError(f"{name} {bound} has no time zone; give it one, such as datetime.UTC")
        return ms_of(bound)
    if isinstance(bound, str) and by == "timestamp":
        try:
            return parse_instant(bound, least_ms=0)
        except ValueError as error:
            raise InvalidConfigError(f"{name}: {error}, or a datetime") from None
    if bound is None or (isinstance(bound, int) and not isinstance(bound, bool) and bound >= 0):
        return bound
    wanted = "an offset of 0 or more" if by == "offset" else f"{TIME_FORMS}, or a datetime"
    raise InvalidConfigError(f"{name} is {bound!r}; with by={by!r} it must be {wanted}")


def isolation_of(isolation: Isolation | str) -> Isolation:
    """Returns the isolation of this name. Raises InvalidConfigError for another name."""
    try:
        return Isolation(isolation)
    except ValueError:
        known = " or ".join(level.value for level in Isolation)
        raise InvalidConfigError(f"isolation is {isolation!r}; it must be {known}") from None


def _schema(columns: Collection[str] | None) -> pa.Schema:
    if isinstance(columns, str):
        raise InvalidConfigError(f"columns is {columns!r}; it must be a list, such as [{columns!r}]")
    return schema_of(read_names(include_headers=False) if columns is None else columns)


def chosen_partitions(manager: LogManager, topic: str, wanted: int | Collection[int] | None) -> list[TopicPartition]:
    """Returns one, some or (None) all partitions of a topic, ascending. Raises UnknownTopicOrPartitionError."""
    there = manager.topic(topic)
    numbers = there.partitions if wanted is None else {wanted} if isinstance(wanted, int) else set(wanted)
    for number in numbers:
        there.check_partition(number, manager.directory)
    return [TopicPartition(topic, number) for number in sorted(numbers)]
