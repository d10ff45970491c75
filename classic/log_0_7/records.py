"""Messages of 0.7 as records in columns: no key, no time, and the position of their entry as offset."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from ...storage.config import DECOMPRESSED_BYTES_MAX
from ...storage.format.constants import NO_TIMESTAMP, TimestampType
from ...storage.format.tables import BinaryColumn, Bytes, Int64s, Records
from ...storage.kernels import memory
from ...storage.kernels.arrays import frozen
from .entries import Entries, Part

TABLE_BYTES = 16 << 20  # limit of payloads in one table; a single compressed message may have more


def records_of(
    entries: Entries, position: int, columns: Collection[str], limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Records]:
    """Yields the messages in ``entries`` as records, those in a compressed message with the position of that message.

    ``position``: that of the entries' buffer in the log. ``columns``: ``key`` and ``value`` are built if they are
    named. ``limit``: bytes that one compressed message may hold. Raises InvalidRecordError, with its position in the
    buffer, for a compressed message that cannot be read, after the records before it.
    """
    parts: list[Part] = []
    offsets: list[Int64s] = []
    size = 0
    pieces = entries.pieces(limit)
    while True:
        try:
            rows, found = next(pieces)
        except StopIteration:
            break
        except Exception:
            yield from _tables(parts, offsets, columns)
            raise
        for part in found:
            starts = entries.positions[rows] + position
            offsets.append(starts if len(starts) == len(part.starts) else np.full(len(part.starts), starts[0]))
        parts += found
        size += sum(int((part.stops - part.starts).sum()) for part in found)
        if size > TABLE_BYTES:
            yield from _tables(parts, offsets, columns)
            parts, offsets, size = [], [], 0
    yield from _tables(parts, offsets, columns)


def _tables(parts: list[Part], offsets: list[Int64s], columns: Collection[str]) -> Iterator[Records]:
    count = sum(len(part.starts) for part in parts)
    if not count:
        return
    yield Records(
        offsets=np.concatenate(offsets),
        timestamps=np.full(count, NO_TIMESTAMP, dtype=np.int64),
        timestamp_types=np.full(count, TimestampType.NO_TIMESTAMP_TYPE, dtype=np.int8),
        keys=_nulls(count) if "key" in columns else None,
        values=_payloads(parts) if "value" in columns else None,
        headers=None,
    )


def _nulls(count: int) -> BinaryColumn:
    return BinaryColumn(
        np.empty(0, dtype=np.uint8), np.zeros(count + 1, dtype=np.int32), np.zeros(count, dtype=np.bool_)
    )


def _payloads(parts: list[Part]) -> BinaryColumn:
    sizes = np.concatenate([part.stops - part.starts for part in parts])
    ends = np.concatenate(([0], np.cumsum(sizes)))
    data: Bytes = np.empty(int(ends[-1]), dtype=np.uint8)
    to = 0
    for part in parts:
        to = memory.gather(frozen(part.buffer), frozen(part.starts), frozen(part.stops), data, to)
    return BinaryColumn(data, ends.astype(np.int32), None)
