"""Finds the first batches of segments whose records reach a time, by time index and batch headers.

A time index covers batches, including the markers that end transactions. A marker's time is when its transaction ended,
so in history that is loaded later, the first marker is later than all records after it, and the index has no useful
entries from there on. What the index states is still true: no batch up to an entry, and so no record, is later than the
entry's time. After the last useful entry, the headers of data batches decide. Their checksums are verified, so the
first lookup in such a segment reads all of it; the largest time of each stretch is cached for the next lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from ..errors import CorruptionError
from ..format.constants import NO_TIMESTAMP
from ..format.tables import Int64s
from ..segment.reader import OffsetAndTimestamp, SegmentReader
from ..segment.time_index import NO_RECORD, RecordTimes, TimestampOffset
from ..segment.walk import PROBE_BYTES, Window

STRETCH_BYTES = 1024 * 1024  # one largest time is cached for this many bytes
SMALL_BYTES = 4 * PROBE_BYTES  # reading this much takes no longer than locating a smaller part

Segment = TypeVar("Segment", bound=SegmentReader)

_Timed = tuple[Window, Int64s]  # batches, and the largest record time of each


def segments_reaching_time(
    segments: Sequence[Segment], timestamp_ms: int, check: Callable[[Segment], None]
) -> Iterator[Segment]:
    """Yields the segments that may hold a record with this time or a later one, in order.

    The time indexes show that the other segments hold none. No checksum covers an index: if it lost entries, or its
    last entry changed, it may state too early a time. If times increase from segment to segment, only the last skipped
    segment can have such an index, and its log is read to check. Otherwise the logs of all skipped segments are read,
    which takes ten times as long. ``check`` is called with each segment whose log was read, and raises if it is
    damaged.
    """
    is_in_order, youngest_ms = True, NO_TIMESTAMP
    for index, segment in enumerate(segments):
        largest_ms = (segment.known_largest or segment.largest).timestamp  # a property costs as much as the rest
        if largest_ms >= youngest_ms:
            youngest_ms = largest_ms
        elif is_in_order:
            is_in_order = False
            yield from _after_all(segments[:index], timestamp_ms, check)
        if largest_ms >= timestamp_ms:
            if is_in_order and index and segments[index - 1].largest.timestamp < timestamp_ms:
                yield from _after_all(segments[index - 1 : index], timestamp_ms, check)
            if _may_reach(segment, timestamp_ms):
                yield segment
        elif not is_in_order:
            yield from _after_all((segment,), timestamp_ms, check)
    if is_in_order:
        yield from _after_all(segments[-1:], timestamp_ms, check)


def _after_all(segments: Sequence[Segment], timestamp_ms: int, check: Callable[[Segment], None]) -> Iterator[Segment]:
    """Yields those of the skipped segments whose log, read to check the index, may hold a matching record."""
    for segment in segments:
        is_passed = segment.largest.timestamp < timestamp_ms
        if is_passed and _confirmed_ms(segment, check) >= timestamp_ms and _may_reach(segment, timestamp_ms):
            yield segment


def _confirmed_ms(segment: Segment, check: Callable[[Segment], None]) -> int:
    """Returns a segment's largest time, in ms, from its log; closes its files, since many segments may be checked."""
    if segment.is_largest_confirmed:
        return segment.largest.timestamp
    confirmed_ms = segment.confirm_largest().timestamp
    try:
        check(segment)
    except CorruptionError:
        segment.is_largest_confirmed = False  # makes the next lookup get the same error
        raise
    segment.close()
    return confirmed_ms


def _may_reach(segment: SegmentReader, timestamp_ms: int) -> bool:
    """Whether a segment may hold a record with this time or a later one, as far as the cached times show."""
    known = segment.record_times
    return known is None or known.end < segment.size or max(known.older, known.largest) >= timestamp_ms


def end_if_read(segment: SegmentReader) -> int | None:
    """Returns the offset after the last batch of a segment; None if the segment's log was not read to its end."""
    known = segment.record_times
    if known is None or known.end < segment.size:
        return segment.walked_end if segment.walked_size == segment.size else None
    return segment.base_offset if known.next_offset is None else known.next_offset


def batches_reaching_time(
    segment: SegmentReader, timestamp_ms: int, start_offset: int
) -> Iterator[tuple[Window, Int64s]]:
    """Yields windows, with the rows of batches that may hold a matching record from ``start_offset`` on.

    A record matches if it has this time or a later one. Raises the errors of :meth:`SegmentReader.batches` if the bytes
    read are damaged.
    """
    for window, times in _windows(segment, timestamp_ms, start_offset):
        rows = np.flatnonzero((times >= timestamp_ms) & (window.headers.table["last_offset"] >= start_offset))
        if len(rows):
            yield window, rows


