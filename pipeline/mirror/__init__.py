"""Topics between a running Kafka and a log directory, both ways: docs/mirroring.md.

A task a partition, by whatever runs tasks. A mirror keeps no state but logs and committed offsets: see each direction.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Mirrored"]


@dataclass(frozen=True)
class Mirrored:
    """What became of a partition in one round."""

    topic: str
    partition: int
    first_offset: int = 0  # where this round began, in the log that is written
    next_offset: int = 0  # and where it ended
    error: str | None = None  # why it ended before all was there

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.topic}-{self.partition}: {self.error}"
        if self.first_offset == self.next_offset:
            return f"{self.topic}-{self.partition}: nothing new at offset {self.next_offset}"
        return f"{self.topic}-{self.partition}: offsets {self.first_offset} to {self.next_offset - 1}"
