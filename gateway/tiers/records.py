"""Reads record batches of a tier for an answer to a fetch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...storage import Isolation, MissingSegmentError, OffsetOutOfRangeError
from .log import TieredLog


class TierRecords(NamedTuple):
    """Whole batches of one segment, whose checksums are right."""

    data: bytes
    aborted: Sequence[tuple[int, int]]  # producer id, first offset


def read_records(log: TieredLog, offset: int, stop: int, max_bytes: int, isolation: Isolation) -> TierRecords:
    """Returns the batches from ``offset`` on, below ``stop``; at least one.

    Raises OffsetOutOfRangeError only if the records were deleted, CorruptionError for damage and missing objects, and
    StorageError.
    """
    reader = log.reader()
    try:
        found = reader.read(offset, max_bytes=max(max_bytes, 1), isolation=isolation, up_to=stop)
    except OffsetOutOfRangeError as error:
        if offset < reader.checkpoints.read().log_start_offset:
            raise
        raise reader.lost_start() or MissingSegmentError(str(error)) from None
    if found is None:
        raise MissingSegmentError(f"the tier has no batch with offset {offset}", path=reader.context.directory)
    log.rest(found.segment.base_offset)
    return TierRecords(found.checked_bytes(), [(each.producer_id, each.first_offset) for each in found.aborted])
