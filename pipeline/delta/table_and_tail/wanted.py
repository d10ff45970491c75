"""The part of a topic that a caller of ``topic_table`` asks for, for the table as a condition, and for the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from ....storage import InvalidConfigError, Isolation, LogManager, TopicPartition, parse_instant
from .plan import Span


@dataclass(frozen=True)
class Wanted:
    """Offsets by partition, partitions, times in ms, and columns; fields that are not given do not restrict the read.

    ``ends`` and ``until_ms`` are exclusive.
    """

    starts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    partitions: Collection[int] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    columns: tuple[str, ...] | None = None

    def check(self, topic: str, numbers: Collection[int]) -> None:
        """Raises InvalidConfigError for a partition that the topic does not have."""
        for name, asked in (("starts", self.starts), ("ends", self.ends), ("partitions", self.partitions or ())):
            if unknown := set(asked) - set(numbers):
                names = ", ".join(str(TopicPartition(topic, number)) for number in sorted(unknown))
                raise InvalidConfigError(f"{name}: the topic has no partition {names}")

    def narrow(self, manager: LogManager, spans: list[Span]) -> list[Span]:
        """Returns the requested offsets of the log among ``spans``."""
        return [self._narrow(manager, each) for each in spans if self._has(each.partition.partition)]

    def asks_below(self, number: int, offset: int) -> bool:
        """Whether a record of a partition below an offset is asked for."""
        return self._has(number) and self.starts.get(number, 0) < offset

    def _has(self, number: int) -> bool:
        return self.partitions is None or number in self.partitions

    def _narrow(self, manager: LogManager, span: Span) -> Span:
        start = max(span.start, self.starts.get(span.partition.partition, 0))
        if start < span.end and self.since_ms is not None:
            with manager.open_reader(*span.partition) as reader:
                found = reader.offset_for_timestamp(self.since_ms, Isolation.READ_COMMITTED)
            start = span.end if found is None else max(start, found.offset)
        return Span(span.partition, start, span.end)

    def of_table(self, rows: DataFrame, spans: list[Span]) -> DataFrame:
        """Returns the requested rows of a table, which has no offset of ``spans``.

        Spark does not read a table of which no row is wanted.
        """
        return self.of_both(rows, [each for each in spans if self._is_in_table(each)])

    def _is_in_table(self, span: Span) -> bool:
        return self.starts.get(span.partition.partition, 0) < span.start

    def of_both(self, rows: DataFrame, spans: list[Span]) -> DataFrame:
        """Returns the requested rows of a table and of ``spans``, which follow it in the log."""
        if (where := self._sql_of_offsets(spans)) is not None:
            rows = rows.where(where)
        return self.at_times(rows)

    def at_times(self, rows: DataFrame) -> DataFrame:
        if self.since_ms is not None:
            rows = rows.where(f"_timestamp >= timestamp_millis({self.since_ms})")
        if self.until_ms is not None:
            rows = rows.where(f"_timestamp < timestamp_millis({self.until_ms})")
        return rows

    def _sql_of_offsets(self, spans: list[Span]) -> str | None:
        """Returns the condition as SQL, with a part for each partition if one of them is bounded; else None."""
        if self.partitions is None and not self.starts and all(each.start <= each.end for each in spans):
            return None
        parts = [self._sql_of(each) for each in spans if self._has(each.partition.partition)]
        return " OR ".join(f"({part})" for part in parts) or "false"

    def _sql_of(self, span: Span) -> str:
        number = span.partition.partition
        parts = [f"_partition = {number}"]
        if number in self.starts:
            parts.append(f"_offset >= {self.starts[number]}")
        if span.end < span.start:
            parts.append(f"_offset < {span.end}")
        return " AND ".join(parts)


def instant_ms(name: str, given: int | str | None) -> int | None:
    """Returns a time in ms, given as ms or as ISO 8601 text. Raises InvalidConfigError naming the argument."""
    try:
        return parse_instant(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidConfigError(f"{name}: {error}") from None
