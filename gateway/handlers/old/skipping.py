"""Finds where old clients continue after markers and emptied batches, which a message set cannot show.

Such a client knows only the offsets of the messages it gets: after an answer without any, it asks for the same offset.
"""

from __future__ import annotations

from ....storage import Isolation, LogReader
from ...partitions.led_partition import LedPartition

READ_BYTES = 256 * 1024  # at a time
SEARCH_BYTES = 8 * 1024 * 1024  # per request
READ_COST = 32 * 1024  # a read counts as at least this many bytes: each segment needs a read, however small it is
OFFSETS_KEPT = 64  # per partition


def offset_with_records(led: LedPartition, offset: int) -> int:
    """Returns the first offset from ``offset`` on from which an old client can be given records.

    Returns the high watermark if there is none, and an earlier offset if the search reads too much for one request. The
    next search from the same offset then continues there. Raises the errors of :meth:`LogReader.read`.
    """

    return led.ask(lambda log: search_from(led, log, offset, led.high_watermark))


def search_from(led: LedPartition, log: LogReader, offset: int, end: int) -> int:
    """Does what :func:`offset_with_records` does, in a log of the partition and up to ``end``."""
    found = _search(log, led.passed_over.get(offset, offset), end)
    led.passed_over[offset] = found
    if len(led.passed_over) > OFFSETS_KEPT:
        del led.passed_over[next(iter(led.passed_over))]
    return found


def _search(log: LogReader, offset: int, end: int) -> int:
    unread = SEARCH_BYTES
    while offset < end and unread > 0:
        data = log.read(offset, max_bytes=READ_BYTES, isolation=Isolation.READ_UNCOMMITTED, up_to=end)
        if data is None:
            return end
        found = data.offset_with_records(offset)
        if found is not None:
            return found
        unread -= max(data.window.headers.end, READ_COST)
        offset = data.next_offset
    return offset
