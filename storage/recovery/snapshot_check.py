"""Checks whether a producer snapshot agrees with the log before it.

A checksum does not reveal an older snapshot, from a backup or a copy, which may list transactions as open that have
ended, or lack open ones. Therefore the snapshot is compared with the last batches before its offset. If offsets are
missing among these batches, compaction has removed some, and only contradictions to the remaining ones count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..format.constants import NO_OFFSET
from ..format.files.checkpoints import ProducerEntry
from ..segment.collection import LogSegments
from ..segment.walk import Window
from ..segment.writer import LogSegment
from .segment_recovery import read_markers

TAIL_BYTES = 64 * 1024  # read of the log before a snapshot: little compared with the cost of opening it


class _Seen(NamedTuple):
    """The facts about one producer in the last batches of a log."""

    last_offset: int = NO_OFFSET  # of its last batch with data
    open_offset: int = NO_OFFSET  # the offset of its last transactional batch without a marker after it
    ended_offset: int = NO_OFFSET  # of its last marker


class _End(NamedTuple):
    """The last batches of a log below an offset."""

    first_offset: int
    is_whole: bool  # no offset is missing among them
    seen: dict[int, _Seen]  # by producer id


def disagreement(entries: Iterable[ProducerEntry], offset: int, segments: LogSegments) -> str | None:
    """Returns how a snapshot at ``offset`` with these entries contradicts the batches before it; None if it does not.

    Raises CorruptionError if one of these batches is damaged.
    """
    listed = {entry.producer_id: entry for entry in entries}
    for entry in listed.values():
        if max(entry.last_offset, entry.current_txn_first_offset) >= offset:
            return f"producer {entry.producer_id} wrote at offset {entry.last_offset}, which is not below {offset}"
    segment = segments.floor(offset - 1)
    if segment is None:
        return None
    try:
        end = _end_of(segment, offset)
    finally:
        if segment is not segments.active:
            segment.close()  # a log may have more segments than a process may have open files
    for producer_id in sorted(listed.keys() | end.seen.keys()):
        fault = _fault(listed.get(producer_id), end.seen.get(producer_id), end)
        if fault is not None:
            return f"producer {producer_id} {fault}"
    return None


def _fault(listed: ProducerEntry | None, seen: _Seen | None, end: _End) -> str | None:
    """Returns how the entry of one producer contradicts its batches; None if it does not.

    ``listed`` is None if the snapshot lacks the producer, which is right if it was idle for long without an open
    transaction; ``seen`` is None if the producer has none of the last batches.
    """
    begun = NO_OFFSET if listed is None else listed.current_txn_first_offset
    if seen is not None and NO_OFFSET < begun < seen.ended_offset:
        return f"has an open transaction from offset {begun} on, which the marker at {seen.ended_offset} ended"
    if not end.is_whole:
        return None
    if listed is None or seen is None:
        return _fault_of_one(listed, seen, end)
    if (begun == NO_OFFSET) != (seen.open_offset == NO_OFFSET):
        return (
            f"has an open transaction from offset {begun} on in the snapshot, but from "
            f"{seen.open_offset} on in the log (-1: none)"
        )
    if listed.last_offset not in (seen.last_offset, NO_OFFSET) and seen.last_offset != NO_OFFSET:
        return (
            f"wrote up to offset {listed.last_offset} according to the snapshot, but "
            f"up to {seen.last_offset} in the log"
        )
    return None


def _fault_of_one(listed: ProducerEntry | None, seen: _Seen | None, end: _End) -> str | None:
    if seen is not None and seen.open_offset != NO_OFFSET:
        return f"is missing in the snapshot, although its transaction from offset {seen.open_offset} on is open"
    if listed is not None and max(listed.last_offset, listed.current_txn_first_offset) >= end.first_offset:
        return f"wrote at offset {listed.last_offset} according to the snapshot, but the log has no batch of it there"
    return None


def _end_of(segment: LogSegment, offset: int) -> _End:
    first = expected = NO_OFFSET
    is_whole, seen = True, dict[int, _Seen]()
    for window in _tail(segment, offset):
        below = window.headers[window.headers.table["last_offset"] < offset]
        if not len(below):
            break
        bases, lasts = below.table["base_offset"], below.table["last_offset"]
        first, expected = (int(bases[0]),) * 2 if first == NO_OFFSET else (first, expected)
        is_whole &= bool(bases[0] == expected and (bases[1:] == lasts[:-1] + 1).all())
        expected = int(lasts[-1]) + 1
        _add_seen(seen, window._replace(headers=below))
    return _End(first, is_whole and expected == offset, seen)


def _tail(segment: LogSegment, offset: int) -> Iterator[Window]:
    """Yields the batches from about TAIL_BYTES before ``offset`` on; the offset index shows where they begin."""
    offsets, positions = segment.offset_index.offsets, segment.offset_index.positions
    row = int(np.searchsorted(offsets, offset)) - 1
    if row < 0 or positions[row] <= TAIL_BYTES:
        return segment.batches()
    row = int(np.searchsorted(positions, positions[row] - TAIL_BYTES, side="right")) - 1
    return segment.from_index(int(offsets[row])) if row >= 0 else segment.batches()


def _add_seen(seen: dict[int, _Seen], window: Window) -> None:
    table, markers = window.headers.table, read_markers(window)[0]
    is_transactional, is_control = window.headers.is_transactional, window.headers.is_control
    for row in np.flatnonzero(table["producer_id"] >= 0).tolist():
        producer_id, base, last = (int(table[name][row]) for name in ("producer_id", "base_offset", "last_offset"))
        known = seen.get(producer_id, _Seen())
        if base in markers:
            seen[producer_id] = known._replace(open_offset=NO_OFFSET, ended_offset=base)
        elif not is_control[row]:
            open_offset = base if is_transactional[row] else known.open_offset
            seen[producer_id] = known._replace(last_offset=last, open_offset=open_offset)
