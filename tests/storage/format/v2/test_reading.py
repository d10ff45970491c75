"""Runs of batches read into one table: their number, their compression, and damaged ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import DecompressedSizeError, InvalidRecordError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.compression import compress
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import BatchHeaders, BinaryColumn, Bytes, HeadersColumn, Records

COMPRESSED = [codec for codec in Codec if codec != Codec.NONE]


def records(count: int, value_bytes: int) -> Records:
    """Every third record has a header, every fifth no value."""
    with_header = np.arange(count) % 3 == 0
    names: list[bytes | None] = [b"h%d" % i for i in np.flatnonzero(with_header)]
    return Records(
        np.arange(count, dtype=np.int64),
        np.arange(count, dtype=np.int64),
        np.zeros(count, dtype=np.int8),
        BinaryColumn.from_list([b"%d" % i for i in range(count)]),
        BinaryColumn.from_list([None if i % 5 == 0 else b"%d" % i * value_bytes for i in range(count)]),
        HeadersColumn(
            np.concatenate(([0], np.cumsum(with_header))).astype(np.int32),
            BinaryColumn.from_list(names),
            BinaryColumn.from_list(names),
        ),
    )


def as_lists(table: Records) -> list[list[object]]:
    assert table.keys is not None
    assert table.values is not None
    assert table.headers is not None
    return [
        table.offsets.tolist(),
        table.timestamps.tolist(),
        list(table.keys.to_list()),
        list(table.values.to_list()),
        table.headers.offsets.tolist(),
        list(table.headers.keys.to_list()),
        list(table.headers.values.to_list()),
    ]


def with_damage(buffer: Bytes, headers: BatchHeaders, row: int) -> tuple[Bytes, int]:
    """The same batches except one, whose records begin with a negative length; and its position."""
    one = headers[row : row + 1]
    position, size = int(one.table["position"][0]), int(one.table["size"][0])
    body = v2.parts(buffer, one, 2**30)[0].source.copy()
    body[0] = 1
    codec = int(one.codec[0])
    spoiled = np.concatenate((buffer[position : position + 61], compress(Codec(codec), body)))
    spoiled[8:12] = list((len(spoiled) - 12).to_bytes(4, "big"))
    v2.sign(spoiled, np.zeros(1, dtype=np.int64), np.array([len(spoiled)]))
    return np.concatenate((buffer[:position], spoiled, buffer[position + size :])), position


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    ("count", "value_bytes", "batch_bytes"), [(3000, 3, 50), (300, 2000, 100_000), (40, 30_000, 1)]
)
def test_batches_small_and_large_make_one_table(codec: Codec, count: int, value_bytes: int, batch_bytes: int) -> None:
    """Small ones are joined after decompression; some of these runs are joined several times."""
    table = records(count, value_bytes)
    buffer, headers = v2.encode_batches(table, v2.BatchFields(codec=codec), batch_bytes_max=batch_bytes)
    assert len(headers) > 3
    decoded = formats.decode(buffer, headers)
    assert as_lists(decoded.records) == as_lists(table)
    assert decoded.counts.tolist() == headers.table["count"].tolist()


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("row", [0, 1, 250, -1])
def test_the_damaged_one_of_many_joined_batches_is_reported_by_its_position(codec: Codec, row: int) -> None:
    buffer, headers = v2.encode_batches(records(1000, 3), v2.BatchFields(codec=codec), batch_bytes_max=30)
    spoiled, position = with_damage(buffer, headers, row % len(headers))
    with pytest.raises(InvalidRecordError, match="record 0 does not decode: its length is invalid") as caught:
        formats.decode(spoiled, formats.scan(spoiled).headers)
    assert caught.value.position == position


@pytest.mark.parametrize("codec", Codec)
def test_more_bytes_than_fit_a_column_are_refused_with_advice(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bound of 10 kB in place of 2 GB."""
    buffer, headers = v2.encode_batches(records(1000, 10), v2.BatchFields(codec=codec), batch_bytes_max=500)
    monkeypatch.setattr(v2.filling, "INT32_MAX", 10_000)
    with pytest.raises(InvalidRecordError, match="decode fewer batches") as caught:
        formats.decode(buffer, headers)
    assert caught.value.position in headers.table["position"].tolist()
    half = formats.decode(buffer, headers[: len(headers) // 8])
    assert len(half.records) == int(headers.table["count"][: len(headers) // 8].sum())


def test_one_batch_may_decompress_to_no_more_than_asked() -> None:
    buffer, headers = v2.encode_batches(records(100, 50), v2.BatchFields(codec=Codec.ZSTD), batch_bytes_max=10**6)
    with pytest.raises(DecompressedSizeError, match="more than the 1000 bytes allowed") as caught:
        formats.decode(buffer, headers, decompressed_bytes_max=1000)
    assert caught.value.position == 0


def with_sizes(sizes: list[tuple[int, int]]) -> tuple[Records, Bytes]:
    """One record per batch, with keys and values of these sizes; consecutive batches."""
    count = len(sizes)
    keys: list[bytes | None] = [b"k" * key for key, _ in sizes]
    values: list[bytes | None] = [b"v" * value for _, value in sizes]
    numbers = np.arange(count, dtype=np.int64)
    columns = BinaryColumn.from_list(keys), BinaryColumn.from_list(values)
    table = Records(numbers, numbers, np.zeros(count, dtype=np.int8), *columns, None)
    return table, v2.encode_batches(table, v2.BatchFields(), batch_bytes_max=1).buffer


def strings(table: Records) -> list[list[bytes | None]]:
    assert table.keys is not None
    assert table.values is not None
    return [list(table.keys.to_list()), list(table.values.to_list())]


@pytest.mark.parametrize("large", [(5_000, 0), (0, 5_000), (5_000, 5_000)], ids=["keys", "values", "both"])
@pytest.mark.parametrize("batches", [31, 32, 33, 64, 1_000])
@pytest.mark.parametrize("place", [1, 17, -1])
def test_columns_are_complete_if_few_batches_have_nearly_all_of_their_bytes(
    batches: int, large: tuple[int, int], place: int
) -> None:
    """Some of the batches are sampled for the space that keys and values need; they differ from the others here."""
    sizes = [(1, 1)] * batches
    sizes[place] = large
    table, buffer = with_sizes(sizes)
    assert strings(formats.decode(buffer, formats.scan(buffer).headers).records) == strings(table)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=32, max_size=100))
def test_columns_of_many_batches_of_any_sizes(sizes: list[tuple[int, int]]) -> None:
    table, buffer = with_sizes(sizes)
    assert strings(formats.decode(buffer, formats.scan(buffer).headers).records) == strings(table)


def test_damage_after_more_bytes_than_expected_is_reported_with_its_position() -> None:
    """The batches before it need more space than sampled; the error reported is the damage, not that."""
    sizes = [(1, 1)] * 64
    sizes[3] = (3_000, 3_000)
    _, buffer = with_sizes(sizes)
    headers = formats.scan(buffer).headers
    damaged = headers.table[50]
    buffer[int(damaged["position"]) + v2.LAYOUT.itemsize] = 1  # the record's length
    v2.sign(buffer, damaged["position"].reshape(1), damaged["size"].reshape(1))
    with pytest.raises(InvalidRecordError) as caught:
        formats.decode(buffer, formats.scan(buffer).headers)
    assert caught.value.position == damaged["position"]
