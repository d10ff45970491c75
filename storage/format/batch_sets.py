"""BatchSet: the batches, or message sets of magic 0 and 1, in bytes of a log or of an answer to a fetch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import format as formats
from ..config import DECOMPRESSED_BYTES_MAX
from .constants import Codec
from .tables import BatchHeaders, Bools, Bytes, Records

PIECE_BYTES = 1 << 20  # of plain messages decoded together, unless one is larger
_PLAIN_BELOW = 2  # the first magic whose batches have several records without being compressed


@dataclass(frozen=True)
class BatchSet:
    """The whole batches at the beginning of a buffer. A message of magic 0 or 1 counts as a batch."""

    buffer: Bytes
    headers: BatchHeaders
    stop: int  # position after the last one
    reason: formats.StopReason  # why they stop there

    @classmethod
    def of(cls, data: bytes | bytearray | memoryview) -> BatchSet:
        """Finds the batches by their lengths, without a copy; checks no checksum."""
        buffer = np.frombuffer(data, dtype=np.uint8)
        headers, stop, reason = formats.scan(buffer)
        return cls(buffer, headers, stop, reason)

    @property
    def is_cut(self) -> bool:
        """Whether the buffer ends within a batch."""
        return self.reason == formats.StopReason.TRUNCATED

    def check_stop(self) -> None:
        """Raises CorruptRecordError, with its position, unless the buffer ends after or within a batch."""
        if self.reason not in (formats.StopReason.END, formats.StopReason.TRUNCATED):
            raise formats.stop_error(formats.Scan(self.headers, self.stop, self.reason), self.buffer)

    def pieces(self) -> Iterator[slice]:
        """Yields rows to decode together: a run of plain messages of magic 0 and 1, or one batch."""
        is_plain = (self.headers.table["magic"] < _PLAIN_BELOW) & (self.headers.codec == Codec.NONE)
        ends = self.headers.table["position"] + self.headers.table["size"]
        first = 0
        while first < len(self.headers):
            last = first + 1
            if is_plain[first]:
                room = int(self.headers.table["position"][first]) + PIECE_BYTES
                stops = np.flatnonzero(~is_plain[first:] | (ends[first:] > room))
                last = max(last, first + int(stops[0]) if len(stops) else len(self.headers))
            yield slice(first, last)
            first = last

    def decode(self, rows: slice, limit: int = DECOMPRESSED_BYTES_MAX) -> Records:
        """Returns the records of some batches, control records too.

        ``limit``: bytes that one batch may decompress to. Raises CorruptRecordError for a wrong checksum and
        InvalidRecordError, both with the position of the batch.
        """
        return formats.decode(self.buffer, self.headers[rows], decompressed_bytes_max=limit).records

    def are_sound(self, rows: slice) -> Bools:
        """Whether each of some batches has the checksum in its header; shape (batches,)."""
        return formats.checksums_match(self.buffer, self.headers[rows])
