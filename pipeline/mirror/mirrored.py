"""The outcome of one round of a mirror for a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ...storage import LogStoreError
from ..job.frames import failure_code


@dataclass(frozen=True)
class Mirrored:
    """The offsets that one round of a mirror wrote to a partition, or the error that ended it."""

    topic: str
    partition: int
    first_offset: int = 0  # the offset of the first record that this round wrote, in the target log
    next_offset: int = 0  # the offset after the last record that this round wrote, in the target log
    error: str | None = None  # why the partition is not up to date
    exit_code: int = 0  # the exit code of a job that ends with this outcome

    @classmethod
    def failed(cls, topic: str, partition: int, error: LogStoreError) -> Self:
        """Returns the outcome of a partition that ``error`` ended."""
        return cls(topic, partition, error=str(error), exit_code=failure_code(error))

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.topic}-{self.partition}: {self.error}"
        if self.first_offset == self.next_offset:
            return f"{self.topic}-{self.partition}: nothing new at offset {self.next_offset}"
        return f"{self.topic}-{self.partition}: offsets {self.first_offset} to {self.next_offset - 1}"
