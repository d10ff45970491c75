"""Makes the filter of a segment, by reading the keys of all of its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ..errors import CorruptionError, InvalidRecordError
from ..format import record_columns, v2
from ..format.tables import Int64s
from ..kernels import records
from ..kernels.arrays import frozen
from ..kernels.finding import key_filter as kernel
from ..segment.reader import SegmentReader
from ..segment.walk import Window
from .filter_file import KEYS_MAX, KeyFilter, SegmentId

MERGED_AT = 1 << 22  # at least this many hashes are collected before repetitions are dropped


def make_filter(segment: SegmentReader) -> KeyFilter | None:
    """Returns the filter of a closed segment; None if it has more than KEYS_MAX keys or was replaced in the meantime.

    Covers the keys of all records, even of aborted transactions. Raises CorruptionError for a damaged segment, which
    gets no filter, and SegmentRemovedError.
    """
    before = segment_id(segment)
    known, fresh, count = np.empty(0, dtype=np.uint64), list[kernel.Uint64s](), 0
    next_offset = segment.base_offset
    for hashes, next_offset in key_hashes(segment):  # noqa: B007  the last one counts
        fresh.append(hashes)
        count += len(hashes)
        if count >= max(MERGED_AT, len(known) // 2):
            known, fresh, count = _distinct([known, *fresh]), [], 0
            if len(known) > KEYS_MAX:
                return None
    known = _distinct([known, *fresh])
    if len(known) > KEYS_MAX or segment_id(segment) != before:
        return None
    return KeyFilter.of(before, known, next_offset)


def _distinct(hashes: Sequence[kernel.Uint64s]) -> kernel.Uint64s:
    """Returns the hashes without repetitions; numpy's ``unique`` takes four times as long."""
    found = np.sort(np.concatenate(hashes))
    is_first = np.ones(len(found), dtype=np.bool_)
    np.not_equal(found[1:], found[:-1], out=is_first[1:])
    return found[is_first]


def segment_id(segment: SegmentReader) -> SegmentId:
    """Returns the identity that a filter of the segment must have. Raises SegmentRemovedError."""
    return SegmentId.of(segment.base_offset, segment.status())


def key_hashes(segment: SegmentReader) -> Iterator[tuple[kernel.Uint64s, int]]:
    """Yields the hashes of the keys of some records, and the offset after their batches. Raises CorruptionError."""
    for window in segment.batches():
        headers = window.headers
        is_new = headers.table["magic"] >= v2.MAGIC
        for rows in (np.flatnonzero(is_new & ~headers.is_control), np.flatnonzero(~is_new)):
            if len(rows):
                for hashes in record_columns.in_halves(partial(_hashes, segment, window), rows):
                    yield hashes, headers.next_offset
        yield np.empty(0, dtype=np.uint64), headers.next_offset


def _hashes(segment: SegmentReader, window: Window, rows: Int64s) -> kernel.Uint64s:
    """Returns the hashes of the keys in some batches, all of magic 2 or none."""
    if window.headers.table["magic"][rows[0]] < v2.MAGIC:
        keys = segment.decode(window, rows, ("key",)).records.keys
        assert keys is not None  # asked for
        return kernel.hashes_of(keys)
    try:
        return _hashes_in(v2.parts(window.buffer, window.headers[rows], segment.context.config.max_decompressed_bytes))
    except CorruptionError as error:
        raise error.located(segment.shown_path, window.position) from error


def _hashes_in(parts: Sequence[record_columns.Part]) -> kernel.Uint64s:
    """Returns the hashes of the keys in batches of magic 2."""
    hashes = np.empty(sum(map(record_columns.rows_at_most, parts)) + 1, dtype=np.uint64)
    state = np.zeros(records.STATE_CELLS, dtype=np.int64)
    for part in parts:
        done, why = kernel.read_hashes(frozen(part.source), part.table, kernel.SECRET, hashes, state)
        if why != records.FINE:
            reason = record_columns.describe(why, int(state[records.FAILED_RECORD]))
            raise InvalidRecordError(reason, position=int(part.positions[done]))
    return hashes[: state[records.ROWS]]
