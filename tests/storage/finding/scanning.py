"""The slow twin of a search: reads every record of a partition, and compares each in Python."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from pyspark_commitlog.storage import Bounds, Condition, FoundRecords, Isolation, LogManager, LogReader, Records, Search
from pyspark_commitlog.storage.finding.search import SearchedTopics


class Row(NamedTuple):
    """A record of a partition."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def rows_of(partition: int, records: Records) -> list[Row]:
    assert records.keys is not None
    assert records.values is not None
    headers = [[]] * len(records) if records.headers is None else records.headers.to_list()
    columns = records.offsets.tolist(), records.timestamps.tolist(), records.keys.to_list(), records.values.to_list()
    return [Row(partition, *fields, tuple(each)) for *fields, each in zip(*columns, headers, strict=True)]


def all_rows(reader: LogReader, partition: int, isolation: Isolation) -> list[Row]:
    parts = reader.records(reader.log_start_offset, reader.log_end_offset, isolation=isolation)
    return [row for records in parts for row in rows_of(partition, records)]


def is_wanted(row: Row, condition: Condition, bounds: Bounds = Bounds()) -> bool:  # noqa: B008  a NamedTuple
    return (
        (condition.key is None or row.key == condition.key)
        and (condition.key_prefix is None or (row.key is not None and row.key.startswith(condition.key_prefix)))
        and (condition.value_contains is None or (row.value is not None and condition.value_contains in row.value))
        and all(header in row.headers for header in condition.headers)
        and (bounds.start or 0) <= row.offset
        and (bounds.end is None or row.offset < bounds.end)
        and bounds.times.first <= row.timestamp <= bounds.times.last
    )


def as_rows(found: list[FoundRecords]) -> list[Row]:
    return [row for each in found for row in rows_of(each.partition.partition, each.records)]


def found(
    manager: LogManager | SearchedTopics, topic: str, condition: Condition, bounds: Bounds | None = None, **how: object
) -> list[Row]:
    """What a search finds that must be complete."""
    with Search(manager, topic, condition, bounds, **how) as search:  # type: ignore[arg-type]
        rows = as_rows(list(search))
        assert search.unsearched == []
    return rows


def conditions_from(rows: list[Row], chance: Random) -> list[Condition]:
    """Conditions that some of these records satisfy, and some that none does."""
    wanted = [Condition(key=b"no such key"), Condition(value_contains=b"no such value"), Condition()]
    for row in chance.sample(rows, min(len(rows), 3)):
        if row.key is not None:
            wanted += [Condition(key=row.key), Condition(key_prefix=row.key[:2])]
        if row.value:
            at = chance.randrange(len(row.value))
            wanted.append(Condition(value_contains=row.value[at : at + 3]))
        wanted += [Condition(headers=(header,)) for header in row.headers[:1] if header[1] is not None]
    return wanted


def are_newest_first(rows: list[Row]) -> bool:
    """Whether the records of each partition are in descending order."""
    offsets = {row.partition: [other.offset for other in rows if other.partition == row.partition] for row in rows}
    return all(each == sorted(each, reverse=True) for each in offsets.values())
