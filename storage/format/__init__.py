"""Converts record batches to tables and back, for every message format. Opens no files.

Only this module decides by a batch's magic which module reads it.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import pairwise
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..config import DECOMPRESSED_BYTES_MAX
from ..errors import CorruptRecordError, UnsupportedCompressionTypeError, UnsupportedMagicError
from ..kernels import stop_reasons
from ..kernels.arrays import frozen
from . import v2
from .batch_scan import Walk, Walker
from .constants import Codec
from .legacy import v0, v1
from .record_columns import ALL_COLUMNS, Part, fill
from .tables import HEADERS, BatchHeaders, Bools, Bytes, Decoded, Int64s

__all__ = [
    "ALL_COLUMNS",
    "Decoded",
    "Scan",
    "StopReason",
    "by_magic",
    "checksums_match",
    "codec_of",
    "decode",
    "scan",
    "stop_error",
    "verify",
]

_MODULES: dict[int, ModuleType] = {module.MAGIC: module for module in (v0, v1, v2)}
_WALKER = Walker()


class StopReason(IntEnum):
    """Why a walk over batches stopped."""

    END = stop_reasons.END  # exactly after the last batch
    TRUNCATED = stop_reasons.TRUNCATED  # the rest is shorter than a header, or than the batch that begins there
    BAD_SIZE = stop_reasons.BAD_SIZE
    BAD_MAGIC = stop_reasons.BAD_MAGIC
    UNKNOWN_MAGIC = stop_reasons.UNKNOWN_MAGIC
    FULL = stop_reasons.FULL  # as many batches as were asked for


class Scan(NamedTuple):
    """Consecutive batches found in a buffer."""

    headers: BatchHeaders
    end: int  # position after the last batch
    reason: StopReason


def by_magic(magic: int) -> ModuleType:
    """Returns the module of a message format: v0, v1 or v2. Raises UnsupportedMagicError for a newer format."""
    if magic not in _MODULES:
        raise UnsupportedMagicError(f"message format {magic} is unknown, newest is {v2.MAGIC}")
    return _MODULES[magic]


def codec_of(number: int) -> Codec:
    """The codec with that number. Raises UnsupportedCompressionTypeError for a number that Kafka does not use."""
    try:
        return Codec(number)
    except ValueError:
        raise UnsupportedCompressionTypeError(f"unknown compression type {number}") from None


def scan(buffer: Bytes, *, start: int = 0, batches_max: int | None = None) -> Scan:
    """Walk the batches from ``start`` on and read their headers; verifies no checksum."""
    source = frozen(buffer)
    walk = _WALKER.walk(source, start, 2**62 if batches_max is None else batches_max)
    return Scan(BatchHeaders(_headers(source, walk)), walk.end, StopReason(walk.reason))


def _headers(source: Bytes, walk: Walk) -> np.ndarray:
    positions, sizes, magics = walk[:3]
    if len(magics) and (magics == magics[0]).all():  # nearly always
        return by_magic(int(magics[0])).headers(source, positions, sizes)  # type: ignore[no-any-return]
    table = np.empty(len(positions), dtype=HEADERS)
    for magic in np.unique(magics).tolist():
        rows = magics == magic
        table[rows] = by_magic(magic).headers(source, positions[rows], sizes[rows])
    return table


def stop_error(scan: Scan, buffer: Bytes) -> CorruptRecordError:
    """Returns the error for the bytes at which a walk stopped; its position is that in ``buffer``."""
    length = int.from_bytes(buffer[scan.end + 8 : scan.end + 12].tobytes(), "big", signed=True)
    magic = int.from_bytes(buffer[scan.end + 16 : scan.end + 17].tobytes(), "big", signed=True)
    if scan.reason == StopReason.UNKNOWN_MAGIC:
        return UnsupportedMagicError(f"message format {magic} is unknown, newest is {v2.MAGIC}", position=scan.end)
    if scan.reason == StopReason.BAD_MAGIC:
        return CorruptRecordError(f"invalid magic {magic}", position=scan.end)
    return CorruptRecordError(f"invalid batch length {length} for magic {magic}", position=scan.end)


def checksums_match(buffer: Bytes, headers: BatchHeaders) -> Bools:
    """Whether each batch has the checksum in its header; shape (batches,)."""
    matches: Bools = checksums_of(buffer, headers) == headers.table["crc"]
    return matches


def verify(buffer: Bytes, headers: BatchHeaders) -> None:
    """Raise CorruptRecordError, with the position, for the first batch whose checksum is wrong."""
    found = checksums_of(buffer, headers)
    for row in np.flatnonzero(found != headers.table["crc"])[:1]:
        stored, position = headers.table["crc"][row], int(headers.table["position"][row])
        raise CorruptRecordError(checksum_text(int(found[row]), int(stored)), position=position)


def checksum_text(found: int, stored: int) -> str:
    """Returns the reason of an error: the checksum of the bytes, and the one that their header states."""
    return f"checksum {found:#010x} does not match {stored:#010x} in the header"


def checksums_of(buffer: Bytes, headers: BatchHeaders) -> np.ndarray:
    """Returns the checksum of the bytes of each batch; shape (batches,)."""
    found = np.empty(len(headers), dtype=np.uint32)
    for first, last, magic in _runs(headers):
        found[first:last] = by_magic(magic).checksums(buffer, headers[first:last])
    return found


def _runs(headers: BatchHeaders) -> list[tuple[int, int, int]]:
    """Returns (first row, last row + 1, magic) for each run of batches with one magic."""
    magics = headers.table["magic"]
    if not len(magics):
        return []
    firsts = (np.flatnonzero(magics[1:] != magics[:-1]) + 1).tolist()
    return [(first, end, int(magics[first])) for first, end in pairwise([0, *firsts, len(headers)])]


def decode(
    buffer: Bytes,
    headers: BatchHeaders,
    *,
    columns: tuple[str, ...] = ALL_COLUMNS,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    is_verified: bool = False,
) -> Decoded:
    """Returns the records of batches in ``buffer``, of any magic, as one table. ``headers`` may be a selection.

    Verifies checksums unless ``is_verified`` states that they were verified. Builds ``key``, ``value`` and ``headers``
    only if they are in ``columns``. ``decompressed_bytes_max`` bounds what a batch may decompress to.

    Raises CorruptRecordError or InvalidRecordError with the position of the batch.
    """
    if not is_verified:
        verify(buffer, headers)
    parts: list[Part] = []
    for first, last, magic in _runs(headers):
        parts += by_magic(magic).parts(buffer, headers[first:last], decompressed_bytes_max)
    return Decoded(fill(parts, columns), _counts(headers, parts))


def _counts(headers: BatchHeaders, parts: list[Part]) -> Int64s:
    """Returns the number of records in each batch: from its header, or for magic 0 and 1 by counting its messages."""
    counts = headers.table["count"].copy()
    for part in parts:
        if part.is_legacy:
            batches, found = np.unique(part.positions, return_counts=True)
            counts[np.searchsorted(headers.table["position"], batches)] = found
    return counts
