"""PositionSearch: searches a partition of Kafka 0.7, whose offsets are positions, and which has no keys or times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...storage.bytes_read import count_passed
from ...storage.errors import CorruptionError, InvalidConfigError, SegmentRemovedError
from ...storage.finding.bounds import Bounds
from ...storage.finding.conditions import Condition
from ...storage.finding.partition_search import Report, Unsearched
from ...storage.format.files.file_names import TopicPartition
from ...storage.format.tables import Records
from ...storage.reading.fetch import ALL_TIMES
from .reader import PositionLogReader


class PositionSearch:
    """A search in the files of a partition, as they were when it was opened."""

    def __init__(
        self,
        partition: TopicPartition,
        reader: PositionLogReader,
        condition: Condition,
        bounds: Bounds,
        report: Report,
        *,
        newest_first: bool,
    ) -> None:
        """Raises InvalidConfigError for bounds by time and for the newest first, and InvalidOffsetError for a start
        inside a message."""
        if bounds.times != ALL_TIMES or newest_first:
            raise InvalidConfigError(
                "records of Kafka 0.7 have no times: give bounds as offsets, and search from the oldest on"
            )
        self.partition, self._reader, self._condition, self._bounds = partition, reader, condition, bounds
        self._report = report
        self.end = reader.end if bounds.end is None else min(reader.end, bounds.end)
        if bounds.start is not None and self._first > reader.start:
            reader.check_start(min(self._first, reader.segments[-1][1]))

    @property
    def _first(self) -> int:
        return max(self._bounds.start or 0, self._reader.start)

    def _parts(self) -> list[range]:
        """Returns the positions to search in each file."""
        end = self._bounds.end
        files = self._reader.segments
        parts = [range(max(start, self._first), stop if end is None else min(stop, end)) for start, stop in files]
        return [part for part in parts if part]

    @property
    def log_bytes(self) -> int:
        """The bytes to search."""
        return sum(map(len, self._parts()))

    def close(self) -> None:
        """Closes the files."""
        self._reader.close()

    def found(self) -> Iterator[Records]:
        """Yields the matching messages as records, in order. The rest of a file after damage is reported, not read."""
        start = self._bounds.start
        if start is not None and start < self._reader.start:
            self._tell(range(start, self._reader.start), "deleted", "deleted from the log")
        for part in self._parts():
            yield from self._in_file(part)
            count_passed(part.__len__)

    def _in_file(self, part: range) -> Iterator[Records]:
        reached = part.start
        try:
            for records in self._reader.records(part.start, part.stop):
                rows = np.flatnonzero(self._condition.rows(records))
                reached = int(records.offsets[-1])
                if len(rows):
                    yield records.take(rows)
        except CorruptionError as error:
            self._tell(range(reached, part.stop), "damaged", str(error))
        except SegmentRemovedError as error:
            self._tell(range(reached, part.stop), "deleted", str(error))

    def _tell(self, offsets: range, kind: str, reason: str) -> None:
        self._report(Unsearched(self.partition, offsets, kind, reason))
