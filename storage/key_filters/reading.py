"""Reads the filter beside a segment, if there is one that may be believed."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import CorruptionError
from ..filesystem.operations import read_file
from ..filesystem.port import FileSystem
from ..format.files import file_names
from ..segment.joining import Holes
from ..segment.reader import SegmentReader
from ..segment.walk import LogContext
from .filter_file import FILE_BYTES_MAX, KeyFilter, KeyHash, SegmentId, decode


def filter_path(segment: SegmentReader) -> str:
    """Returns the path of a segment's filter."""
    name = file_names.segment_file(segment.base_offset, file_names.KEY_FILTER)
    return file_names.join(segment.context.directory, name)


def segment_id(segment: SegmentReader) -> SegmentId:
    """Returns what a filter of the segment must name. Raises SegmentRemovedError."""
    return SegmentId.of(segment.base_offset, segment.status())


def read_filter(segment: SegmentReader) -> KeyFilter | None:
    """Returns the filter of a segment; None if there is none. Raises CorruptionError for a damaged one."""
    return _read(segment.context.filesystem, filter_path(segment))


def _read(filesystem: FileSystem, path: str) -> KeyFilter | None:
    try:
        return decode(read_file(filesystem, path, FILE_BYTES_MAX), path)
    except FileNotFoundError:
        return None


def believed_filter(segment: SegmentReader) -> KeyFilter | None:
    """Returns the filter of a segment as it is now; None if there is none, or it is damaged or of another segment."""
    try:
        found = read_filter(segment)
        return found if found is not None and found.segment == segment_id(segment) else None
    except (CorruptionError, OSError):  # then the segment is read, which shows what is wrong with the disk
        return None


class KeyLookup:
    """Asks the filters of a log's segments for keys, in little time for each: a log has thousands of segments."""

    def __init__(self, context: LogContext, keys: Iterable[bytes]) -> None:
        self._context, self._filesystem, self._folder = context, context.filesystem, f"{context.directory}/"
        self._keys = [KeyHash.of(key) for key in keys]

    def lacks(self, base_offset: int, until: int) -> bool:
        """Whether a filter that may be believed shows that no record below offset ``until`` has one of the keys.

        It does not if offsets after the segment are in none: a read then tells whether a segment is missing.
        """
        path = self._folder + file_names.segment_file(base_offset, "")
        try:
            found = _read(self._filesystem, path + file_names.KEY_FILTER)
            if found is None or any(map(found.may_hold_one, self._keys)):
                return False
            status = self._filesystem.status(path + file_names.LOG)
        except (CorruptionError, OSError):  # then the segment is read, which shows what is wrong with the disk
            return False
        if status is None or found.segment != SegmentId.of(base_offset, status):
            return False
        return found.next_offset >= until or self._context.holes() is Holes.ANYWHERE
