"""Finds the next sound batch after damage.

After a damaged batch, the start of the next one is unknown, because no checksum covers the length field. Therefore each
byte is tried: if magic, length and offset look like a batch of the segment, its checksum is computed.
"""

from __future__ import annotations

import numpy as np

from .. import format as formats
from ..filesystem.port import File
from ..format import v2
from ..format.constants import HEADER_UP_TO_MAGIC, INT32_MAX, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT
from ..format.tables import BatchHeaders, Bytes, Int64s

BATCH_BYTES_MIN = LOG_OVERHEAD + 14  # the smallest message of magic 0
SEARCH_BYTES = 1 << 20
SEARCHED_BATCH_BYTES_MAX = 1 << 28  # larger batches are not found, so that a length read from garbage costs no memory


class Search:
    """Finds sound batches of one segment in the first ``end`` bytes of its log."""

    def __init__(self, file: File, base_offset: int, end: int) -> None:
        self._file = file
        self._base_offset = base_offset
        self._end = end

    def next_sound(self, start: int) -> int | None:
        """The position of the first sound batch from ``start`` on; None if there is none."""
        end = self.end_of_data(start)
        while start < end and start + BATCH_BYTES_MIN <= self._end:
            buffer = self._bytes(start, min(SEARCH_BYTES, self._end - start))
            for candidate in self._candidates(buffer, start):
                if self.is_sound_at(start + int(candidate)):
                    return start + int(candidate)
            start += max(len(buffer) - HEADER_UP_TO_MAGIC, 1)
        return None

    def end_of_data(self, start: int) -> int:
        """The position after the last nonzero byte from ``start`` on; ``start`` if all are zero."""
        end = self._end
        while end > start:
            first = max(end - SEARCH_BYTES, start)
            rest = self._bytes(first, end - first)
            if rest.any():
                return first + int(np.flatnonzero(rest)[-1]) + 1
            end = first
        return start

    def is_sound_at(self, position: int) -> bool:
        """Whether a batch with a correct checksum, and an offset that the segment can hold, begins there."""
        return self.sound_at(position) is not None

    def sound_at(self, position: int) -> BatchHeaders | None:
        """The header of the sound batch that begins at ``position``, one row; None if there is no such batch."""
        head = self._bytes(position, min(HEADER_UP_TO_MAGIC + 1, self._end - position))
        if len(head) <= HEADER_UP_TO_MAGIC or not 0 <= _number_at(head, 0, 8) - self._base_offset <= INT32_MAX:
            return None
        size = length_at(head, 0) + LOG_OVERHEAD
        if not BATCH_BYTES_MIN <= size <= self._end - position:
            return None
        return one_sound_batch(self._bytes(position, size))

    def _candidates(self, buffer: Bytes, start: int) -> Int64s:
        """Positions in the buffer where magic, length and offset look like a batch of this segment."""
        count = max(len(buffer) - MAGIC_AT, 0)
        is_candidate = buffer[MAGIC_AT:] <= v2.MAGIC
        is_candidate &= buffer[LENGTH_AT : LENGTH_AT + count] <= SEARCHED_BATCH_BYTES_MAX >> 24
        is_candidate &= buffer[:count] < 0x80
        low = buffer[LENGTH_AT + 1 : LENGTH_AT + 1 + count] | buffer[LENGTH_AT + 2 : LENGTH_AT + 2 + count]
        is_candidate &= (low | buffer[LENGTH_AT + 3 : LENGTH_AT + 3 + count]) > 0  # no batch in a run of zeros
        positions: Int64s = np.flatnonzero(is_candidate)
        lengths = _numbers(buffer, positions + LENGTH_AT, 4)
        lengths_max = np.minimum(self._end - start - positions, SEARCHED_BATCH_BYTES_MAX) - LOG_OVERHEAD
        positions = positions[(lengths >= BATCH_BYTES_MIN - LOG_OVERHEAD) & (lengths <= lengths_max)]
        offsets = _numbers(buffer, positions, 8) - self._base_offset
        return positions[(offsets >= 0) & (offsets <= INT32_MAX)]

    def _bytes(self, position: int, length: int) -> Bytes:
        return np.frombuffer(self._file.read(position, length), dtype=np.uint8)


def one_sound_batch(buffer: Bytes) -> BatchHeaders | None:
    """Returns the header if the bytes are exactly one batch with a correct checksum; None otherwise."""
    headers = formats.scan(buffer).headers
    is_one = len(headers) == 1 and headers.end == len(buffer)
    return headers if is_one and formats.checksums_match(buffer, headers)[0] else None


def length_at(buffer: Bytes, position: int) -> int:
    """The length field of the batch at ``position``: its size less 12 bytes.

    Returns 0 if the buffer ends before the field does.
    """
    return _number_at(buffer, position + LENGTH_AT, 4) if len(buffer) >= position + LOG_OVERHEAD else 0


def _number_at(buffer: Bytes, at: int, size: int) -> int:
    return int.from_bytes(buffer[at : at + size].tobytes(), "big", signed=True)


def _numbers(buffer: Bytes, positions: Int64s, size: int) -> Int64s:
    """Big-endian signed numbers of 4 or 8 bytes at ``positions``; shape (len(positions),)."""
    if not len(positions):
        return np.empty(0, dtype=np.int64)
    rows = buffer[positions[:, np.newaxis] + np.arange(size)]
    return np.ascontiguousarray(rows).view(f">i{size}").reshape(-1).astype(np.int64)
