"""Where the records of a segment reach a time (spec 10.3), by the headers of its batches.

A time index tells of batches, and the marker that ends a transaction is one. Its time is when the transaction ended,
so in a history that was loaded later the first marker is younger than all records behind it: from there on the index
has no entry that helps. What it says stays true all the same: no batch up to an entry, so no record either, is younger
than the entry tells. From there on the headers decide, of which those of markers do not count. Their checksums are
verified, so the first lookup in such a segment reads it; what it finds of each stretch is remembered for the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from pyspark_commitlog.storage.format.fields import NO_TIMESTAMP
from pyspark_commitlog.storage.format.tables import Int64s
from pyspark_commitlog.storage.index import TimestampOffset
from pyspark_commitlog.storage.record_times import NO_RECORD, RecordTimes
from pyspark_commitlog.storage.segment_reader import PROBE_BYTES, OffsetAndTimestamp, SegmentReader, Window

STRETCH_BYTES = 1024 * 1024  # what is remembered is one number for so many bytes
SMALL_BYTES = 4 * PROBE_BYTES  # reading so many takes no longer than what leads to fewer

Segment = TypeVar("Segment", bound=SegmentReader)

_Timed = tuple[Window, Int64s]  # batches, and the largest time of the records of each


def segments_reaching_time(segments: Sequence[Segment], timestamp_ms: int) -> Iterator[Segment]:
    """Of neighbours those to be read, one after the other, in search of a record that is not older.

    The time indexes say that the others have none, and no checksum covers them: one that lost entries, or whose last
    was changed, may say too little. In a log in the order of time its segment is then the last of those passed over; so
    that one's is held against the log. Where the log is not in this order, all are, which takes ten times as long.
    """
    is_in_order, youngest_ms = True, NO_TIMESTAMP
    for place, segment in enumerate(segments):
        largest_ms = (segment.known_largest or segment.largest).timestamp  # a property takes as long as all of this
        if largest_ms >= youngest_ms:
            youngest_ms = largest_ms
        elif is_in_order:
            is_in_order = False
            yield from _after_all(segments[:place], timestamp_ms)
        if largest_ms >= timestamp_ms:
            if is_in_order and place and segments[place - 1].largest.timestamp < timestamp_ms:
                yield from _after_all(segments[place - 1 : place], timestamp_ms)
            if _may_reach(segment, timestamp_ms):
                yield segment
        elif not is_in_order:
            yield from _after_all((segment,), timestamp_ms)
    if is_in_order:
        yield from _after_all(segments[-1:], timestamp_ms)


def _after_all(segments: Sequence[Segment], timestamp_ms: int) -> Iterator[Segment]:
    """Of segments that were passed over those that may hold such a record, as the log itself has it."""
    for segment in segments:
        is_passed = segment.largest.timestamp < timestamp_ms
        if is_passed and _confirmed_ms(segment) >= timestamp_ms and _may_reach(segment, timestamp_ms):
            yield segment


def _confirmed_ms(segment: SegmentReader) -> int:
    """The largest time of a segment as the log has it. Files are given back, as there may be many such segments."""
    if segment.is_largest_confirmed:
        return segment.largest.timestamp
    confirmed_ms = segment.confirm_largest().timestamp
    segment.close()
    return confirmed_ms


def _may_reach(segment: SegmentReader, timestamp_ms: int) -> bool:
    """Whether a record of a segment with a batch that is not older may be so too: what was read of its log tells."""
    known = segment.record_times
    return known is None or known.end < segment.size or max(known.older, known.largest) >= timestamp_ms


def end_if_read(segment: SegmentReader) -> int | None:
    """The offset behind a segment whose log was read up to its end; None where it was not."""
    known = segment.record_times
    if known is None or known.end < segment.size:
        return segment.walked_end
    return segment.base_offset if known.next_offset is None else known.next_offset


def batches_reaching_time(
    segment: SegmentReader, timestamp_ms: int, start_offset: int
) -> Iterator[tuple[Window, Int64s]]:
    """Windows with batches that may hold a record from ``start_offset`` on that is not older, and the rows of those.

    Raises as :meth:`SegmentReader.batches` does where what was passed over is not sound.
    """
    for window, times in _windows(segment, timestamp_ms, start_offset):
        rows = np.flatnonzero((times >= timestamp_ms) & (window.headers.table["last_offset"] >= start_offset))
        if len(rows):
            yield window, rows


def _windows(segment: SegmentReader, timestamp_ms: int, start_offset: int) -> Iterator[_Timed]:
    """Those that may hold such a batch. One that is new is noted when the caller asks for the next."""
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
        known.note(times, window.position + window.headers.end, window.headers.next_offset)


def _begin(segment: SegmentReader, timestamp_ms: int, start_offset: int) -> tuple[int, int]:
    """A time, older than what is sought, and the position of a batch before which no record is younger.

    The indexes are not asked where that takes longer than to read what they would save.
    """
    if segment.size <= SMALL_BYTES:
        return NO_RECORD, 0
    hint = segment.time_hint(timestamp_ms)
    return hint.timestamp, segment.position_before(max(hint.offset, start_offset))


def _known(segment: SegmentReader) -> RecordTimes | None:
    """What is known of the file that now has the segment's name."""
    known = segment.record_times
    if known is not None and known.inode != segment.status().inode:
        segment.give_back()
    return segment.record_times


def _timed(segment: SegmentReader, position: int, end: int, expected: int | None = None) -> Iterator[_Timed]:
    """Batches between two positions, and their records' times. Where there are many, the first window is small.

    ``expected`` is the offset behind what lies before ``position``; None: unknown.
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
    """The first record of a batch, from ``start_offset`` on, that is not older; None if there is none."""
    records = segment.records_at(window, row)
    hits = np.flatnonzero((records.timestamps >= timestamp_ms) & (records.offsets >= start_offset))
    if not len(hits):
        return None
    leader_epoch = int(window.headers.table["leader_epoch"][row])
    return OffsetAndTimestamp(int(records.offsets[hits[0]]), int(records.timestamps[hits[0]]), leader_epoch)


def largest_record_time(segment: SegmentReader, start_offset: int) -> int:
    """The largest time of the records from ``start_offset`` on, ms; -1 where no record has one.

    The end is looked at first. Where the entry in front of it tells of nothing younger, what lies before need not be.
    """
    back, found = 1, NO_TIMESTAMP
    while True:
        before = _entry_from_end(segment, back)
        found = _largest_from(segment, max(before.offset + 1, start_offset), start_offset)
        if found >= before.timestamp or before.offset < start_offset:
            return found
        back *= 2


def _entry_from_end(segment: SegmentReader, back: int) -> TimestampOffset:
    """The entry of the time index so many before its last; of nothing where there is none."""
    if segment.has_sound_time_index() and back < len(segment.time_index):
        index = segment.time_index
        entry = TimestampOffset(int(index.timestamps[-1 - back]), int(index.offsets[-1 - back]))
        if segment.is_right_about(entry):
            return entry
    return TimestampOffset(NO_TIMESTAMP, segment.base_offset - 1)


def _largest_from(segment: SegmentReader, offset: int, start_offset: int) -> int:
    """Of the batches that reach ``offset``; of one that begins below ``start_offset`` the records from there on."""
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
