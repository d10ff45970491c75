"""Finds the end of a segment, and the position of an offset in it, by reading a few of its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .. import format as formats
from ..errors import CorruptionError, CorruptRecordError
from ..format import Scan
from ..format.constants import LOG_OVERHEAD

READ_BYTES = 1 << 20  # bytes per read; a larger batch takes a larger read

Read = Callable[[int, int], memoryview]  # takes position and length; returns exactly that many bytes


def end_after(path: str, read: Read, position: int, size: int, start_offset: int) -> int:
    """Returns the offset after the last batch of a ``.log`` of ``size`` bytes, walking from a batch at ``position`` on.

    An empty one ends at ``start_offset``. Raises CorruptRecordError, with ``path`` and the position, if the bytes do
    not end with a whole batch.
    """
    end = start_offset
    for _, found in scans(path, read, position, size):
        end = int(found.headers.next_offset)
    return end


def position_reaching(path: str, read: Read, position: int, size: int, offset: int) -> int:
    """Returns the position of the first batch that reaches ``offset``; ``size`` if none does.

    Walks from a batch at ``position`` on. Raises the errors of :func:`end_after`.
    """
    for at, found in scans(path, read, position, size):
        reaching = np.flatnonzero(found.headers.table["last_offset"] >= offset)
        if len(reaching):
            return at + int(found.headers.table["position"][reaching[0]])
    return size


def scans(path: str, read: Read, position: int, size: int) -> Iterator[tuple[int, Scan]]:
    """Yields positions with the batches found there, up to ``size``; a few at once."""
    wanted = READ_BYTES
    while position < size:
        data = np.frombuffer(read(position, min(wanted, size - position)), np.uint8)
        try:
            found = formats.scan(data)
        except CorruptionError as error:
            raise error.located(path, position) from None
        if len(found.headers):
            yield position, found
            position, wanted = position + found.end, READ_BYTES
            continue
        wanted = _size_of_next(path, data, found, position, size)


def _size_of_next(path: str, data: np.ndarray, found: Scan, position: int, size: int) -> int:
    """Returns how many bytes the batch at ``position`` has. Raises CorruptRecordError if they are not all there."""
    if found.reason != formats.StopReason.TRUNCATED or len(data) < LOG_OVERHEAD:
        raise formats.stop_error(found, data).located(path, position)
    length = int.from_bytes(data[8:LOG_OVERHEAD].tobytes(), "big", signed=True) + LOG_OVERHEAD
    if length <= len(data) or length > size - position:
        raise CorruptRecordError(
            f"the segment ends within a batch of {length} bytes, {size - position} bytes after it begins: restore the "
            "object from a copy",
            path=path,
            position=position,
        )
    return length
