"""Checks batches: by their checksums, and by their neighbours' offsets, which no checksum covers.

In a log from which nothing was removed, each batch begins where the previous one ends. In a log that was or may have
been compacted, a batch begins there or above.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..config import INT64_MAX
from ..errors import CorruptionError, CorruptRecordError, MissingSegmentError
from ..format import v2
from ..format.constants import LENGTH_AT, LOG_OVERHEAD, Codec
from ..format.tables import BatchHeaders, Bools, Bytes, Int64s

NEVER_COMPACTED = (
    "and the log was never compacted, as far as settings and checkpoints show; if it was, set cleanup.policy to "
    "compact,delete to read it"
)


class Holes(IntEnum):
    """Where offsets may be missing in a log."""

    NOWHERE = 0  # the log was never compacted, and gaps were never written to it
    INSIDE_SEGMENTS = 1  # unknown; offsets may be missing inside segments, but not between them
    ANYWHERE = 2  # the log was compacted, or copied from somewhere


class Damage(NamedTuple):
    """The first damaged batch: its row in the headers, and the error."""

    row: int
    error: CorruptionError


def inside_segments() -> Holes:
    """Returns the assumption about missing offsets for a log without further information."""
    return Holes.INSIDE_SEGMENTS


def always(holes: Holes) -> Callable[[], Holes]:
    """Returns a function that always returns ``holes``; it can be pickled."""
    return partial(Holes, holes)


def leave_gaps(headers: BatchHeaders, expected: int) -> bool:
    """Whether offsets are missing between these batches (at least one), or between ``expected`` and the first one."""
    first, last = headers.table["base_offset"], headers.table["last_offset"]
    return bool(((first > _after_previous(first, last, expected)) & ~hides_its_first(headers)).any())


def find_damage(
    buffer: Bytes,
    headers: BatchHeaders,
    holes: Callable[[], Holes],
    *,
    expected: int | None = None,
    following: tuple[int, int] | None = None,
) -> Damage | None:
    """Returns the first of these consecutive batches (at least one) that is damaged; None if all are right.

    A batch is damaged if its checksum is wrong or its offsets do not fit those of its neighbours. ``expected`` is the
    offset after the preceding batch, ``following`` the first and last offset of the following batch; None: unknown.
    ``holes`` is called only if offsets are missing. The position in the error is relative to ``buffer``.
    """
    try:
        formats.verify(buffer, headers)
    except CorruptRecordError as error:
        row = int(np.searchsorted(headers.table["position"], error.position or 0))
        misfit = _find_misfit(headers[:row], holes, expected, None) if row else None
        return misfit or Damage(row, error)
    return _find_misfit(headers, holes, expected, following)


def _find_misfit(
    headers: BatchHeaders, holes: Callable[[], Holes], expected: int | None, following: tuple[int, int] | None
) -> Damage | None:
    first, last = headers.table["base_offset"], headers.table["last_offset"]
    if following is None and _join(first, last, expected):  # nearly always
        return None
    expected_first = _after_previous(first, last, expected)
    is_wrong = (last < first) | (first < 0) | _meets_next(first, last, INT64_MAX if following is None else following[0])
    is_wrong[:1] |= first[:1] < expected_first[:1]
    is_missing = (first > expected_first) & ~hides_its_first(headers)
    is_missing &= bool(is_missing.any()) and holes() is Holes.NOWHERE
    is_wrong |= is_missing
    if not is_wrong.any():
        return None
    row = int(np.argmax(is_wrong))
    position = int(headers.table["position"][row])
    offsets = f"offsets {first[row]} to {last[row]}"
    if is_missing[row]:
        reason = f"offsets {expected_first[row]} to {first[row] - 1} are missing before this batch"
        return Damage(row, MissingSegmentError(f"{reason}, {NEVER_COMPACTED}", position=position))
    if last[row] < first[row] or first[row] < 0:
        return Damage(
            row, CorruptRecordError(f"{offsets} are not a valid range of offsets; restore the file", position=position)
        )
    if first[row] < expected_first[row]:
        return Damage(
            row,
            CorruptRecordError(
                f"{offsets} follow offset {expected_first[row] - 1}; restore the file", position=position
            ),
        )
    begin, end = (first[row + 1], last[row + 1]) if row + 1 < len(first) else following or (None, None)
    return Damage(
        row,
        CorruptRecordError(
            f"offsets {begin} to {end} follow offset {last[row]}; restore the file", position=_end(headers, row)
        ),
    )


def _end(headers: BatchHeaders, row: int) -> int:
    return int(headers.table["position"][row] + headers.table["size"][row])


def _join(first: Int64s, last: Int64s, expected: int | None) -> bool:
    """Whether each batch begins where the previous one ends, and the first one at ``expected``, if known."""
    if not 0 <= first[0] <= last[-1] or expected not in (None, first[0]):
        return False
    return bool((first[1:] == last[:-1] + 1).all() and (first <= last).all()) if len(first) > 1 else True


def _meets_next(first: Int64s, last: Int64s, following: int) -> Bools:
    """For each batch, whether it overlaps the next one, so that the offsets of one of them are wrong; shape (n,)."""
    next_first = np.empty(len(first), dtype=np.int64)
    next_first[:-1] = first[1:]
    next_first[-1] = following
    found: Bools = last >= next_first
    return found


def _after_previous(first: Int64s, last: Int64s, expected: int | None) -> Int64s:
    """For each batch, the offset after its predecessor, shape (n,).

    For the first batch ``expected``, or its own offset if that is None.
    """
    after = np.empty(len(first), dtype=np.int64)
    after[0] = first[0] if expected is None else expected
    after[1:] = last[:-1] + 1
    return after


def hides_its_first(headers: BatchHeaders) -> Bools:
    """For each batch, whether it is a wrapper message of magic 0 or 1, whose header has only the last offset."""
    found: Bools = (headers.table["magic"] < v2.MAGIC) & (headers.codec != Codec.NONE)
    return found


def first_offset(headers: BatchHeaders) -> int | None:
    """Returns the first offset of the first batch; None if its header does not have it."""
    return None if hides_its_first(headers[:1])[0] else int(headers.table["base_offset"][0])


def check_wrapped(
    headers: BatchHeaders,
    rows: slice | Int64s,
    decoded: formats.Decoded,
    holes: Callable[[], Holes],
    *,
    lowest: int = 0,
    expected: int | None = None,
) -> None:
    """Raises CorruptRecordError or MissingSegmentError if wrapper messages of magic 0 or 1 contain wrong offsets.

    :func:`find_damage` cannot find these, because the header of a wrapper message does not have its first offset.
    ``decoded`` is the content of the batches in ``rows`` of ``headers``. No offset may be below ``lowest``.
    ``expected`` is the offset at which the first batch of ``headers`` should begin; None: unknown.
    """
    is_wrapper = hides_its_first(headers)
    if not is_wrapper.any():
        return
    table = headers.table
    ends, counts = np.cumsum(decoded.counts).tolist(), decoded.counts.tolist()
    for row, end, count in zip(np.arange(len(table))[rows].tolist(), ends, counts, strict=True):
        if is_wrapper[row]:
            floor, begins_at = lowest, expected if row == 0 else None
            if row and table["position"][row] == table["position"][row - 1] + table["size"][row - 1]:
                floor = begins_at = int(table["last_offset"][row - 1]) + 1
            _check_one_wrapper(decoded.records.offsets[end - count : end], table[row], floor, begins_at, holes)


def _check_one_wrapper(
    offsets: Int64s, header: np.void, lowest: int, expected: int | None, holes: Callable[[], Holes]
) -> None:
    first, last, position = int(offsets[0]), int(offsets[-1]), int(header["position"])
    if last != header["last_offset"] or (np.diff(offsets) <= 0).any():
        reason = (
            f"offsets {first} to {last} are in a wrapper message with offset {header['last_offset']}; restore the file"
        )
        raise CorruptRecordError(reason, position=position)
    if first < lowest:
        raise CorruptRecordError(
            f"offsets {first} to {last} follow offset {lowest - 1}; restore the file", position=position
        )
    if expected is not None and first > expected and holes() is Holes.NOWHERE:
        reason = f"offsets {expected} to {first - 1} are missing before this batch, {NEVER_COMPACTED}"
        raise MissingSegmentError(reason, position=position)


def size_at_start(buffer: Bytes) -> int:
    """Returns the size in bytes of the batch at the start of ``buffer``, according to its header.

    Returns 0 if the buffer is shorter than 12 bytes, where the length field ends.
    """
    if len(buffer) < LOG_OVERHEAD:
        return 0
    return int.from_bytes(buffer[LENGTH_AT:LOG_OVERHEAD].tobytes(), "big", signed=True) + LOG_OVERHEAD
