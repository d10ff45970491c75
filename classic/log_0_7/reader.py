"""PositionLogReader: reads a partition of 0.7 without a lock, while another process may append to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from ...storage.config import DECOMPRESSED_BYTES_MAX
from ...storage.errors import CorruptionError, InvalidOffsetError, OffsetOutOfRangeError, SegmentRemovedError
from ...storage.filesystem.local import LocalFileSystem
from ...storage.filesystem.port import FileSystem
from ...storage.format.tables import Records
from .last_file import check_tail
from .records import records_of
from .segments import Segment, Window, end_of, open_segments, rest_after, segment_at, windows

TRIES = 10  # attempts to list and open the files of a log whose first ones are being deleted


class PositionLogReader:
    """The files of a partition as they were when it was opened; files that are deleted later can still be read.

    Messages that a running writer has not synced yet count as well, because only the writer knows which these are.
    """

    def __init__(self, directory: str, filesystem: FileSystem | None = None) -> None:
        """Opens the partition in ``directory``.

        Raises NotALogDirError and MissingSegmentError if the files are not a log.
        """
        self.directory = directory
        self._filesystem = filesystem or LocalFileSystem()
        self._segments = _opened(self._filesystem, directory)

    @property
    def start(self) -> int:
        """The first position; 0 for a partition without files."""
        return self._segments[0].start if self._segments else 0

    @cached_property
    def end(self) -> int:
        """The position after the last whole message, found by reading the last file.

        Logs a warning if an unfinished write follows. Raises CorruptRecordError if damage does.
        """
        return self.end_after(self.start)

    def end_after(self, position: int) -> int:
        """Returns the same as :attr:`end`, but reads only from ``position`` on, where an entry must begin.

        Raises OffsetOutOfRangeError for a position outside the log.
        """
        if self._segment_at(position) is None:
            return position
        segment = self._segments[-1]
        first = max(position - segment.start, 0)
        stop = end_of(_located(segment, windows(segment.file, first, segment.visible)), first)
        check_tail(segment.file, stop, segment.visible)
        return segment.start + stop

    @property
    def segments(self) -> list[tuple[int, int]]:
        """Start and end of each file, in positions of the log; the last one may end with an unfinished write."""
        return [(each.start, each.end) for each in self._segments]

    def modified_ms(self, start: int) -> int:
        """Returns the time of the last change of the file that begins at ``start``, in ms since the epoch.

        It is the only time that 0.7 stores. Raises SegmentRemovedError if the file was removed.
        """
        segment = next(each for each in self._segments if each.start == start)
        status = self._filesystem.status(segment.path)
        if status is None:
            raise SegmentRemovedError(f"{segment.path} was removed while it was read: open the log again")
        return status.modified_ms

    def check_start(self, position: int) -> None:
        """Raises InvalidOffsetError if no entry begins at ``position``, and the log does not end there.

        Reads the file up to there. Raises OffsetOutOfRangeError for a position outside the log.
        """
        segment = self._segment_at(position)
        if segment is None or position == segment.start:
            return
        at = position - segment.start
        for window in _located(segment, windows(segment.file, 0, segment.visible)):
            row = int(np.searchsorted(window.entries.positions + window.position, at, side="right")) - 1
            start = int(window.entries.positions[row]) + window.position
            if at < window.stop:
                if at != start:
                    raise InvalidOffsetError(
                        f"{segment.path}: no message begins at position {position}; it is inside the one from "
                        f"{segment.start + start} to {segment.start + start + int(window.entries.sizes[row])}"
                    )
                return
        if position != self.end:
            raise OffsetOutOfRangeError(f"{segment.path}: no message begins at position {position}")

    def records(
        self,
        start: int,
        end: int | None = None,
        columns: Collection[str] = ("key", "value"),
        limit: int = DECOMPRESSED_BYTES_MAX,
    ) -> Iterator[Records]:
        """Yields the messages whose entries begin from ``start`` up to ``end`` (None: all), as records.

        ``start`` is the position of an entry (:meth:`check_start`). See :func:`.records.records_of` for their form and
        for ``columns`` and ``limit``. Raises OffsetOutOfRangeError for a start outside the log; CorruptRecordError and
        InvalidRecordError, with path and position, for damage, after the records before it. An unfinished write at the
        end of the log is skipped, with a warning.
        """
        segment = self._segment_at(start)
        chosen = [] if segment is None else self._segments[self._segments.index(segment) :]
        for one in chosen:
            behind = one.end if end is None else min(one.end, end)
            if one.start < behind:
                is_last = one is self._segments[-1]
                yield from self._records(one, max(start, one.start), behind, columns, limit, is_last=is_last)

    def _records(
        self, segment: Segment, start: int, end: int, columns: Collection[str], limit: int, *, is_last: bool
    ) -> Iterator[Records]:
        stop = start - segment.start
        for window in _located(segment, windows(segment.file, stop, segment.visible)):
            with _at(segment, window):
                for records in records_of(
                    window.entries.before_damage, segment.start + window.position, columns, limit
                ):
                    wanted = int(np.searchsorted(records.offsets, end))
                    if wanted:
                        yield records.slice(0, wanted)
                    if wanted < len(records):
                        return
                window.entries.check_checksums()
            stop = window.stop
            if segment.start + stop >= end:
                return
        _check_rest(segment, stop, is_last=is_last)

    def _segment_at(self, position: int) -> Segment | None:
        return None if not self._segments and not position else segment_at(self._segments, position)

    def close(self) -> None:
        """Closes the files."""
        for segment in self._segments:
            segment.file.close()


def _opened(filesystem: FileSystem, directory: str) -> list[Segment]:
    for _ in range(TRIES):
        try:
            return open_segments(filesystem, directory)
        except SegmentRemovedError:  # they are listed again
            continue
    return open_segments(filesystem, directory)


def _check_rest(segment: Segment, stop: int, *, is_last: bool) -> None:
    if is_last:
        check_tail(segment.file, stop, segment.visible)
    elif (rest := rest_after(segment.file, stop, segment.visible)).error is not None:
        raise rest.error


def _located(segment: Segment, found: Iterator[Window]) -> Iterator[Window]:
    try:
        yield from found
    except FileNotFoundError as error:
        raise SegmentRemovedError(f"{segment.path} was removed while it was read: open the log again") from error


@contextmanager
def _at(segment: Segment, window: Window) -> Iterator[None]:
    try:
        yield
    except CorruptionError as error:
        raise error.located(segment.path, window.position) from error
