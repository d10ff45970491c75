"""The checkpoint entries of a partition, and where a log keeps its own.

A log directory keeps them in files at its root (:class:`LogManager`), a standalone log in memory.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..segment import Holes


class Marks(NamedTuple):
    """The entries of a partition in the checkpoints at the root of a log directory."""

    recovery_point: int | None = None  # everything below was synced; None: unknown
    log_start_offset: int = 0  # everything below is deleted
    was_closed_cleanly: bool = False  # by a broker, and nothing was written since: the log ends at the recovery point


class Checkpoints(Protocol):
    """Where the marks of a log are kept."""

    def read(self) -> Marks: ...

    def write(self, marks: Marks) -> None:
        """Durable when this returns."""
        ...

    def sync(self) -> None:
        """Make what :meth:`read` returned durable: its writer may have been killed before it was."""
        ...

    def holes(self) -> Holes:
        """Where offsets may be missing in the log: it was compacted, or filled with gaps, or this is unknown."""
        ...

    def note_holes(self) -> None:
        """Record that offsets may be missing; durable when this returns."""
        ...


class KeptInMemory:
    """Marks of a standalone log, without a log directory around it."""

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
