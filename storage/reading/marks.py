"""Marks: the checkpoint entries of a partition, which a log reads when it is opened and writes when it is closed.

A log directory stores them in files at its root (``directory.RootCheckpoints``), a standalone log in memory.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..segment.joining import Holes

UNFINISHED_COPY = (  # the holes of a partition that has only a directory with another name
    "the copy of this partition to here is not finished: run the same commitlog copy again (or upgrade, if that made "
    "it), which goes on with it, or delete the topic"
)


class Marks(NamedTuple):
    """The entries of one partition in the checkpoints at the root of a log directory."""

    recovery_point: int | None = None  # everything below was synced; None: unknown
    log_start_offset: int = 0  # everything below is deleted
    was_closed_cleanly: bool = False  # by a broker, with no write since: the log ends at the recovery point


class Checkpoints(Protocol):
    """Reads and writes the marks of one log."""

    def read(self) -> Marks: ...

    def write(self, marks: Marks) -> None:
        """Replaces the marks; durable on return."""
        ...

    def sync(self) -> None:
        """Syncs the marks that :meth:`read` returned: their writer may have been killed before it did."""
        ...

    def holes(self) -> Holes:
        """Returns where offsets may be missing in the log, because of compaction or because it was filled with gaps."""
        ...

    def note_holes(self) -> None:
        """Records that offsets may be missing anywhere in the log; durable on return."""
        ...

    def note_start(self, log_start_offset: int) -> None:
        """Records where the log begins, even at 0, because its first segments move to a tier; durable on return."""
        ...

    def notes_start(self) -> bool:
        """Whether there is an entry for the log start; without one, no records were moved to a tier."""
        ...

    def remote_below(self, first_offset: int) -> range | None:
        """Returns the offsets below the first segment that only a broker's remote storage has; None: none."""
        ...


def remote_text(offsets: range) -> str:
    """Returns offsets as text: ``offsets 0 to 617 are only in the broker's remote storage, which is not read``.

    They are not read without the address of the tier: see :mod:`tiers.address`.
    """
    return f"offsets {offsets[0]} to {offsets[-1]} are only in the broker's remote storage, which is not read"


class KeptInMemory:
    """The marks of a standalone log, which is in no log directory; lost when the process ends."""

    def __init__(
        self, recovery_point: int | None = 0, log_start_offset: int = 0, holes: Holes = Holes.INSIDE_SEGMENTS
    ) -> None:
        self._marks = Marks(recovery_point, log_start_offset)
        self._holes = holes

    def read(self) -> Marks:
        return self._marks

    def write(self, marks: Marks) -> None:
        self._marks = marks

    def sync(self) -> None:
        pass

    def holes(self) -> Holes:
        return self._holes

    def note_holes(self) -> None:
        self._holes = Holes.ANYWHERE

    def note_start(self, log_start_offset: int) -> None:
        self._marks = self._marks._replace(log_start_offset=log_start_offset)

    def notes_start(self) -> bool:
        return self._marks.log_start_offset > 0

    def remote_below(self, first_offset: int) -> None:
        """Returns None: no broker is known."""
