"""Decodes the records of many batches, of any magic, into one table.

A decoder lists parts: a source of bytes and the batches (or messages) in it. Parts may have any magic and any number of
sources, since each decompressed batch is one. All end up in one :class:`Records`, in the order they were added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from ..errors import InvalidRecordError, TableSizeError
from ..kernels import memory, records as kernel
from ..kernels.arrays import frozen
from .constants import INT32_MAX
from .tables import BinaryColumn, Bools, Bytes, HeadersColumn, Int32s, Int64s, Records

ALL_COLUMNS = ("key", "value", "headers")
RECORD_BYTES_MIN = 7  # of magic 2, without key, value and headers
MESSAGE_BYTES_MIN = 14  # of magic 0, without key and value
SAMPLED_BATCHES = 16  # used to estimate the size of keys and values
SPARE = 1 / 16  # allocated on top of that estimate

Batches = TypeVar("Batches")
Result = TypeVar("Result")


class Part(NamedTuple):
    """A source of bytes, and the batches of magic 2 or the legacy messages in it."""

    source: Bytes
    table: Int64s  # in the layout that kernels.records.fill or fill_messages expects
    is_legacy: bool
    positions: Int64s  # shape (rows of table,): position of the batch that each row is part of, for errors


def describe(reason: int, record: int) -> str:
    """Returns a sentence that says why a kernel stopped at a record."""
    reasons = {
        kernel.RECORD_CUT: "the batch ends before the record does",
        kernel.BAD_VARINT: "its length is a varint of more than 5 bytes",
        kernel.BAD_LENGTH: "its length is invalid",
        kernel.BAD_STRUCTURE: "one of its fields reaches beyond its end",
        kernel.NOT_CONSUMED: "it is longer than its fields",
        kernel.BAD_HEADER_COUNT: "its header count is invalid",
        kernel.NULL_HEADER_KEY: "one of its headers has no key",
        kernel.TRAILING_BYTES: "more bytes follow the last record that the batch header counts",
        kernel.NESTED: "it is a compressed message inside a compressed message",
    }
    return f"record {record} does not decode: {reasons[reason]}"


def in_parts(
    read: Callable[[Batches], Result], batches: Batches, halves: Callable[[Batches], Sequence[Batches]]
) -> Iterator[Result]:
    """Yields the result of ``read`` for some batches; for each half of them if one table is too small for all.

    A few megabytes of compressed batches may have more bytes of records than a table can have. ``halves`` returns two
    halves of some batches, or nothing for a single one: the TableSizeError of ``read`` for it is raised. Keeps no
    reference to a result, nor, while the caller uses it, to the batches that were read: so their memory is free.
    """
    found: list[Result] = []
    parts: Sequence[Batches] = ()
    try:
        found.append(read(batches))
    except TableSizeError:
        parts = halves(batches)
        if not parts:
            raise
    del batches
    if found:
        yield found.pop()
    for part in parts:  # here, because the error holds what was decompressed
        yield from in_parts(read, part, halves)


def in_halves(read: Callable[[Int64s], Result], rows: Int64s) -> Iterator[Result]:
    """Yields the result of ``read`` for the batches in some rows of a table, in parts as :func:`in_parts`."""
    return in_parts(read, rows, _halves_of_rows)


def _halves_of_rows(rows: Int64s) -> Sequence[Int64s]:
    return np.array_split(rows, 2) if len(rows) > 1 else ()


def halves_of_slice(batches: slice) -> Sequence[slice]:
    """Returns the two halves of a slice of batches; nothing for a single one, for :func:`in_parts`."""
    middle = (batches.start + batches.stop) // 2
    return (slice(batches.start, middle), slice(middle, batches.stop)) if batches.stop - batches.start > 1 else ()


def fill(parts: list[Part], columns: tuple[str, ...]) -> Records:
    """Returns the records of all parts.

    Raises InvalidRecordError, with its position, for a batch that does not decode.
    """
    for key_bytes, value_bytes in _rooms(parts) if columns else [(0, 0)]:
        found = _filled(parts, columns, key_bytes, value_bytes)
        if found is not None:
            return found
    raise AssertionError("keys and values take more bytes than measured")


def _filled(parts: list[Part], columns: tuple[str, ...], key_bytes: int, value_bytes: int) -> Records | None:
    """Returns the same as :func:`fill`, or None if the keys or values take more bytes than given.

    Legacy messages must not take more.
    """
    rows = sum(rows_at_most(part) for part in parts) + 1  # a record that fails to decode may have begun its row
    state = np.zeros(kernel.STATE_CELLS, dtype=np.int64)
    bits = {"key": kernel.WANT_KEYS, "value": kernel.WANT_VALUES, "headers": kernel.WANT_HEADERS}
    state[kernel.WANTED] = sum(bits[column] for column in columns)
    arrays = _arrays(rows, key_bytes, value_bytes, columns)
    firsts = []
    for part in parts:
        firsts.append(int(state[kernel.ROWS]))
        loop = kernel.fill_messages if part.is_legacy else kernel.fill
        done, why = loop(frozen(part.source), part.table, arrays, state)
        if why == kernel.NO_ROOM:
            return None
        if why != kernel.FINE:
            raise InvalidRecordError(
                describe(why, int(state[kernel.FAILED_RECORD])), position=int(part.positions[done])
            )
    return _records(parts, firsts, arrays, state, columns)


def _rooms(parts: list[Part]) -> Iterator[tuple[int, int]]:
    """Yields (bytes for keys, bytes for values) to try: an estimate from some batches, then the exact size for all.

    Measuring all batches takes a quarter of the decoding time. Allocating far too much would take even longer, because
    the system supplies large arrays page fault by page fault.
    """
    batches = sum(len(part.table) for part in parts)
    if batches >= 2 * SAMPLED_BATCHES and not any(part.is_legacy for part in parts):
        step = batches // SAMPLED_BATCHES
        sample = [part._replace(table=np.ascontiguousarray(part.table[::step])) for part in parts]
        most = min(_record_bytes(parts), INT32_MAX)
        share = (1 + SPARE) * _record_bytes(parts) / max(_record_bytes(sample), 1)
        keys, values = (min(int(size * share), most) for size in _string_bytes(sample))
        yield keys, values
    keys, values = _string_bytes(parts)
    _check_room(parts, {"keys": keys, "values": values})
    yield keys, values


def _record_bytes(parts: list[Part]) -> int:
    return sum(int((part.table[:, kernel.STOP] - part.table[:, kernel.START]).sum()) for part in parts)


def _check_room(parts: list[Part], sizes: dict[str, int]) -> None:
    """Raises TableSizeError if a column would exceed 32-bit offsets."""
    if max(sizes.values()) > INT32_MAX:
        requested = ", ".join(f"{size} bytes of {what}" for what, size in sizes.items())
        raise TableSizeError(f"{requested} at once: decode fewer batches", position=int(parts[0].positions[0]))


def _string_bytes(parts: list[Part]) -> tuple[int, int]:
    """Returns the most bytes that all keys, and all values, can take."""
    keys = values = 0
    for part in parts:
        if part.is_legacy:
            found = (int((part.table[:, kernel.MESSAGE_STOP] - part.table[:, kernel.MESSAGE_START]).sum()),) * 2
        else:
            found = kernel.string_bytes(frozen(part.source), part.table)
        keys, values = keys + int(found[0]), values + int(found[1])
    return keys, values


def rows_at_most(part: Part) -> int:
    """Returns the most records that a part can hold, by its bytes: the count in a header may be wrong."""
    if part.is_legacy:
        return len(part.table)
    room = (part.table[:, kernel.STOP] - part.table[:, kernel.START]) // RECORD_BYTES_MIN
    return int(np.minimum(part.table[:, kernel.COUNT], room).sum())


def _arrays(rows: int, key_bytes: int, value_bytes: int, columns: tuple[str, ...]) -> kernel.Columns:
    def strings(size: int, wanted: bool) -> tuple[Bytes, Int32s, Bools]:
        data = np.empty(size + memory.BLOCK_BYTES if wanted else 0, dtype=np.uint8)
        return data, _offsets(rows if wanted else 0), np.ones(rows if wanted else 0, dtype=np.bool_)

    return kernel.Columns(
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int8),
        *strings(key_bytes, "key" in columns),
        *strings(value_bytes, "value" in columns),
        _offsets(rows),
        np.empty(rows, dtype=np.int64),
    )


def _offsets(rows: int) -> Int32s:
    offsets = np.empty(rows + 1, dtype=np.int32)
    offsets[0] = 0
    return offsets


def _records(
    parts: list[Part], firsts: list[int], arrays: kernel.Columns, state: Int64s, columns: tuple[str, ...]
) -> Records:
    cells = state.tolist()
    rows = cells[kernel.ROWS]

    def strings(data: Bytes, offsets: Int32s, valid: Bools) -> BinaryColumn:
        valid = valid[:rows]
        return BinaryColumn(data[: offsets[rows]], offsets[: rows + 1], None if valid.all() else valid)

    keys = (arrays.key_data, arrays.key_offsets, arrays.key_valid)
    values = (arrays.value_data, arrays.value_offsets, arrays.value_valid)
    has_headers = "headers" in columns and cells[kernel.HEADERS] > 0
    return Records(
        arrays.offsets[:rows],
        arrays.timestamps[:rows],
        arrays.timestamp_types[:rows],
        strings(*keys) if "key" in columns else None,
        strings(*values) if "value" in columns else None,
        _headers(parts, [*firsts, rows], arrays, cells) if has_headers else None,
    )


def _headers(parts: list[Part], bounds: list[int], arrays: kernel.Columns, cells: list[int]) -> HeadersColumn:
    count = cells[kernel.HEADERS]
    key_bytes, value_bytes = cells[kernel.HEADER_KEY_BYTES], cells[kernel.HEADER_VALUE_BYTES]
    _check_room(parts, {"header keys": key_bytes, "header values": value_bytes, "headers": count})
    headers = kernel.Headers(
        np.empty(key_bytes, dtype=np.uint8),
        _offsets(count),
        np.empty(value_bytes, dtype=np.uint8),
        _offsets(count),
        np.empty(count, dtype=np.bool_),
    )
    state = np.zeros(kernel.STATE_CELLS, dtype=np.int64)
    for part, (first, last) in zip(parts, pairwise(bounds), strict=True):
        if not part.is_legacy:
            kernel.fill_headers(frozen(part.source), first, last, arrays, headers, state)
    valid = headers.value_valid if cells[kernel.NULL_HEADER_VALUES] else None
    return HeadersColumn(
        arrays.header_offsets[: bounds[-1] + 1],
        BinaryColumn(headers.key_data, headers.key_offsets, None),
        BinaryColumn(headers.value_data, headers.value_offsets, valid),
    )
