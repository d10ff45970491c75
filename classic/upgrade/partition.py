"""Copies one partition of 0.7 to a log of today, from where an earlier run stopped.

An earlier run needs no notes: a source gives its messages in the same order again, so the number of records in the
target shows where to continue. Existing records are compared with the source. While the target lacks records of the
source, a directory ``orders-0.unfinished`` beside it shows that to ``verify``. It stays after damage in the source,
because nothing after the damage is copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...storage.errors import CorruptionError, ProgressMismatchError
from ...storage.filesystem.operations import make_own_directory, parent_of, remove_tree
from ...storage.filesystem.port import FileSystem
from ...storage.format.constants import TimestampType
from ...storage.format.files import file_names
from ...storage.format.tables import Records
from ...storage.reading.aborted import Isolation
from ...storage.writing.log import Log
from ..log_0_7.reader import PositionLogReader
from .position_table import PositionTableWriter, Row, read_rows


class Copied(NamedTuple):
    """The result of a run for a partition."""

    first_position: int  # of the source, when it ran
    end_position: int
    end_offset: int  # of the target
    appended: int  # records, by this run


@dataclass
class PartitionCopy:
    """The source, the target, and the file of their table of positions."""

    source: PositionLogReader
    target: Log
    table_path: str
    filesystem: FileSystem

    def run(self) -> Copied:
        """Appends the records that the target lacks, and writes the table of positions.

        On disk after each step: the mark of an unfinished copy, if there are records to append or damage; the first
        records of the source, in order, and no table or that of an earlier run; all records; all records and their
        table; no mark. Run again, it ends the same. Raises ProgressMismatchError if the target
        has other records than the source; CorruptRecordError and its kin, with path and position, for damage in the
        source, after the records before it; and the errors of :meth:`Log.append_records`.
        """
        try:
            copied = self._run()
        except CorruptionError:
            self._mark()
            raise
        if self.filesystem.status(self._unfinished) is not None:
            remove_tree(self.filesystem, self._unfinished)
            self.filesystem.sync_directory(parent_of(self._unfinished))
        return copied

    @property
    def _unfinished(self) -> str:
        return file_names.unfinished_path(self.target.context.directory)

    def _mark(self) -> None:
        make_own_directory(self.filesystem, self._unfinished)
        self.filesystem.sync_directory(parent_of(self._unfinished))

    def _run(self) -> Copied:
        position, end = self.source.start, self.target.log_end_offset
        with PositionTableWriter(self.table_path, self.filesystem) as table:
            offset = self._take_over(table)
            for records in self._records():
                self._copy(records, offset, end)
                firsts = np.flatnonzero(np.diff(records.offsets, prepend=-1))
                table.add(records.offsets[firsts], offset + firsts)
                offset += len(records)
            if offset < end:
                raise self._mismatch(offset, f"it has {end - offset} records more than the source")
            self.target.sync()
            table.add(np.array([self.source.end]), np.array([offset]))
            table.finish()
        return Copied(position, self.source.end, offset, max(offset - end, 0))

    def _take_over(self, table: PositionTableWriter) -> int:
        """Copies an earlier run's rows for messages that the source no longer has; returns the source's first offset.

        That is 0, unless files were deleted since an earlier run.
        """
        start, last = self.source.start, None
        with suppress(FileNotFoundError):
            for rows in read_rows(self.table_path, self.filesystem):
                before = int(np.searchsorted(rows[:, 0], start))
                table.add(rows[:before, 0], rows[:before, 1])
                if before < len(rows):
                    return int(rows[before, 1])
                last = Row(*rows[-1].tolist())
        if last is not None:
            raise self._mismatch(
                last.offset, f"the source lost positions {last.position} to {start - 1} before they were copied"
            )
        return 0

    def _records(self) -> Iterator[Records]:
        """Yields the source's messages, with the time of their file's last change, the only time in 0.7."""
        for start, end in self.source.segments:
            time_ms = self.source.modified_ms(start)
            for records in self.source.records(start, end):
                count = len(records)
                yield replace(
                    records,
                    timestamps=np.full(count, time_ms, dtype=np.int64),
                    timestamp_types=np.full(count, TimestampType.CREATE_TIME, dtype=np.int8),
                )

    def _copy(self, records: Records, offset: int, end: int) -> None:
        """Appends records from ``offset`` on; compares those below ``end``, which the target had before this run."""
        there = min(max(end - offset, 0), len(records))
        self._compare(records.slice(0, there), offset)
        if there < len(records):
            if self.filesystem.status(self._unfinished) is None:
                self._mark()
            info = self.target.append_records(records.slice(there, len(records)), sync=False)
            if info.first_offset != offset + there:
                raise self._mismatch(info.first_offset, "another process writes to it")
            self.target.sync()

    def _compare(self, records: Records, offset: int) -> None:
        wanted = [] if records.values is None else records.values.to_list()
        at, end = offset, offset + len(records)
        at = max(at, min(self.target.log_start_offset, end))  # retention may have deleted the first ones
        for found in self.target.records(at, end, isolation=Isolation.READ_UNCOMMITTED) if at < end else ():
            assert found.values is not None  # asked for
            for there, value in zip(found.offsets.tolist(), found.values.to_list(), strict=True):
                if there != at or value != wanted[there - offset]:
                    raise self._mismatch(at, "it is not the message of the source")
                at += 1
        if at < end:
            raise self._mismatch(at, "there is no record")

    def _mismatch(self, offset: int, why: str) -> ProgressMismatchError:
        return ProgressMismatchError(
            f"{self.target.context.directory}, offset {offset}, and {self.source.directory} disagree: {why}; upgrade "
            "into a directory that nobody else writes to"
        )
