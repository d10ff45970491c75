"""The indexes of a piece, made from the headers of its batches as a broker makes them while it appends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import format as formats
from ..errors import CorruptIndexError
from ..filesystem import read_file
from ..format.constants import NO_TIMESTAMP
from ..format.files import file_names as names
from ..format.files.index_entries import (
    decode_aborted,
    encode_aborted,
    encode_offset_entries,
    encode_time_entries,
)
from ..format.tables import Int64s
from ..segment import LogSegment, TimestampOffset, running_largest

INDEX_BYTES_MAX = 64 << 20


def indexes_of(data: bytes, base: int, interval_bytes: int) -> dict[str, bytes]:
    """Returns ``.index`` and ``.timeindex`` of a segment, by suffix; an entry about every ``interval_bytes``."""
    headers = formats.scan(np.frombuffer(data, np.uint8)).headers
    positions = headers.table["position"].astype(np.int64)
    rows = np.fromiter(_indexed(positions, interval_bytes), np.int64)
    newest, reached = running_largest(TimestampOffset(NO_TIMESTAMP, base), headers)
    timed = np.unique(np.append(rows, len(headers) - 1))
    timed = timed[np.diff(newest[timed], prepend=NO_TIMESTAMP) > 0]
    return {
        names.INDEX: encode_offset_entries(base, headers.table["last_offset"][rows].astype(np.int64), positions[rows]),
        names.TIME_INDEX: encode_time_entries(base, newest[timed], reached[timed]),
    }


def _indexed(positions: Int64s, interval_bytes: int) -> Iterator[int]:
    """Yields the batches that get an entry: each begins more than an interval behind the one before it."""
    row = int(np.searchsorted(positions, interval_bytes, side="right"))
    while row < len(positions):
        yield row
        row = int(np.searchsorted(positions, positions[row] + interval_bytes, side="right"))


def aborted_in(segment: LogSegment, base: int, end: int) -> dict[str, bytes]:
    """Returns a ``.txnindex`` with the entries of a segment between two offsets, by suffix; nothing if it has none.

    No reader relies on it, so a damaged one is left out.
    """
    try:
        data = read_file(segment.context.filesystem, segment.path(names.TXN_INDEX), INDEX_BYTES_MAX)
        found = [each for each in decode_aborted(data) if base <= each.last_offset < end]
    except (FileNotFoundError, CorruptIndexError):
        return {}
    return {names.TXN_INDEX: encode_aborted(found)} if found else {}
