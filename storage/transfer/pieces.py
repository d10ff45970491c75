"""The log of a partition in pieces: each is a segment, or a part of one that is small enough for one object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..format.constants import INT32_MAX
from ..reading import LogReader
from ..segment import LogSegment

PIECE_BYTES_MAX = 120 << 20  # one put takes 128 MiB


class CopiedPartition(NamedTuple):
    """The result of copying a partition."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    size: int  # bytes


class Piece(NamedTuple):
    """Adjacent complete batches of one segment."""

    segment: LogSegment
    base: int  # the first offset that it covers
    end: int  # the offset after it: where the next piece begins, or the log ends
    start: int  # position in the segment's .log
    stop: int
    records: int
    max_timestamp: int

    def read(self) -> bytes:
        return bytes(self.segment.read_bytes(self.start, self.stop - self.start))


def pieces_of(reader: LogReader, limit: int = PIECE_BYTES_MAX) -> list[Piece]:
    """Returns the pieces of a log, from the segment with the log start on. Reads and checks every batch.

    Raises CorruptionError for damage.
    """
    end = reader.log_end_offset
    reader.check_readable_to(end)
    found: list[Piece] = []
    for segment, next_offset in reader.segments.with_next_offsets(end):
        if next_offset > reader.log_start_offset:
            found += _of_segment(segment, next_offset, limit)
        segment.close()
    return _without_gaps(found, reader.log_start_offset, end)


def _without_gaps(pieces: list[Piece], start: int, end: int) -> list[Piece]:
    """Returns pieces that cover all offsets, including those of segments that compaction has emptied."""
    ends = [piece.base for piece in pieces[1:]] + [end]
    found = [piece._replace(end=next_base) for piece, next_base in zip(pieces, ends, strict=False)]
    if found and start < found[0].base and found[0].end - start <= INT32_MAX:
        found[0] = found[0]._replace(base=start)
    return found


def _of_segment(segment: LogSegment, end: int, limit: int) -> Iterator[Piece]:
    piece: Piece | None = None
    for window in segment.batches():
        headers = window.headers
        stop = window.position + headers.end
        if piece is not None and stop - piece.start > limit:
            first = int(headers.table["base_offset"][0])
            yield piece._replace(end=first)
            piece = Piece(segment, first, end, piece.stop, piece.stop, 0, -1)
        if piece is None:
            piece = Piece(segment, segment.base_offset, end, 0, 0, 0, -1)
        newest = max(piece.max_timestamp, int(headers.table["max_timestamp"].max()))
        piece = piece._replace(stop=stop, records=piece.records + segment.count_records(window), max_timestamp=newest)
    if piece is not None:
        yield piece
