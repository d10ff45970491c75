"""Finds where records with given keys may be: the partitions, and the parts of a log."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from ..directory.topics_file import Known, TopicDescription
from ..format.files.file_names import TopicPartition
from ..format.tables import BinaryColumn, Bools, Records
from ..kernels import murmur2
from ..kernels.finding import matching
from ..key_filters.reading import KeyLookup
from ..reading.reader import LogReader
from .pieces import by_segment


def partitions_of_keys(topic: TopicDescription, keys: Collection[bytes]) -> list[TopicPartition]:
    """Returns the partitions of a topic, ascending, where the Java producer puts records with these keys.

    A directory that a broker filled may have only some of a topic's partitions, so there a key does not determine its
    partition, and all existing ones are returned.
    """
    if topic.known is not Known.ALL:
        return topic.topic_partitions
    numbers = murmur2.partitions_of(BinaryColumn.from_list([*keys]), len(topic.partitions))
    return [TopicPartition(topic.name, number) for number in sorted({*numbers.tolist()})]


@dataclass(frozen=True)
class KeyChoice:
    """Chooses the records whose key is one of some keys, byte for byte; never one with a null key."""

    keys: tuple[bytes, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return ("key",)

    def rows(self, records: Records) -> Bools:
        """Returns which of ``records`` have one of the keys; shape (n,)."""
        assert records.keys is not None  # one of the columns
        found = np.zeros(len(records), dtype=np.bool_)
        for key in self.keys:
            found |= matching.matching(records.keys, key, matching.EQUAL)
        return found

    def parts(self, reader: LogReader, start: int, end: int) -> Iterator[range]:
        """Yields the offsets from ``start`` up to ``end``, without those of segments that have none of the keys.

        A closed segment is left out if its valid key filter excludes all keys. Offsets outside of all segments are
        kept, so that a read of the parts notices missing records.
        """
        reached = start
        for passed in self._without(reader, start, end):
            if reached < passed.start:
                yield range(reached, passed.start)
            reached = passed.stop
        if reached < end:
            yield range(reached, end)

    def _without(self, reader: LogReader, start: int, end: int) -> Iterator[range]:
        if not (reader.context.config.keyfilter_enable and len(reader.segments)):
            return
        lookup, active = KeyLookup(reader.context, self.keys, reader.key_filters), reader.segments.active.base_offset
        for base_offset, offsets in by_segment(reader, start, end).items():
            if base_offset != active and lookup.lacks(base_offset, offsets.stop):
                yield offsets
