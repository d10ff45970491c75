"""What a query must return by its definition, where Spark's Kafka source and ours differ on purpose.

Kafka's search by time ends at the first segment whose largest time is large enough, even if the record that had it was
deleted or compacted away, and it finds the markers of transactions. Ours goes on to the first record that is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tests.torture.beside_spark.drawing import EARLIEST, LATEST, Chosen, Options, Topics

Position = tuple[str, int, int]  # topic, partition, offset
Times = Mapping[tuple[str, int], list[tuple[int, int]]]  # offset and time of each visible record, by partition


class WrongError(Exception):
    """A query that both sources must refuse."""


@dataclass(frozen=True)
class Definition:
    """Computes results from the topics' visible records at the query's isolation level."""

    topics: Topics
    visible: Times
    options: Options

    def positions(self, chosen: Chosen) -> list[Position]:
        """Returns the records of the result, sorted. Raises WrongError if the query is to be refused."""
        return [
            (name, partition, offset)
            for name in sorted(chosen)
            for partition in sorted(chosen[name])
            for offset in self._offsets(name, partition)
        ]

    def _offsets(self, name: str, partition: int) -> list[int]:
        log_start, log_end = self.topics[name].starts[partition], self.topics[name].ends[partition]
        start = self._bound("starting", name, partition, log_start)
        end = self._bound("ending", name, partition, log_end)
        if start is None:  # no record is so young
            if self.options.get("startingOffsetsByTimestampStrategy") != "latest":
                raise WrongError
            start = log_end
            if "endingOffsets" not in self.options:
                end = max(end or log_end, start)
        end = log_end if end is None else end
        if start > end:
            raise WrongError
        return [offset for offset, _ in self.visible.get((name, partition), []) if start <= offset < end]

    def _bound(self, which: str, name: str, partition: int, unless_given: int) -> int | None:
        """Returns an offset; None if no visible record is at or after the time."""
        if (time := self.options.get(f"{which}Timestamp")) is not None:
            return self._at_time(name, partition, int(time))
        if (times := self.options.get(f"{which}OffsetsByTimestamp")) is not None:
            return self._at_time(name, partition, json.loads(times)[name][str(partition)])
        given = self.options.get(f"{which}Offsets", "latest")
        if not given.startswith("{"):
            return unless_given
        offset = int(json.loads(given)[name][str(partition)])
        return unless_given if offset in (EARLIEST, LATEST) else offset

    def _at_time(self, name: str, partition: int, time_ms: int) -> int | None:
        records = self.visible.get((name, partition), [])
        return next((offset for offset, record_ms in records if record_ms >= time_ms), None)


def has_times(options: Options) -> bool:
    return any("Timestamp" in name and not name.endswith("Strategy") for name in options)
