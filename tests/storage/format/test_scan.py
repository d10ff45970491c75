"""The walk over batches: where it stops, why, and how that is described."""

from __future__ import annotations

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import CorruptRecordError, UnsupportedMagicError
from pyspark_commitlog.storage.format import StopReason, v2
from pyspark_commitlog.storage.format.legacy import v0, v1
from pyspark_commitlog.storage.format.tables import BinaryColumn, Bytes, Records

SIZES = {0: 12 + 14 + 1, 1: 12 + 22 + 1, 2: 61 + 8}  # of a batch of one record without a key, its value one byte


def one(offset: int) -> Records:
    return Records(
        np.array([offset], dtype=np.int64),
        np.array([1000], dtype=np.int64),
        np.zeros(1, dtype=np.int8),
        None,
        BinaryColumn.from_list([b"v"]),
        None,
    )


def batch(offset: int, magic: int = 2) -> Bytes:
    return v2.encode(one(offset), v2.BatchFields()) if magic == 2 else (v0, v1)[magic].encode(one(offset))


def with_number(buffer: Bytes, at: int, value: int, width: int) -> Bytes:
    changed = buffer.copy()
    changed[at : at + width] = list(value.to_bytes(width, "big", signed=True))
    return changed


@pytest.mark.parametrize("magics", [[2, 2, 2], [0, 0], [1, 1, 1], [0, 1, 2, 2, 1, 0, 2]])
def test_batches_of_all_formats_are_found_in_their_order(magics: list[int]) -> None:
    buffer = np.concatenate([batch(offset, magic) for offset, magic in enumerate(magics)])
    scan = formats.scan(buffer)
    table = scan.headers.table
    assert table["magic"].tolist() == magics
    assert table["base_offset"].tolist() == table["last_offset"].tolist() == list(range(len(magics)))
    assert table["size"].tolist() == [SIZES[magic] for magic in magics]
    assert table["position"].tolist() == np.cumsum([0, *table["size"][:-1]]).tolist()
    assert (scan.end, scan.reason) == (len(buffer), StopReason.END)
    assert scan.headers.end == len(buffer)
    decoded = formats.decode(buffer, scan.headers)
    assert decoded.records.offsets.tolist() == list(range(len(magics)))
    assert decoded.records.timestamp_types.tolist() == [-1 if magic == 0 else 0 for magic in magics]
    assert decoded.counts.tolist() == [1] * len(magics)


@pytest.mark.parametrize("left", range(1, SIZES[2]))
def test_any_partial_batch_is_a_torn_tail(left: int) -> None:
    """Of any length: a complete, valid length field shows that more was to come."""
    buffer = np.concatenate([batch(0), batch(1)])
    scan = formats.scan(buffer[: len(buffer) - SIZES[2] + left])
    assert (len(scan.headers), scan.end, scan.reason) == (1, SIZES[2], StopReason.TRUNCATED)


@pytest.mark.parametrize(
    ("magic", "length", "reason"),
    [
        (magic, length, StopReason.BAD_SIZE)
        for magic, lengths in {0: (13, -1), 1: (21,), 2: (48,)}.items()
        for length in lengths
    ]
    + [(0, -(2**31), StopReason.BAD_SIZE), (2, 2**31 - 1, StopReason.TRUNCATED)],
)
def test_an_impossible_length_stops_the_walk(magic: int, length: int, reason: StopReason) -> None:
    buffer = np.concatenate([batch(0, magic), with_number(batch(1, magic), 8, length, 4), batch(2, magic)])
    scan = formats.scan(buffer)
    assert (len(scan.headers), scan.end, scan.reason) == (1, SIZES[magic], reason)
    if reason is StopReason.BAD_SIZE:
        error = formats.stop_error(scan, buffer)
        assert type(error) is CorruptRecordError
        assert error.position == SIZES[magic]
        assert str(length) in error.reason


@pytest.mark.parametrize(
    ("magic", "reason", "kind"),
    [
        (3, StopReason.UNKNOWN_MAGIC, UnsupportedMagicError),
        (127, StopReason.UNKNOWN_MAGIC, UnsupportedMagicError),
        (-1, StopReason.BAD_MAGIC, CorruptRecordError),
        (-128, StopReason.BAD_MAGIC, CorruptRecordError),
    ],
)
def test_a_newer_magic_is_distinguished_from_an_invalid_one(
    magic: int, reason: StopReason, kind: type[CorruptRecordError]
) -> None:
    buffer = np.concatenate([batch(0), with_number(batch(1), 16, magic, 1)])
    scan = formats.scan(buffer)
    assert (len(scan.headers), scan.reason) == (1, reason)
    error = formats.stop_error(scan, buffer)
    assert type(error) is kind
    assert error.position == SIZES[2]
    assert str(magic) in error.reason


@pytest.mark.parametrize("batches_max", [0, 1, 4095, 4096, 4097, 9000, 9999, 10_000, 20_000])
def test_as_many_batches_as_asked_for_and_then_on_from_there(batches_max: int) -> None:
    """Ten thousand: more than a walk finds at once."""
    buffer = np.tile(batch(0), 10_000)
    scan = formats.scan(buffer, batches_max=batches_max)
    found = min(batches_max, 10_000)
    assert (len(scan.headers), scan.end) == (found, found * SIZES[2])
    assert scan.reason is (StopReason.FULL if batches_max < 10_000 else StopReason.END)
    rest = formats.scan(buffer, start=scan.end)
    assert (len(rest.headers), rest.reason) == (10_000 - found, StopReason.END)
    assert rest.headers.table["position"][:1].tolist() == [scan.end][: len(rest.headers)]


def test_of_nothing_nothing_is_found() -> None:
    scan = formats.scan(np.empty(0, dtype=np.uint8))
    assert (len(scan.headers), scan.end, scan.reason, scan.headers.end) == (0, 0, StopReason.END, 0)
    decoded = formats.decode(np.empty(0, dtype=np.uint8), scan.headers)
    assert (len(decoded.records), decoded.counts.tolist()) == (0, [])
