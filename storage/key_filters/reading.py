"""Finds the segments of a log that have none of some keys, by their key filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import CorruptionError
from ..format.files import file_names
from ..format.tables import BinaryColumn
from ..kernels.finding import key_filter as kernel
from ..segment.joining import Holes
from ..segment.walk import LogContext
from .files import FilterFiles


class KeyLookup:
    """Tests segments for some keys; fast, because a log has thousands of segments.

    A file is read once, at the first test of a segment that it may cover.
    """

    def __init__(self, context: LogContext, keys: Iterable[bytes], listing: Sequence[str] | None = None) -> None:
        """``listing``: the names of files of filters in the directory; None: list it when they are needed."""
        self._context, self._listing, self._folder = context, listing, f"{context.directory}/"
        self._hashes = kernel.hashes_of(BinaryColumn.from_list([*keys]))
        self._files: FilterFiles | None = None
        self._names_read = set[str]()
        self._lacking: dict[int, tuple[int, ...]] = {}  # rows of the tables, by base offset

    def lacks(self, base_offset: int, until: int) -> bool:
        """Whether a valid filter shows that no record below offset ``until`` has one of the keys.

        False if the offsets after the segment are in no segment: only a read shows whether one is missing.
        """
        try:
            row = self._lacking.get(base_offset) or self._read_for(base_offset)
            if row is None:
                return False
            path = self._folder + file_names.segment_file(base_offset, file_names.LOG)
            status = self._context.filesystem.status(path)
        except (CorruptionError, OSError):  # the segment is read instead, which reports the problem of the disk
            return False
        _, *made_from, next_offset, _, _ = row
        if status is None or [status.size, status.modified_ms, status.inode] != made_from:
            return False
        return next_offset >= until or self._context.holes() is Holes.ANYWHERE

    def _read_for(self, base_offset: int) -> tuple[int, ...] | None:
        """Reads the file with the filter of a segment, unless it was read already; returns the segment's row."""
        if self._files is None:
            self._files = FilterFiles(self._context, self._listing)
        name = self._files.name_of(base_offset)
        if name is not None and name not in self._names_read:
            self._names_read.add(name)
            with self._files.opened(name) as file:
                rows = [] if file is None else file.lacking(self._hashes).tolist()
            self._lacking |= {row[0]: row for row in rows}
        return self._lacking.get(base_offset)
