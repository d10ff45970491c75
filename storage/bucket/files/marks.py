"""StateMarks: the marks of one partition as commits have them, without the files that show those of all partitions."""

from __future__ import annotations

from typing import NoReturn

from ...reading import Marks
from ...segment import Holes
from ..commit_log import CommitLog
from .layout import has_holes
from .open_files import ReadOnlyError


class StateMarks:
    """The marks of a partition, which readers need: see ``reading.Checkpoints``. They change with commits only."""

    def __init__(self, log: CommitLog, topic_id: str, partition: int) -> None:
        self._log, self._key = log, (topic_id, partition)

    def read(self) -> Marks:
        """Returns the marks; those of an empty partition if it was deleted."""
        with self._log.reading() as state:
            found = state.partitions.get(self._key)
            return Marks(0) if found is None else Marks(found.end, found.log_start)

    def holes(self) -> Holes:
        with self._log.reading() as state:
            found = state.partitions.get(self._key)
            is_compacted = found is not None and (found.clean_end is not None or has_holes(found.segments))
            return Holes.ANYWHERE if is_compacted else Holes.NOWHERE

    def remote_below(self, first_offset: int) -> None:
        """Returns None: all records are in objects of the log's own."""

    def write(self, marks: Marks) -> NoReturn:
        raise ReadOnlyError(self._log.store.url)

    def sync(self) -> NoReturn:
        raise ReadOnlyError(self._log.store.url)

    def note_holes(self) -> NoReturn:
        raise ReadOnlyError(self._log.store.url)
