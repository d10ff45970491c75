"""The files with the key filters of a log, and which of them has the filter of a segment.

In a directory, a file has the filters of segments that follow each other; its name is that of the first with
``.keyfilter``, which Kafka ignores. A file has at most FILE_BYTES, so that adding a filter rewrites little. On an
object store, each segment that is an object has its filter in an object beside it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ..errors import CorruptionError
from ..filesystem.operations import write_atomically
from ..filesystem.port import MadeFileSystem
from ..format.files import file_names
from ..segment.walk import LogContext
from .filter_file import FilterFile, KeyFilter, SegmentId, encode

FILE_BYTES = 16 << 20  # a larger filter has a file of its own


class FilterFiles:
    """The filter files of one log, as listed when this object was created."""

    def __init__(self, context: LogContext, listing: Sequence[str] | None = None) -> None:
        """``listing``: the names in the directory, ascending; None: list it."""
        self._context, self._filesystem = context, context.filesystem
        listing = self._filesystem.list(context.directory) if listing is None else listing
        named = [name for name in listing if file_names.KEY_FILTER in name]
        self.names = [name for name in named if name[file_names.OFFSET_DIGITS :] == file_names.KEY_FILTER]
        self.unfinished = [name for name in named if name.endswith(file_names.KEY_FILTER + file_names.TMP)]

    def path(self, name: str) -> str:
        return file_names.join(self._context.directory, name)

    def name_of(self, base_offset: int) -> str | None:
        """Returns the name of the file that may have the filter of a segment; None if there is no such file.

        On an object store, listings do not show these files; their names follow from those of their segments.
        """
        own = file_names.segment_file(base_offset, file_names.KEY_FILTER)
        at = bisect_right(self.names, own)
        if at:
            return self.names[at - 1]
        return own if isinstance(self._filesystem, MadeFileSystem) else None

    @contextmanager
    def opened(self, name: str | None) -> Iterator[FilterFile | None]:
        """A context with the open file of this name; None if there is none. Raises CorruptionError and OSError."""
        try:
            file = None if name is None else self._filesystem.open(self.path(name), "read")
        except FileNotFoundError:
            file = None
        if file is None:
            yield None
            return
        with file:
            yield FilterFile(file)

    def write(self, name: str, filters: Sequence[KeyFilter]) -> int:
        """Writes a file of a directory, and returns its bytes; a crash leaves the old or the new one."""
        data = encode(filters)
        write_atomically(self._filesystem, self.path(name), data)
        return len(data)

    def remove(self, names: Sequence[str]) -> None:
        """Removes files of a directory. Durable on return."""
        for name in names:
            self._filesystem.remove(self.path(name))
        if names:
            self._filesystem.sync_directory(self._context.directory)

    def drop_old(self) -> None:
        """Drops the filters of a directory that are damaged, or do not match the present segment. Durable on return.

        A file is written again without them, or removed; after a crash, it is the old or the new one.
        """
        for name in self.names:
            right, count = self._right_filters(name)
            if right and len(right) < count:
                self.write(name, right)
            elif not right:
                self.remove([name])
        self.remove(self.unfinished)

    def _right_filters(self, name: str) -> tuple[list[KeyFilter], int]:
        """Returns the valid filters of a file, and the number of all its filters."""
        right = list[KeyFilter]()
        try:
            with self.opened(name) as file:
                rows = range(0 if file is None else len(file))
                for row in rows:
                    assert file is not None
                    if file.segment(row) == self.segment_now(file.segment(row).base_offset):
                        with suppress(CorruptionError):
                            right.append(file.filter(row))
        except CorruptionError:
            return [], 0
        return right, len(rows)

    def segment_now(self, base_offset: int) -> SegmentId | None:
        """Returns the identity that a filter of the segment must have; None if there is no such segment."""
        log = file_names.segment_file(base_offset, file_names.LOG)
        status = self._filesystem.status(self.path(log))
        return None if status is None else SegmentId.of(base_offset, status)
