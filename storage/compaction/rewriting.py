"""Writes windows of batches again with fewer records (Kafka's MemoryRecords.filterTo).

The caller decides the fate of each batch. A batch that loses nothing is copied as it is; one that
loses some records is rebuilt with the rest; one that loses all of them keeps its header, or disappears.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import format as formats
from ..errors import CorruptionError, CorruptRecordError
from ..format import compaction_view, v2
from ..format.compaction_view import Keyed, Rebuilt, Uint64s, Wanted
from ..format.files import file_names
from ..format.tables import BatchHeaders, Bools, Bytes, Int64s
from ..segment.walk import Rows, Window
from ..segment.writer import LogSegment

# Decompressed records are held in memory, so compressed batches are processed in smaller portions.
_EXPECTED_RATIO = 4


class Fate(IntEnum):
    """The fate of a batch."""

    GONE = 0
    COPIED = 1
    REBUILT = 2
    EMPTIED = 3  # keeps its header only


class Verdict(NamedTuple):
    """The decision on a window: the fate of its batches, and the records to keep."""

    fates: npt.NDArray[np.int8]  # shape (batches,)
    horizons: Int64s  # shape (batches,)
    kept: Bools  # shape (records,)
    survivors: Int64s  # shape (batches,): records kept


def count_in(counts: Int64s, flags: Bools) -> Int64s:
    """Returns how many flags are set per batch; ``counts``, shape (batches,), is the number of flags of each batch."""
    before = np.concatenate(([0], np.cumsum(flags)))
    stops = np.cumsum(counts)
    found: Int64s = before[stops] - before[stops - counts]
    return found


@contextmanager
def _locating(segment: LogSegment, window: Window) -> Iterator[None]:
    """A context that adds path and position to CorruptionErrors."""
    try:
        yield
    except CorruptionError as error:
        raise error.located(segment.path(file_names.LOG), window.position) from error


def verify(segment: LogSegment, window: Window, rows: Rows) -> None:
    """Raises CorruptRecordError, with path and position, if the checksum of a batch in ``rows`` is wrong."""
    with _locating(segment, window):
        formats.verify(window.buffer, window.headers[rows])


def read_keys(segment: LogSegment, window: Window, rows: Rows, secret: Uint64s | None) -> Keyed:
    """Returns the records of the batches ``rows``, all of magic 2 or none. Raises CorruptionError with path."""
    with _locating(segment, window):
        limit = segment.context.config.max_decompressed_bytes
        return compaction_view.read(window.buffer, window.headers[rows], secret, limit)


def to_its_end(segment: LogSegment, windows: Iterator[Window]) -> Iterator[Window]:
    """Yields ``windows``, up to the end of a closed segment; raises CorruptRecordError if batches are missing there.

    The segment's index shows that they are missing; after a rewrite, nothing would.
    """
    window = None
    for window in windows:
        yield window
    lost = None if window is None else segment.lost_end(window.headers.next_offset)
    if lost is not None:
        what = f"{lost}. Restore the log; or, if the log is right, rebuild its index"
        raise CorruptRecordError(what, path=segment.path(file_names.LOG), position=segment.size)


def parts_of(window: Window, is_read: Bools) -> Iterator[slice]:
    """Divides a window into parts, each of one format and with records that need about a window's memory.

    ``is_read``, shape (batches,), marks the batches whose records are read.
    """
    headers = window.headers
    weights = headers.table["size"] * np.where(headers.codec != 0, _EXPECTED_RATIO, 1) * is_read
    part_of = (np.cumsum(weights) - weights) // len(window.buffer)
    breaks = (np.diff(part_of) != 0) | np.diff(headers.table["magic"] >= v2.MAGIC)
    bounds = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(headers)]
    return (slice(first, last) for first, last in pairwise(bounds))


def written(buffer: Bytes, headers: BatchHeaders, verdict: Verdict, records: Keyed, read_rows: Int64s) -> list[Bytes]:
    """Returns the bytes of the remaining batches, in order and in few pieces: neighbours in a buffer form one piece.

    ``records`` are those of the batches ``read_rows``.
    """
    table, fates = headers.table, verdict.fates
    starts, sizes = table["position"].copy(), table["size"].copy()
    sources: dict[int, Bytes] = {Fate.COPIED: buffer}
    emptied, rebuilt = np.flatnonzero(fates == Fate.EMPTIED), np.flatnonzero(fates == Fate.REBUILT)
    if len(emptied):
        sources[Fate.EMPTIED] = np.concatenate([v2.empty_batch(headers[row : row + 1]) for row in emptied.tolist()])
        sizes[emptied] = v2.LAYOUT.itemsize
        starts[emptied] = np.arange(len(emptied)) * v2.LAYOUT.itemsize
    if len(rebuilt):
        sources[Fate.REBUILT], sizes[rebuilt] = _rebuilt(headers, records, read_rows, verdict, rebuilt)
        starts[rebuilt] = np.cumsum(sizes[rebuilt]) - sizes[rebuilt]
    kept = np.flatnonzero(fates)
    breaks = (np.diff(fates[kept]) != 0) | (starts[kept][1:] != (starts + sizes)[kept][:-1])
    bounds = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(kept)] if len(kept) else [0]
    runs = ((kept[first], kept[last - 1]) for first, last in pairwise(bounds))
    return [sources[int(fates[first])][starts[first] : starts[last] + sizes[last]] for first, last in runs]


def _rebuilt(headers: BatchHeaders, records: Keyed, read_rows: Int64s, verdict: Verdict, rows: Int64s) -> Rebuilt:
    """Returns the batches ``rows`` with only the kept records; ``records`` are those of the batches ``read_rows``."""
    is_row = np.zeros(len(headers), dtype=np.bool_)
    is_row[rows] = True
    kept = np.flatnonzero(verdict.kept & np.repeat(is_row[read_rows], records.counts))
    at = np.searchsorted(read_rows, rows)
    return records.rebuild(Wanted(at, kept, verdict.survivors[rows], headers[rows], verdict.horizons[rows]))
