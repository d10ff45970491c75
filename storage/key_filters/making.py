"""Makes the filter of a segment, by reading the keys of all of its records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..kernels.finding import key_filter as kernel
from ..segment.reader import SegmentReader
from .filter_file import KEYS_MAX, KeyFilter
from .reading import segment_id

MERGED_AT = 1 << 20  # hashes that are collected before those that occur twice are dropped


def make_filter(segment: SegmentReader) -> KeyFilter | None:
    """Returns the filter of a closed segment; None if it has more than KEYS_MAX keys or was replaced in the meantime.

    Has the keys of all records, also of aborted transactions. Raises CorruptionError for a damaged segment, which gets
    no filter, and SegmentRemovedError.
    """
    before = segment_id(segment)
    known, fresh, count = np.empty(0, dtype=np.uint64), list[kernel.Uint64s](), 0
    next_offset = segment.base_offset
    for hashes, next_offset in key_hashes(segment):  # noqa: B007  the last one counts
        fresh.append(hashes)
        count += len(hashes)
        if count >= MERGED_AT:
            known, fresh, count = np.unique(np.concatenate([known, *fresh])), [], 0
            if len(known) > KEYS_MAX:
                return None
    known = np.unique(np.concatenate([known, *fresh]))
    if len(known) > KEYS_MAX or segment_id(segment) != before:
        return None
    return KeyFilter.of(before, known, next_offset)


def key_hashes(segment: SegmentReader) -> Iterator[tuple[kernel.Uint64s, int]]:
    """Yields the hashes of the keys of some records, and the offset behind their batches. Raises CorruptionError."""
    for window in segment.batches():
        rows = np.flatnonzero(~window.headers.is_control)
        keys = segment.decode(window, rows, ("key",)).records.keys
        assert keys is not None  # asked for
        yield kernel.hashes_of(keys), window.headers.next_offset
