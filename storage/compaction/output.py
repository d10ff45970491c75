"""Writes the batches of a group to a new segment, or to several if they no longer fit one."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from .. import format as formats
from ..format.constants import INT32_MAX
from ..format.files import file_names
from ..format.files.index_entries import AbortedTxn
from ..format.tables import BatchHeaders, Bytes
from ..segment.walk import LogContext
from ..segment.writer import LogSegment

logger = logging.getLogger(__name__)


class Output:
    """The ``.cleaned`` segments of one group.

    Usually, there is one. But rebuilt batches may be larger than before (another compression level, timestamps relative
    to a delete horizon), so an index may fill up or the file reach 2 GiB; then another segment begins.
    """

    def __init__(self, context: LogContext, base_offset: int) -> None:
        """Creates the first segment. Removes the files of an earlier, failed compaction first."""
        self.context = context
        self.segments: list[LogSegment] = []
        self._next_offset = base_offset
        self._begin(base_offset)

    def append(self, buffer: Bytes, still_aborted: Sequence[AbortedTxn]) -> None:
        """Writes batches; ``still_aborted`` are the index entries of the abort markers among the batches, in order."""
        entries = list(still_aborted)
        unwritten = formats.scan(buffer).headers
        while len(unwritten):
            count = self._fitting(unwritten)
            if not count:
                self.segments[-1].become_inactive()
                self._begin(self._next_offset)
                continue
            fitting, unwritten = unwritten[:count], unwritten[count:]
            self._next_offset = fitting.next_offset
            while entries and entries[0].last_offset < self._next_offset:
                self.segments[-1].txn_index.append(entries.pop(0))
            self.segments[-1].append(buffer[int(fitting.table["position"][0]) : fitting.end], fitting)
            self.segments[-1].begin_sync()  # the disk writes while the next batches are made

    def _begin(self, base_offset: int) -> None:
        leftover = LogSegment(self.context, base_offset, file_names.CLEANED)
        leftover.remove_files()
        try:
            self.segments.append(LogSegment.create(self.context, base_offset, file_names.CLEANED))
        except OSError:
            _remove(leftover)  # whatever was created of it
            raise

    def _fitting(self, headers: BatchHeaders) -> int:
        """Returns how many batches surely fit the newest segment; at least one if the segment is empty.

        An empty segment takes a batch even if an index has no room for one entry, because another segment would not
        either; and even if an offset is out of range, which appending then refuses.
        """
        segment, table = self.segments[-1], headers.table
        too_much = np.cumsum(table["size"]) > INT32_MAX - segment.size
        too_far = table["last_offset"] - segment.base_offset > INT32_MAX
        beyond = np.flatnonzero(too_much | too_far)
        count = int(beyond[0]) if len(beyond) else len(headers)
        return max(min(count, segment.offset_index.room, segment.time_index.room), int(not segment.size))

    @property
    def reach(self) -> int:
        """The offset after the last batch, or base offset + 1 of the newest segment if that is empty."""
        return max(self._next_offset, self.segments[-1].base_offset + 1)

    def finish(self, modified_ms: int) -> list[LogSegment]:
        """Closes the segments, sets the modification time of their files, and syncs all. Returns the segments."""
        self.segments[-1].become_inactive()
        filesystem = self.context.filesystem
        for segment in self.segments:
            filesystem.set_modified(segment.path(file_names.LOG), modified_ms)
        filesystem.sync_directory(self.context.directory)
        return self.segments

    def discard(self) -> None:
        """Removes the new segments as far as possible. The old ones are intact; opening the log removes the rest."""
        for segment in reversed(self.segments):
            _remove(segment)


def _remove(segment: LogSegment) -> None:
    """Removes a segment's files. Logs a failure instead of raising: the error that led here is the one to report."""
    try:
        segment.remove_files()
    except OSError as error:
        logger.warning("%s; a file of a failed compaction stays until the log is opened again", error)
