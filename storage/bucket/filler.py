"""Offsets without records: empty batches, as compaction leaves them, until copied segments replace them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..format import v2
from ..format.constants import LOG_OVERHEAD
from ..format.tables import Int64s
from .commits.commit import Segment, StagedObject
from .commits.state import Slice
from .staged_objects import FilledSlice, encode_object


def encode_filler(
    write: str, topic_id: str, partition: int, spans: Sequence[int]
) -> tuple[StagedObject, bytes, Int64s]:
    """Returns an object with one empty batch per number of offsets, its bytes, and the slices for the commit.

    Each batch is a slice of its own, so that a segment can replace it alone.
    """
    batches = [empty_batch(count) for count in spans]
    records = sum(spans)
    filled = FilledSlice(batches, list(map(len, batches)), records, -1)
    data = encode_object(write, [((topic_id, partition), filled)])
    ends = np.cumsum([len(batch) for batch in batches])
    rows = [
        (0, end - len(batch), len(batch), count, 1, -1)
        for end, batch, count in zip(ends.tolist(), batches, spans, strict=True)
    ]
    return StagedObject(0, 0, 0, len(data)), data, np.array(rows, np.int64)


def is_filler(part: Slice | Segment) -> bool:
    """Whether a part of a partition has only empty batches, which consist of a header alone."""
    return isinstance(part, Slice) and part.size == part.batches * v2.LAYOUT.itemsize


def empty_batch(offsets: int) -> bytes:
    """Returns a batch without records that covers this many offsets, from 0 on."""
    length = v2.LAYOUT.itemsize - LOG_OVERHEAD
    return v2.encode_header(v2.Header(0, length, 0, v2.MAGIC, 0, 0, offsets - 1, -1, -1, -1, -1, -1, 0), b"")
