"""SkippedDamage: the records that loads and queries with ``--read-mode dropmalformed`` left out of their tables.

Spark's tasks only log it. So the driver reads the same offsets once more, and finds the same damage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from ....storage import DamagedPart, LogManager, TopicPartition, counted, damaged_parts
from ...rows.offsets import LATEST, offsets_from_nested

_LISTED_MAX = 10


class SkippedDamage:
    """Counts the damage between offsets that were read; damage that two reads find counts once."""

    def __init__(self) -> None:
        self._parts: dict[tuple[TopicPartition, str | None, int | None], DamagedPart] = {}

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, log_dir: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        """Adds the damage between these offsets. A partition without a start was read from its first record on."""
        with LogManager.open(log_dir) as manager:
            for partition, end in sorted(ends.items()):
                with manager.open_reader(*partition, reports_remote=False) as reader:
                    start = max(starts.get(partition, 0), reader.earliest_offset)
                    for part in damaged_parts(reader, start, min(end, reader.log_end_offset)):
                        key = partition, part.path, part.position
                        self._parts[key] = self._parts.get(key, part).with_part(part)

    def add_batch(
        self, session: SparkSession, log_dir: str, checkpoint: str, batch_id: int, begins: Mapping[TopicPartition, int]
    ) -> None:
        """Adds the damage in a micro-batch. Its end, and that of the previous one, are in the query's checkpoint.

        The first one begins at ``begins``; if an offset there is LATEST, it has no records.
        """
        ends = _planned(session, checkpoint, batch_id)
        first = ends if LATEST in begins.values() else begins
        self.add(log_dir, _planned(session, checkpoint, batch_id - 1) if batch_id else first, ends)

    def __str__(self) -> str:
        """Returns a text like ``1 damaged batch, 1,079 bytes, 13 offsets: 463 to 475 of plain-0``."""
        parts = self._parts.values()
        batches, size = sum(each.size > 0 for each in parts), sum(each.size for each in parts)
        total = f"{counted(batches, 'damaged batch')}, {size:,} bytes"
        missing = [(partition, each) for (partition, _, _), each in self._parts.items() if each.offsets]
        offsets = sum(len(each.offsets) for _, each in missing)
        listed = [f"{each.offsets[0]} to {each.offsets[-1]} of {partition}" for partition, each in missing]
        more = [f"{len(listed) - _LISTED_MAX} more ranges"] if len(listed) > _LISTED_MAX else []
        ranges = ": " + ", ".join(listed[:_LISTED_MAX] + more) if listed else ""
        return f"{total}, {counted(offsets, 'offset')}{ranges}"


def _planned(session: SparkSession, checkpoint: str, batch_id: int) -> dict[TopicPartition, int]:
    """Returns the offsets at which a micro-batch of one source ends."""
    (row,) = session.read.text(f"{checkpoint}/offsets/{batch_id}", wholetext=True).collect()
    nested: Mapping[str, Any] = json.loads(row.value.splitlines()[2])
    return offsets_from_nested(nested, "of the checkpoint", least=0)
