"""The outcome of one round of a mirror."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mirrored:
    """The outcome of one round for a partition."""

    topic: str
    partition: int
    first_offset: int = 0  # where this round began, in the log it writes to
    next_offset: int = 0  # where this round ended, in the same log
    error: str | None = None  # why the partition is not up to date

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.topic}-{self.partition}: {self.error}"
        if self.first_offset == self.next_offset:
            return f"{self.topic}-{self.partition}: nothing new at offset {self.next_offset}"
        return f"{self.topic}-{self.partition}: offsets {self.first_offset} to {self.next_offset - 1}"
