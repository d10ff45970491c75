"""FileSlice: the position of batches in a file, so that a server can send them without reading them (sendfile)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from .. import format as formats
from ..errors import CorruptionError
from ..format import StopReason, v2
from ..format.constants import MAGIC_AT
from ..format.tables import Bools, Bytes
from ..recovery.producer_state import Marker
from ..recovery.segment_recovery import read_markers
from ..segment.joining import size_at_start
from ..segment.reader import SegmentReader
from ..segment.walk import PROBE_BYTES, Window
from ..segment.writer import LogSegment
from .aborted import AbortedTransaction, aborted_runs


class FileSlice(NamedTuple):
    """Whole batches in an open file: ``length`` bytes from ``position`` on. Any thread calls ``release``, once."""

    descriptor: int
    position: int
    length: int
    aborted: tuple[AbortedTransaction, ...]  # for readers of committed records, in offset order
    release: Callable[[], None]
    is_cut: bool  # the limit of bytes, or the end of the file, keeps more batches out of it


class End(NamedTuple):
    """The end of a batch: the position after it, and the offset after it if that is known."""

    position: int
    next_offset: int | None = None


def whole_end(segment: SegmentReader, start: int, end: int, max_bytes: int, *, min_one: bool = True) -> End:
    """Returns where the last batch ends that is whole within ``max_bytes`` from position ``start`` on.

    A batch begins at ``start``, and one ends at ``end``, the largest possible result. ``min_one``: the first
    batch counts as a whole, however large it is; otherwise the result may be ``start``. Checks lengths only, and reads
    some headers before the limit: the time hardly depends on ``max_bytes``. Stops before a header that cannot be right.
    """
    if end - start <= max_bytes:
        return End(end)
    limit = start + max_bytes
    found = _indexed_below(segment, limit, start)
    while found.position < limit and (after := _after_batches(segment, found.position, limit)) is not None:
        found = after
    if found.position == start and min_one:
        buffer = np.frombuffer(segment.read_bytes(start, v2.LAYOUT.itemsize), dtype=np.uint8)
        return End(min(start + size_at_start(buffer), end), _next_offset(buffer))
    return found


def _indexed_below(segment: SegmentReader, limit: int, start: int) -> End:
    """Returns the start of the last batch below ``limit`` that the offset index knows; at least ``start``.

    If the header there ends with the entry's offset, the entry is right; otherwise the batch is read and checked.
    """
    entry = segment.offset_index.last_below(limit)
    if entry is None or entry.position <= start:
        return End(start)
    data = segment.read_bytes(entry.position, v2.LAYOUT.itemsize)
    if len(data) == v2.LAYOUT.itemsize and data[MAGIC_AT] == v2.MAGIC:
        header = v2.read_header(data)
        if header.base_offset + header.last_offset_delta == entry.offset:
            return End(entry.position, header.base_offset)
    return End(max(start, min(segment.position_before(entry.offset), entry.position)))


def _after_batches(segment: SegmentReader, at: int, limit: int) -> End | None:
    """Returns the end of one or more batches from ``at`` on, with one read; None if the first ends after ``limit``."""
    buffer = np.frombuffer(segment.read_bytes(at, min(PROBE_BYTES, limit - at)), dtype=np.uint8)
    size = size_at_start(buffer)
    if size > limit - at:
        return None
    scan = formats.scan(buffer)
    if scan.end:
        return End(at + scan.end, scan.headers.next_offset)
    if scan.reason is not StopReason.TRUNCATED or not 0 < size <= limit - at:
        return None
    return End(at + size, _next_offset(buffer))


def _next_offset(buffer: Bytes) -> int | None:
    """Returns the offset after the batch that begins in ``buffer``; None if its header is not there as a whole."""
    if len(buffer) < v2.LAYOUT.itemsize or buffer[MAGIC_AT] != v2.MAGIC:
        return None
    header = v2.read_header(buffer.data)
    return header.base_offset + header.last_offset_delta + 1


class TransactionLog(Protocol):
    """The part of a log that :func:`aborted_in` uses."""

    def hidden_rows(self, segment: LogSegment, window: Window, markers: Mapping[int, Marker]) -> Bools: ...


def aborted_in(log: TransactionLog, segment: LogSegment, start: int, end: End) -> tuple[list[AbortedTransaction], End]:
    """Returns the aborted transactions between two positions, and the end: an earlier one if damage is before it.

    Reads headers and markers, but no record. A part of the segment without transactions is remembered, so that several
    readers that follow a log share one read of its headers. Raises CorruptionError if the first header is damaged.
    """
    first, last = segment.plain_part
    if not first <= start <= last:
        first = last = start
    aborted: list[AbortedTransaction] = []
    at = plain_end = min(last, end.position)
    is_plain, found = True, End(at)
    try:
        for window in segment.walk(at, end.position) if at < end.position else ():
            found = End(window.position + window.headers.end, window.headers.next_offset)
            if window.headers.is_transactional.any():
                is_plain = False
                markers, _ = read_markers(window)
                aborted += aborted_runs(window.headers, log.hidden_rows(segment, window, markers), markers)
            plain_end = found.position if is_plain else plain_end
    except CorruptionError:
        if found.position == start:
            raise
    segment.plain_part = first, max(last, plain_end)
    return aborted, end if found.position >= end.position else found