def _windows(segment: SegmentReader, timestamp_ms: int, start_offset: int) -> Iterator[_Timed]:
    """Yields the windows that may hold a matching batch, with the largest record time of each batch.

    The times of a new window are cached once the caller asks for the next window.
    """
    known = _known(segment)
    if known is None or timestamp_ms <= known.older:
        hint, begin = _begin(segment, timestamp_ms, start_offset)
        if known is None or begin > known.end:
            known = segment.record_times = RecordTimes(begin, hint, segment.status().inode)
        yield from _timed(segment, begin, known.start)
    for start, end in known.reaching(timestamp_ms):
        yield from _timed(segment, start, end)
    for window, times in _timed(segment, known.end, segment.size, known.next_offset):
        yield window, times
        known.add(times, window.position + window.headers.end, window.headers.next_offset)


def _begin(segment: SegmentReader, timestamp_ms: int, start_offset: int) -> tuple[int, int]:
    """Returns a time and a position in a segment, with no later record before that position.

    The time is below ``timestamp_ms``. The position is the start of a small segment, which takes no longer to read than
    its indexes.
    """
    if segment.size <= SMALL_BYTES:
        return NO_RECORD, 0
    hint = segment.time_hint(timestamp_ms)
    return hint.timestamp, segment.position_before(max(hint.offset, start_offset))


def _known(segment: SegmentReader) -> RecordTimes | None:
    """Returns the cached times of a segment, unless the file with its name was replaced since."""
    known = segment.record_times
    if known is not None and known.inode != segment.status().inode:
        segment.release()
    return segment.record_times


def _timed(segment: SegmentReader, position: int, end: int, expected: int | None = None) -> Iterator[_Timed]:
    """Yields batches between two positions, with the largest record time of each; starts with a small window.

    ``expected`` is the offset that should be at ``position``; None: unknown.
    """
    window_bytes = STRETCH_BYTES if end - position <= SMALL_BYTES else PROBE_BYTES
    while position < end:
        found = segment.timed_batches(position, end, window_bytes, expected=expected)
        if found is None:
            return
        yield found
        headers = found[0].headers
        position, window_bytes, expected = position + headers.end, STRETCH_BYTES, headers.next_offset


def first_record_not_older(
    segment: SegmentReader, window: Window, row: int, timestamp_ms: int, start_offset: int
) -> OffsetAndTimestamp | None:
    """Returns the first record of a batch, from ``start_offset`` on, with this time or a later one; None: no record."""
    records = segment.records_at(window, row)
    hits = np.flatnonzero((records.timestamps >= timestamp_ms) & (records.offsets >= start_offset))
    if not len(hits):
        return None
    leader_epoch = int(window.headers.table["leader_epoch"][row])
    return OffsetAndTimestamp(int(records.offsets[hits[0]]), int(records.timestamps[hits[0]]), leader_epoch)


def largest_record_time(segment: SegmentReader, start_offset: int) -> int:
    """Returns the largest time, in ms, of a segment's records from ``start_offset`` on; -1 if no record has a time.

    Reads backwards from the end, up to an index entry that is not later than the time found.
    """
    back, found = 1, NO_TIMESTAMP
    while True:
        before = _entry_from_end(segment, back)
        found = _largest_from(segment, max(before.offset + 1, start_offset), start_offset)
        if found >= before.timestamp or before.offset < start_offset:
            return found
        back *= 2


def _entry_from_end(segment: SegmentReader, back: int) -> TimestampOffset:
    """Returns the time index entry that is ``back`` entries before the last.

    If there is none, returns one that sorts before the whole segment.
    """
    if segment.has_sound_time_index() and back < len(segment.time_index):
        index = segment.time_index
        entry = TimestampOffset(int(index.timestamps[-1 - back]), int(index.offsets[-1 - back]))
        if segment.is_right_about(entry):
            return entry
    return TimestampOffset(NO_TIMESTAMP, segment.base_offset - 1)


def _largest_from(segment: SegmentReader, offset: int, start_offset: int) -> int:
    """Returns the largest time, in ms, of records in batches that reach ``offset``, from ``start_offset`` on."""
    found = NO_TIMESTAMP
    for window, all_times in _timed(segment, segment.position_before(offset), segment.size):
        reaching_it = np.flatnonzero(window.headers.table["last_offset"] >= offset)
        times = all_times[reaching_it]
        for row in reaching_it[:1].tolist():
            if offset == start_offset > segment.base_offset and times[0] != NO_RECORD:
                records = segment.records_at(window, row)
                times[0] = records.timestamps[records.offsets >= start_offset].max(initial=NO_TIMESTAMP)
        found = max(found, int(times.max(initial=NO_TIMESTAMP)))
    return found
