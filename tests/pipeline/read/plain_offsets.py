"""A reader whose offsets have no ids of topics, for tests about offsets alone: as those of Spark's Kafka source."""

from __future__ import annotations

from pyspark_commitlog.pipeline.read.admission import ReadLimit
from pyspark_commitlog.pipeline.read.stream import Nested, StreamReader


def plain(offsets: Nested) -> Nested:
    """Returns offsets without the entries for ids."""
    return {topic: partitions for topic, partitions in offsets.items() if ":" not in topic}


class PlainReader(StreamReader):
    def initialOffset(self) -> Nested:  # noqa: N802  Spark's name
        return plain(super().initialOffset())

    def latestOffset(self, start: Nested, limit: ReadLimit) -> Nested:  # noqa: N802
        return plain(super().latestOffset(start, limit))
