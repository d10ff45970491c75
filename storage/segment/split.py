"""Splits a segment with offsets more than 2^31 - 1 above its base offset.

Compaction and old brokers created such segments. An index cannot have entries for offsets that far away.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..errors import CorruptRecordError
from ..format.constants import INT32_MAX
from ..format.files import file_names
from ..format.tables import BatchHeaders
from .walk import WINDOW_BYTES
from .writer import LogSegment


class _Part(NamedTuple):
    """A part of the segment that becomes a segment of its own; it ends where the next part begins."""

    base_offset: int
    position: int  # of its first byte in the segment


def split_segment(segment: LogSegment) -> list[int]:
    """Split a segment into several with the same batches, byte for byte; returns their base offsets in order.

    The caller holds the append lock and the maintenance lock, and reloads the log afterwards, which replaces the
    segment by its parts and creates their indexes. Bytes after the last whole batch are copied too; recovery handles
    them.

    The state on disk after a crash that follows each step:

    1. The parts are written as ``.log.cleaned`` and synced. The log still consists of the segment; opening the log
       removes the parts.
    2. The parts are renamed to ``.log.swap``, from the last to the first. As long as one ``.cleaned`` exists, the log
       consists of the segment; opening the log undoes the renames.
    3. All parts are renamed and the directory is synced. The log consists of the parts; opening it removes the segment
       and the suffix ``.swap`` (see :mod:`.swap`).

    If even the first batch is too far from the base offset, the first part is empty: one part always has the base
    offset of the segment, and replaces it.
    """
    context = segment.context
    parts = _parts(segment)
    ends = [*(part.position for part in parts[1:]), segment.file_size]
    for part, end in zip(parts, ends, strict=True):
        _copy(segment, part, end)
    segment.close()
    for part in reversed(parts):
        cleaned, swap = (_log_path(segment, part, suffix) for suffix in (file_names.CLEANED, file_names.SWAP))
        context.filesystem.rename(cleaned, swap)
    context.filesystem.sync_directory(context.directory)
    return [part.base_offset for part in parts]


def _parts(segment: LogSegment) -> list[_Part]:
    parts = [_Part(segment.base_offset, 0)]
    next_offset = segment.base_offset
    with suppress(CorruptRecordError):  # copied into the last part unchanged
        for window in segment.walk(0, segment.file_size):
            last_offsets = window.headers.table["last_offset"]
            while (too_far := np.flatnonzero(last_offsets - parts[-1].base_offset > INT32_MAX)).size:
                row = int(too_far[0])
                before = int(last_offsets[row - 1]) + 1 if row else next_offset
                position = window.position + int(window.headers.table["position"][row])
                parts.append(_Part(_base_offset(window.headers[row : row + 1], before), position))
            next_offset = int(last_offsets[-1]) + 1
    assert all(part.base_offset < following.base_offset for part, following in pairwise(parts))
    return parts


def _base_offset(batch: BatchHeaders, next_offset: int) -> int:
    """The base offset for a segment that begins with this batch; a header of magic 0 or 1 has only the last offset."""
    base_offset, last_offset = int(batch.table["base_offset"][0]), int(batch.table["last_offset"][0])
    return base_offset if batch.table["magic"][0] >= 2 else max(next_offset, last_offset - INT32_MAX)


def _copy(segment: LogSegment, part: _Part, end: int) -> None:
    filesystem = segment.context.filesystem
    path = _log_path(segment, part, file_names.CLEANED)
    with filesystem.open(path, "create") as file:
        file.truncate(0)
        for position in range(part.position, end, WINDOW_BYTES):
            file.write(position - part.position, segment.read_bytes(position, min(WINDOW_BYTES, end - position)))
        file.sync()
    filesystem.set_modified(path, segment.status().modified_ms)  # retention uses it if records have no time


def _log_path(segment: LogSegment, part: _Part, suffix: str) -> str:
    return file_names.join(
        segment.context.directory, file_names.segment_file(part.base_offset, file_names.LOG + suffix)
    )
