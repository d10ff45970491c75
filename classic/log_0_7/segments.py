"""Segments: the ``.kafka`` files of a partition, which must join without a gap, and the windows in which they are read.

A file holds entries and nothing else. Its name is the position of its first entry among all that were ever appended,
so the position in the file is the position in the log less the start of the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ...storage.errors import CorruptionError, MissingSegmentError, OffsetOutOfRangeError, SegmentRemovedError
from ...storage.filesystem.port import File, FileSystem
from ...storage.kernels import stop_reasons
from .entries import HEAD_BYTES, SIZE_BYTES, Entries, as_buffer, why_no_entry
from .names import SUFFIX, segment_start

WINDOW_BYTES = 4 << 20


@dataclass
class Segment:
    """One file of a log. Only the last one of a log that is open for appends grows."""

    file: File
    start: int  # position in the log of its first byte
    size: int  # bytes that were written
    visible: int  # bytes that readers see; the rest is not synced yet

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def end(self) -> int:
        """The position in the log after the last byte that readers see."""
        return self.start + self.visible


class Window(NamedTuple):
    """Entries of a file that were read together, at least one."""

    position: int  # in the file, of the buffer
    entries: Entries

    @property
    def stop(self) -> int:
        """The position in the file after the last entry."""
        return self.position + self.entries.stop


class Rest(NamedTuple):
    """The rest of a file after its last whole entry."""

    position: int  # in the file
    error: CorruptionError | None  # why it is not an entry, with path and position; None: nothing follows
    reason: int  # the same, of ``stop_reasons``


def list_segments(filesystem: FileSystem, directory: str) -> list[tuple[int, str]]:
    """Returns start and name of each segment of a partition, ascending; directories are left alone.

    Raises NotALogDirError for a name that is no position, and MissingSegmentError for two files of one position.
    """
    names = [name for name in filesystem.list(directory) if _is_file(filesystem, f"{directory}/{name}")]
    found = sorted((start, name) for name in names if (start := segment_start(name, directory)) is not None)
    for (start, name), (following, other) in pairwise(found):
        if start == following:
            raise MissingSegmentError(
                f"{name} and {other} begin at the same position; remove the wrong one", path=directory
            )
    return found


def _is_file(filesystem: FileSystem, path: str) -> bool:
    status = filesystem.status(path) if path.endswith(SUFFIX) else None
    return status is not None and not status.is_directory


def open_segments(filesystem: FileSystem, directory: str) -> list[Segment]:
    """Opens the segments of a partition to read; all their bytes count as visible.

    Raises like :func:`list_segments`, MissingSegmentError if they do not join, and SegmentRemovedError if one
    disappears, after which a reader lists them again.
    """
    segments = [_open(filesystem, f"{directory}/{name}", start) for start, name in list_segments(filesystem, directory)]
    for one, following in pairwise(segments):
        if one.end != following.start:
            raise MissingSegmentError(
                f"the file ends at position {one.end} of the log, but the next one, {following.path}, begins at "
                f"{following.start}: messages are missing, or do not belong here; restore the file",
                path=one.path,
                position=min(one.visible, max(following.start - one.start, 0)),
            )
    return segments


def _open(filesystem: FileSystem, path: str, start: int) -> Segment:
    try:
        file = filesystem.open(path, "read")
    except FileNotFoundError as error:
        raise SegmentRemovedError(f"{path} was removed while the log was opened: open it again") from error
    size = file.size()
    return Segment(file, start, size, size)


def segment_at(segments: Sequence[Segment], position: int) -> Segment | None:
    """Returns the segment with this position; None at the end of the log.

    Raises OffsetOutOfRangeError for a position before the first or after the last.
    """
    if not segments or not segments[0].start <= position <= segments[-1].end:
        bounds = f"{segments[0].start} to {segments[-1].end}" if segments else "nothing"
        raise OffsetOutOfRangeError(f"position {position} is outside the log, which has {bounds}")
    if position == segments[-1].end:
        return None
    return segments[bisect_right(segments, position, key=lambda each: each.start) - 1]


def windows(file: File, start: int, end: int) -> Iterator[Window]:
    """Yields the whole entries between two positions of a file. Checks their sizes and magics, not their checksums.

    An entry is read whole, however large it is: at most the rest of the file. :func:`rest_after` returns the bytes
    after the last one.
    """
    wanted = WINDOW_BYTES
    while start < end:
        entries = Entries.of(as_buffer(file.read(start, min(wanted, end - start))))
        if len(entries):
            yield Window(start, entries)
            start, wanted = start + entries.stop, WINDOW_BYTES
        elif len(entries.buffer) < (size := _size_at(file, start)) <= end - start:
            wanted = size
        else:
            return
        if entries.reason not in (stop_reasons.END, stop_reasons.TRUNCATED):
            return


def end_of(found: Iterable[Window], start: int) -> int:
    """Returns the position after the last entry of windows that begin at ``start``."""
    stop = start
    for window in found:
        stop = window.stop
    return stop


def _size_at(file: File, position: int) -> int:
    """Returns the size of the entry at ``position``, with the 4 bytes before it."""
    return int.from_bytes(file.read(position, SIZE_BYTES), "big", signed=True) + SIZE_BYTES


def rest_after(file: File, stop: int, end: int) -> Rest:
    """Returns the part of the file between the whole entries, which stop at ``stop``, and ``end``."""
    if stop == end:
        return Rest(stop, None, stop_reasons.END)
    reason, error = why_no_entry(bytes(file.read(stop, min(HEAD_BYTES, end - stop))), end - stop)
    return Rest(stop, type(error)(error.reason, path=file.path, position=stop), reason)
