"""StateMarks: the marks of a partition as of the moment at which a reader's files were pinned."""

from __future__ import annotations

from typing import NoReturn

from ...reading.marks import Marks
from ...segment.joining import Holes
from .open_files import ReadOnlyError
from .pinned import PinnedFiles


class StateMarks:
    """The marks of a partition, which readers need: see ``reading.Checkpoints``. They are those of the pinned files.

    With the log end of a later commit, sound files would look as if their end were lost.
    """

    def __init__(self, files: PinnedFiles) -> None:
        self._files = files

    def read(self) -> Marks:
        """Returns the marks; those of an empty partition if it was deleted."""
        found = self._files.pinned
        return Marks(0) if found is None else Marks(found.end, found.log_start)

    def holes(self) -> Holes:
        found = self._files.pinned
        return Holes.ANYWHERE if found is not None and found.is_compacted else Holes.NOWHERE

    def notes_start(self) -> bool:
        return True

    def remote_below(self, first_offset: int) -> None:
        """Returns None: all records are in objects of the log's own."""

    def write(self, marks: Marks) -> NoReturn:
        raise ReadOnlyError(self._files.root)

    def sync(self) -> NoReturn:
        raise ReadOnlyError(self._files.root)

    def note_holes(self) -> NoReturn:
        raise ReadOnlyError(self._files.root)

    def note_start(self, log_start_offset: int) -> NoReturn:
        raise ReadOnlyError(self._files.root)
