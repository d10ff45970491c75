"""TopicLoad: where a load of a topic begins and ends in each partition, and the rows between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from ....storage import OffsetOutOfRangeError, ProgressMismatchError, TopicIds, TopicPartition, find_made_again
from ...rows.topic_ids import KnownOffsets
from ..command.words import FROM_OFFSETS
from ..points import Points, Wanted, at_or_above
from ..table_ends import last_rows
from .topic_log import TopicLog


class Done(NamedTuple):
    """The progress of earlier loads: the next offset of each partition, and the topic's id by its name, if known."""

    offsets: Points
    ids: TopicIds


class Spans(NamedTuple):
    """The first offset to load from each partition, the offset at which the load ends, and the topic's id."""

    starts: dict[int, int]
    ends: dict[int, int]
    ids: TopicIds


class Loaded(NamedTuple):
    """The result of a load: its start and end in each partition, and whether older rows were replaced.

    ``resumed``: earlier loads have loaded some of the topic.
    """

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    replaced: bool
    resumed: bool

    def __str__(self) -> str:
        spans = [(number, self.starts[number], end) for number, end in sorted(self.ends.items())]
        parts = [f"offsets {start} to {end - 1} of partition {number}" for number, start, end in spans if start < end]
        return ("loaded again: " if self.replaced else "loaded: ") + (", ".join(parts) or "nothing new")


@dataclass(frozen=True)
class TopicLoad:
    """A load of ``log``. ``options`` are those of the read."""

    session: SparkSession
    log: TopicLog
    wanted: Wanted
    options: Mapping[str, str]

    def _spans(self, before: Done, rows: DataFrame | None, path: str) -> Spans:
        """Returns what to load. Raises ProgressMismatchError if the rows did not come from this log."""
        done = before.offsets
        with self.log.opened() as log:
            ids = log.ids()
            points = log.points(self.wanted) if self.wanted else {}
            self._check_same_topic(before, ids, points, path)
            bounds = log.bounds()
            starts = {number: self._start(number, done, points, first) for number, (first, _) in bounds.items()}
            ends = {number: end for number, (_, end) in bounds.items()}
            self._check_reached(done, starts, ends, path)
            if rows is not None:
                for last in last_rows(rows.where(~at_or_above(starts))):
                    log.check_same(last, path)
        return Spans(starts, ends, {**before.ids, **ids})

    def _check_same_topic(self, before: Done, ids: TopicIds, points: Points, path: str) -> None:
        """Raises ProgressMismatchError if the topic was made again, unless an offset is named for each partition."""
        is_named = self.wanted.offsets is not None and points.keys() >= before.offsets.keys()
        if not is_named and (text := find_made_again(before.ids, ids)):
            raise ProgressMismatchError(
                f"{path} has rows of another log: {text} in {self.log}. Put back the topic that belongs to the rows, "
                f"load the new one to another path, or replace the rows by it: {FROM_OFFSETS} earliest"
            )

    def _start(self, number: int, done: Points, points: Points, first: int) -> int:
        point = points.get(number)
        if number not in done:
            return first if point is None else point
        if point is not None and self.wanted.offsets is not None and done[number] < first:
            return point  # the user has accepted the loss of the records before it, which are in neither
        start = done[number] if point is None else min(point, done[number])
        if start < first:
            raise OffsetOutOfRangeError(
                f"the records of {self.log.topic}-{number} from offset {start} to {first - 1} were not loaded, and are "
                f"no longer in the log. To continue without them, use {FROM_OFFSETS} "
                f'\'{{"{self.log.topic}": {{"{number}": {first}}}}}\''
            )
        return start

    def _of_topic(self, known: KnownOffsets, path: str) -> Done:
        """Returns recorded offsets by partition. Raises ProgressMismatchError if they are of another topic."""
        if others := {part.topic for part in known.offsets} - {self.log.topic}:
            raise ProgressMismatchError(
                f"{path} has rows of topic {', '.join(sorted(others))}, not of {self.log.topic}: give another path"
            )
        return Done({part.partition: offset for part, offset in known.offsets.items()}, known.ids)

    def _known(self, offsets: Points, ids: TopicIds) -> KnownOffsets:
        return KnownOffsets({TopicPartition(self.log.topic, number): at for number, at in offsets.items()}, ids)

    def _check_reached(self, done: Points, starts: Points, ends: Points, path: str) -> None:
        for number, offset in sorted(done.items()):
            is_named = self.wanted.offsets is not None and starts.get(number, offset) < offset
            if number not in ends or (offset > ends[number] and not is_named):
                end = f"ends at {ends[number]}" if number in ends else "has no such partition"
                raise ProgressMismatchError(
                    f"{path} has what {self.log.topic}-{number} had up to offset {offset - 1}, but the log in "
                    f"{self.log} {end}: it is an older copy, or the topic was deleted and created again. Put back "
                    f"the log that belongs to the rows, or name the offsets to load again with {FROM_OFFSETS}"
                )

    def _records(self, starts: Points, ends: Points) -> DataFrame:
        return self.log.read_between(self.session, starts, ends, self.options)
