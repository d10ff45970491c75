"""The indexes of a piece, built from its batch headers as in recovery."""

from __future__ import annotations

import numpy as np

from .. import format as formats
from ..errors import CorruptIndexError
from ..filesystem.operations import read_file
from ..format.files import file_names as names
from ..format.files.index_entries import decode_aborted, encode_aborted
from ..index_rebuild.segment import IndexEntries
from ..segment.walk import Window
from ..segment.writer import LogSegment

INDEX_BYTES_MAX = 64 << 20


def indexes_of(data: bytes, base: int, interval_bytes: int) -> dict[str, bytes]:
    """Returns ``.index`` and ``.timeindex`` of a segment, by suffix; an entry about every ``interval_bytes``."""
    buffer = np.frombuffer(data, np.uint8)
    entries = IndexEntries(base, interval_bytes)
    entries.add(Window(0, buffer, formats.scan(buffer).headers))
    return {names.INDEX: entries.offset_index(), names.TIME_INDEX: entries.time_index()}


def aborted_in(segment: LogSegment, base: int, end: int) -> dict[str, bytes]:
    """Returns a ``.txnindex`` with the entries of a segment between two offsets, by suffix; nothing if it has none.

    No reader relies on it, so a damaged one is not copied.
    """
    try:
        data = read_file(segment.context.filesystem, segment.path(names.TXN_INDEX), INDEX_BYTES_MAX)
        found = [each for each in decode_aborted(data) if base <= each.last_offset < end]
    except (FileNotFoundError, CorruptIndexError):
        return {}
    return {names.TXN_INDEX: encode_aborted(found)} if found else {}
