"""Loads a topic into a folder of Parquet files, which has the next offsets beside the rows: docs/tables.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession, functions as F

from ...storage import Isolation, LogManager, OffsetOutOfRangeError, ProgressMismatchError, TopicPartition
from ..rows import Offsets
from ..values import Serde
from .parquet_folder import ParquetFolder
from .points import FROM_OFFSETS, Points, Wanted, at_or_above, find_points
from .reload import read_between
from .table_ends import check_same_log, last_rows
from .table_rows import brings_fields, differ, nullable, to_rows


class Loaded(NamedTuple):
    """What a load did: where it began and ended in each partition, and whether older rows were replaced."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    replaced: bool

    def __str__(self) -> str:
        spans = [(number, self.starts[number], end) for number, end in sorted(self.ends.items())]
        parts = [f"offsets {start} to {end - 1} of partition {number}" for number, start, end in spans if start < end]
        return ("loaded again: " if self.replaced else "loaded: ") + (", ".join(parts) or "nothing new")


@dataclass(frozen=True)
class ParquetLoad:
    """A load of ``topic`` into ``folder``. ``options`` are those of the read, ``serde`` is of values, as for tables."""

    session: SparkSession
    log_dir: str
    topic: str
    folder: ParquetFolder
    serde: Serde | None
    wanted: Wanted
    options: Mapping[str, str]

    def run(self) -> Loaded:
        """Adds what was written to the topic since the last load; with ``wanted``, first goes back to that point.

        Rows at or above the point are replaced by what the log has there, together with the new ones, at once: readers
        see all of it or none. Rows that are as in the log stay, so a second load changes no file. A new folder begins
        at the point, or at the earliest record. After a crash, the rows are as before the load or after it, and the
        next load continues there (``ParquetFolder.publish``).

        Raises the errors of ``find_points``; OffsetOutOfRangeError if records were deleted before they were loaded;
        ProgressMismatchError if the rows did not come from this log; InvalidConfigError if values lack a field of the
        rows, or have it with another type; and LogDirLockedError while another load runs.
        """
        with self.folder.locked():
            done, rows = self._progress(), self._rows()
            starts, ends = self._spans(done, rows)
            back = {number: start for number, start in starts.items() if start < done.get(number, start)}
            if rows is not None and back and not self._changed(rows, back, done):
                starts, back = starts | {number: min(done[number], ends[number]) for number in back}, {}
            if rows is None or back or any(done.get(number) != end for number, end in ends.items()):
                self._publish(rows, starts, ends, back)
            return Loaded(starts, ends, bool(back))

    def _progress(self) -> dict[int, int]:
        found = self.folder.next_offsets()
        if others := {part.topic for part in found} - {self.topic}:
            raise ProgressMismatchError(
                f"{self.folder.path} has rows of topic {', '.join(sorted(others))}, not of {self.topic}: name another "
                "folder"
            )
        return {part.partition: offset for part, offset in found.items()}

    def _rows(self) -> DataFrame | None:
        current = self.folder.current()
        return None if current is None else self.session.read.parquet(f"file:{current}")

    def _spans(self, done: Points, rows: DataFrame | None) -> tuple[dict[int, int], dict[int, int]]:
        """Returns the first offset to load from each partition, and the offset at which the load ends."""
        with LogManager.open(self.log_dir) as manager:
            points = find_points(manager, self.topic, self.wanted) if self.wanted else {}
            firsts, ends = {}, {}
            for number in manager.topic(self.topic).partitions:
                with manager.open_reader(self.topic, number) as reader:
                    firsts[number], ends[number] = reader.log_start_offset, reader.end_offset(Isolation.READ_COMMITTED)
            starts = {number: self._start(number, done, points, first) for number, first in firsts.items()}
            self._check_reached(done, starts, ends)
            if rows is not None:
                for last in last_rows(rows.where(~at_or_above(starts))):
                    check_same_log(manager, self.topic, last, str(self.folder.path))
        return starts, ends

    def _start(self, number: int, done: Points, points: Points, first: int) -> int:
        point = points.get(number)
        if number not in done:
            return first if point is None else point
        if point is not None and self.wanted.offsets is not None and done[number] < first:
            return point  # the records before it, which are in neither, were given up by name
        start = done[number] if point is None else min(point, done[number])
        if start < first:
            raise OffsetOutOfRangeError(
                f"the records of {self.topic}-{number} from offset {start} to {first - 1} were not loaded, and are no "
                f"longer in the log. To continue without them, use {FROM_OFFSETS} "
                f'\'{{"{self.topic}": {{"{number}": {first}}}}}\''
            )
        return start

    def _check_reached(self, done: Points, starts: Points, ends: Points) -> None:
        for number, offset in sorted(done.items()):
            is_named = self.wanted.offsets is not None and starts.get(number, offset) < offset
            if number not in ends or (offset > ends[number] and not is_named):
                end = f"ends at {ends[number]}" if number in ends else "has no such partition"
                raise ProgressMismatchError(
                    f"{self.folder.path} has what {self.topic}-{number} had up to offset {offset - 1}, but the log in "
                    f"{self.log_dir} {end}: it is an older copy, or the topic was deleted and created again. Put back "
                    f"the log that belongs to the rows, or name the offsets to load again with {FROM_OFFSETS}"
                )

    def _new_rows(self, starts: Points, ends: Points) -> DataFrame:
        records = read_between(self.session, self.log_dir, self.topic, starts, ends, self.options)
        new = to_rows(records, self.serde)
        return new.to(nullable(new.schema))

    def _changed(self, rows: DataFrame, back: Points, done: Points) -> bool:
        again = self._new_rows(back, {number: done[number] for number in back})
        if brings_fields(rows.schema, again.schema, str(self.folder.path)):
            return True
        return differ(rows.where(at_or_above(back)), again.to(rows.schema))

    def _publish(self, rows: DataFrame | None, starts: Points, ends: Points, back: Points) -> None:
        new, kept = self._new_rows(starts, ends), set[str]()
        if rows is not None:
            is_wider = brings_fields(rows.schema, new.schema, str(self.folder.path))
            new = new if is_wider else new.to(rows.schema)
            names = {_name(file) for file in rows.inputFiles()}
            changed = names if is_wider else _files_at_or_above(rows, back)
            kept = names - changed
            if changed:
                files = [f"file:{self.folder.current()}/{name}" for name in sorted(changed)]
                old = self.session.read.schema(rows.schema).parquet(*files)
                new = old.where(~at_or_above(back)).to(new.schema).unionByName(new)
        offsets: Offsets = {TopicPartition(self.topic, number): end for number, end in ends.items()}
        self.folder.publish(offsets, lambda folder: new.write.parquet(f"file:{folder}"), kept)


def _files_at_or_above(rows: DataFrame, points: Points) -> set[str]:
    if not points:
        return set()
    found = rows.where(at_or_above(points)).select(F.input_file_name()).distinct().collect()
    return {_name(row[0]) for row in found}


def _name(uri: str) -> str:
    return Path(unquote(urlsplit(uri).path)).name
