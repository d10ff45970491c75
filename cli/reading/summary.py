"""``commitlog describe`` without a topic: what is in a log directory or on an object store, a row per topic."""

from __future__ import annotations

from typing import Any

import typer

from ... import storage
from ..output import Column, Failures, print_json, print_table

COLUMNS = (
    Column("TOPIC"),
    Column("PARTITIONS", 10, is_number=True),
    Column("OFFSETS", 10, is_number=True),
    Column("BYTES", 10, is_number=True),
    Column("FIRST-TIME", 27),
    Column("LAST-TIME", 27),
    Column("MAGIC", 5),
    Column("OPEN-TXNS", 9, is_number=True),
    Column("LAG"),
)


def show(log_dir: str, *, as_json: bool) -> None:
    """Prints a row per topic, and the sum of internal topics, which have no rows."""
    failures = Failures()
    with storage.LogManager.open(log_dir) as manager:
        topics = manager.topics()
        internal = [topics.pop(name) for name in storage.INTERNAL_TOPICS if name in topics]
        found = list(storage.describe_topics(manager, [*topics.values()], failures.errors))
        partitions = sum(len(each.partitions) for each in internal)
        size = sum(storage.topic_size(manager, each) for each in internal)
    names = sorted(each.name for each in internal)
    if as_json:
        print_json(map(_json, found))
        print_json([{"internal_topics": names, "partitions": partitions, "bytes": size}] if names else [])
    else:
        print_table(COLUMNS, map(_row, found))
        if names:
            many = storage.counted(partitions, "partition")
            typer.echo(f"\ninternal topics: {', '.join(names)}: {many}, {size:,} bytes")
    failures.end()


def _row(found: storage.TopicSummary) -> tuple[object, ...]:
    return (
        found.topic,
        found.partitions,
        found.offsets,
        found.size,
        _time(found.first_timestamp_ms),
        _time(found.last_timestamp_ms),
        ",".join(map(str, sorted(found.magics))) or None,
        len(found.producers),
        ", ".join(f"{group} {lag}" for group, lag in found.lags.items()) or None,
    )


def _time(timestamp_ms: int) -> str | None:
    return None if timestamp_ms < 0 else storage.instant(timestamp_ms)


def _json(found: storage.TopicSummary) -> dict[str, Any]:
    return {
        "topic": found.topic,
        "partitions": found.partitions,
        "offsets": found.offsets,
        "bytes": found.size,
        "first_timestamp": None if found.first_timestamp_ms < 0 else found.first_timestamp_ms,
        "last_timestamp": None if found.last_timestamp_ms < 0 else found.last_timestamp_ms,
        "magics": sorted(found.magics),
        "open_transactions": len(found.producers),
        "lag": dict(found.lags),
    }
