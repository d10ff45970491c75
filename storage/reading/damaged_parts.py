"""DamagedPart: a part that a read around damage leaves out, in batches, bytes and offsets."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import CorruptionError
from .aborted import Isolation
from .damaged import salvaged_records
from .reader import LogReader


class DamagedPart(NamedTuple):
    """A damaged batch, or bytes in which batches cannot be separated."""

    path: str | None
    position: int | None  # in the file
    size: int  # in bytes; 0 if a file is missing
    offsets: range  # of several adjacent parts, the first one has the offsets of all

    @classmethod
    def of(cls, error: CorruptionError) -> DamagedPart:
        first, last = error.skipped_offsets or (0, -1)
        return cls(error.path, error.position, error.skipped_bytes, range(first, last + 1))

    def with_part(self, other: DamagedPart) -> DamagedPart:
        """Returns this with the offsets of another read, which begins where one ended inside the same batch."""
        if not self.offsets or not other.offsets:
            return self if self.offsets else other
        first, last = min(self.offsets[0], other.offsets[0]), max(self.offsets[-1], other.offsets[-1])
        return self._replace(offsets=range(first, last + 1))


def damaged_parts(
    reader: LogReader, start: int, end: int, *, isolation: Isolation = Isolation.READ_COMMITTED
) -> list[DamagedPart]:
    """Returns the parts that ``salvaged_records`` skips between two offsets, in order; decodes everything there.

    Lost first segments count too, from ``start`` on.
    """
    found: list[CorruptionError] = []
    first = reader.log_start_offset
    for _ in salvaged_records(reader, max(start, first), end, found.append, isolation=isolation):
        pass
    lost, parts = reader.lost_start(), [DamagedPart.of(error) for error in found]
    if lost is None or start >= min(first, end):
        return parts
    return [DamagedPart.of(lost)._replace(offsets=range(max(start, reader.earliest_offset), first)), *parts]
