"""The log of a partition in pieces: each is a segment, or a part of one that is small enough for one object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..errors import StorageError
from ..format.checksums import crc32c
from ..format.constants import INT32_MAX
from ..format.files import file_names as names
from ..reading.reader import LogReader
from ..segment.writer import LogSegment

PIECE_BYTES_MAX = 120 << 20  # one put takes 128 MiB
READ_BYTES = 8 << 20  # at once


class CopiedPartition(NamedTuple):
    """The result of copying a partition."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    size: int  # bytes


class Piece(NamedTuple):
    """Adjacent complete batches of one segment, whose file stays open until the piece is read.

    Compaction may give the segment's name to another file in the meantime.
    """

    segment: LogSegment
    base: int  # the first offset that it covers
    end: int  # the offset after it: where the next piece begins, or the log ends
    start: int  # position in the segment's .log
    stop: int
    records: int
    max_timestamp: int
    checksum: int  # CRC-32C of the bytes
    reached: int  # the offset after the last batch; compaction may have removed batches at the end

    def read(self) -> bytes:
        """Returns the bytes. Raises the errors of :meth:`chunks`."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[memoryview]:
        """Yields the bytes, some at a time.

        Raises StorageError at the end if the bytes have changed since the check, and FileNotFoundError if the file had
        to be closed and another one has its name now.
        """
        checksum = 0
        for position in range(self.start, self.stop, READ_BYTES):
            data = self.segment.read_bytes(position, min(READ_BYTES, self.stop - position))
            checksum = crc32c(data, checksum)
            yield data
        if checksum != self.checksum:
            path = self.segment.path(names.LOG)
            raise StorageError(f"{path}: the file was changed or replaced while it was copied: copy the topic again")


def end_to_copy(reader: LogReader) -> int:
    """Returns where the copy of a partition ends: on an object store, below a client's open transaction.

    Its batches do not say that they are in a transaction, and there will be no marker; its producer has no batch.
    """
    producers = reader.producers
    unmarked = (first for first, each in producers.ongoing.items() if producers.producers[each].last_offset < 0)
    return min(unmarked, default=reader.log_end_offset)


def pieces_of(
    reader: LogReader, limit: int = PIECE_BYTES_MAX, end: int | None = None, *, start: int | None = None
) -> list[Piece]:
    """Returns the pieces of a log, from the segment with the log start on. Reads and checks every batch.

    ``end``: the start of a batch at which to stop; by default the log end. ``start``: an offset at which to begin
    instead, with the batch that has it. Leaves the segments' files open, so that the pieces can be read even if
    maintenance replaces or deletes the files. Raises CorruptionError for damage, also if segments were lost, because a
    copy would hardly show that.
    """
    lost = reader.lost_start(by_epochs=True)
    if lost is not None:
        raise lost
    end = reader.log_end_offset if end is None else end
    below, start = start or 0, reader.log_start_offset if start is None else start
    reader.check_readable_to(end)
    found: list[Piece] = []
    before: LogSegment | None = None
    for segment, next_offset in reader.segments.with_next_offsets(reader.log_end_offset):
        if next_offset > start and segment.base_offset < max(end, 1):
            if before is not None:
                is_last = bool(found) and found[-1].segment is before
                segment.check_follows(before, found[-1].reached if is_last else before.base_offset)
            found += _of_segment(segment, below, min(next_offset, end), limit)
            before = segment
    return _without_gaps(found, start, end)


def _without_gaps(pieces: list[Piece], start: int, end: int) -> list[Piece]:
    """Returns pieces that cover all offsets, including those of segments that compaction has emptied."""
    ends = [piece.base for piece in pieces[1:]] + [end]
    found = [piece._replace(end=next_base) for piece, next_base in zip(pieces, ends, strict=False)]
    if found and start < found[0].base and found[0].end - start <= INT32_MAX:
        found[0] = found[0]._replace(base=start)
    return found


def _of_segment(segment: LogSegment, start: int, end: int, limit: int) -> Iterator[Piece]:
    """Yields the pieces of a segment's batches that reach ``start`` and begin below ``end``."""
    piece: Piece | None = None
    begin = segment.end_below(start)
    for window in segment.batches(begin):
        headers = window.headers[window.headers.table["base_offset"] < end]
        if not len(headers):
            break
        stop = window.position + headers.end
        first = int(headers.table["base_offset"][0])
        if piece is not None and stop - piece.start > limit:
            yield piece._replace(end=first)
            piece = Piece(segment, first, end, piece.stop, piece.stop, 0, -1, 0, first)
        if piece is None:
            base = max(segment.base_offset, min(start, first))
            piece = Piece(segment, base, end, begin, begin, 0, -1, 0, base)
        newest = max(piece.max_timestamp, int(headers.table["max_timestamp"].max()))
        records = piece.records + segment.count_records(window._replace(headers=headers))
        checksum = crc32c(window.buffer[: headers.end], piece.checksum)
        piece = piece._replace(
            stop=stop, records=records, max_timestamp=newest, checksum=checksum, reached=headers.next_offset
        )
    if piece is not None:
        yield piece
