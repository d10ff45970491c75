"""Skipped: what a read around damage leaves out, in batches, bytes and offsets."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import CorruptionError
from .aborted import Isolation
from .damaged import salvaged_records
from .reader import LogReader


class Skipped(NamedTuple):
    """A damaged batch, or bytes in which no batch can be told from the next."""

    path: str | None
    position: int | None  # in the file
    size: int  # in bytes; 0 if a file is missing
    offsets: range  # of several in a row, the first one has those of all

    @classmethod
    def of(cls, error: CorruptionError) -> Skipped:
        first, last = error.skipped_offsets or (0, -1)
        return cls(error.path, error.position, error.skipped_bytes, range(first, last + 1))

    def with_part(self, other: Skipped) -> Skipped:
        """Returns this with the offsets of another read, which begins where one ended inside the same batch."""
        if not self.offsets or not other.offsets:
            return self if self.offsets else other
        first, last = min(self.offsets[0], other.offsets[0]), max(self.offsets[-1], other.offsets[-1])
        return self._replace(offsets=range(first, last + 1))


def skipped_parts(
    reader: LogReader, start: int, end: int, *, isolation: Isolation = Isolation.READ_COMMITTED
) -> list[Skipped]:
    """Returns what ``salvaged_records`` skips between two offsets, in order; reads and decodes all that is there."""
    found: list[CorruptionError] = []
    for _ in salvaged_records(reader, start, end, found.append, isolation=isolation):
        pass
    return [Skipped.of(error) for error in found]
