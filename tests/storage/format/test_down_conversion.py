"""What clients of Kafka before 0.11 get of record batches: message sets of magic 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage import UnsupportedCompressionTypeError, format as formats, to_older_format
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec, TimestampType
from pyspark_commitlog.storage.format.legacy import v1
from pyspark_commitlog.storage.format.tables import BinaryColumn, Bytes, HeadersColumn, Records

LIMIT = 2**20
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def records(*values: bytes | None, first: int = 0, append_time: bool = False) -> Records:
    count = len(values)
    kind = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
    return Records(
        np.arange(first, first + count, dtype=np.int64),
        np.arange(1000, 1000 + count, dtype=np.int64),
        np.full(count, kind, dtype=np.int8),
        BinaryColumn.from_list([None if value is None else b"k" for value in values]),
        BinaryColumn.from_list([*values]),
        None,
    )


def batch(*values: bytes | None, first: int = 0, codec: Codec = Codec.NONE, **fields: Any) -> Bytes:
    made = v2.encode_batches(records(*values), v2.BatchFields(codec=codec, **fields), batch_bytes_max=2**31 - 1)
    v2.stamp(made.buffer, made.headers, base_offset=first, leader_epoch=3)
    return made.buffer


def both(*batches: Bytes) -> Bytes:
    return np.concatenate(batches)


def converted(buffer: Bytes, magic: int, first_offset: int = 0) -> Bytes:
    found = to_older_format(buffer, magic, first_offset, LIMIT)
    assert found is not None
    return np.frombuffer(found, dtype=np.uint8)


def rows(buffer: Bytes) -> list[tuple[int, int, bytes | None]]:
    found = formats.scan(buffer)
    decoded = formats.decode(buffer, found.headers).records
    assert decoded.values is not None
    return list(zip(decoded.offsets.tolist(), decoded.timestamps.tolist(), decoded.values.to_list(), strict=True))


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_becomes_messages_or_one_wrapper_of_its_codec(magic: int, codec: Codec) -> None:
    found = converted(batch(b"a", None, b"c", first=7, codec=codec), magic)
    headers = formats.scan(found).headers
    times = [1000, 1001, 1002] if magic else [-1, -1, -1]
    assert rows(found) == list(zip([7, 8, 9], times, [b"a", None, b"c"], strict=True))
    assert headers.codec.tolist() == ([codec] if codec else [Codec.NONE] * 3)
    assert headers.table["last_offset"].tolist() == ([9] if codec else [7, 8, 9])
    assert set(headers.table["magic"].tolist()) == {magic}
    if codec and magic:
        assert headers.table["max_timestamp"].tolist() == [1002]


@pytest.mark.parametrize("magic", [0, 1])
def test_inner_offsets_are_relative_in_magic_1_and_absolute_in_magic_0(magic: int) -> None:
    found = converted(batch(b"a", b"b", first=70, codec=Codec.GZIP), magic)
    part = formats.by_magic(magic).parts(found, formats.scan(found).headers, LIMIT)[0]
    inner = [int.from_bytes(part.source[at - 12 : at - 4].tobytes(), "big") for at in part.table[:, 0].tolist()]
    assert inner == ([0, 1] if magic else [70, 71])


def test_plain_records_below_the_fetch_offset_are_left_out_and_those_in_a_wrapper_stay() -> None:
    assert [row[0] for row in rows(converted(batch(b"a", b"b", b"c"), 1, 2))] == [2]
    assert [row[0] for row in rows(converted(batch(b"a", b"b", b"c", codec=Codec.GZIP), 1, 2))] == [0, 1, 2]


def test_record_headers_and_markers_are_left_out() -> None:
    with_headers = records(b"a")
    with_headers = Records(
        with_headers.offsets,
        with_headers.timestamps,
        with_headers.timestamp_types,
        with_headers.keys,
        with_headers.values,
        HeadersColumn.repeated([(b"h", b"x")], 1),
    )
    first = v2.encode_batches(with_headers, v2.BatchFields(), batch_bytes_max=LIMIT).buffer
    marker = batch(b"m", first=1, producer_id=1, producer_epoch=0, transactional=True, control=True)
    last = batch(b"b", first=2)
    assert [row[::2] for row in rows(converted(both(first, marker, last), 1))] == [(0, b"a"), (2, b"b")]
    assert to_older_format(marker, 1, 1, LIMIT) == b""


def test_append_times_stay_append_times() -> None:
    appended = batch(b"a", b"b", codec=Codec.GZIP)
    v2.set_append_time(appended, formats.scan(appended).headers, 5000)
    found = converted(appended, 1)
    assert formats.scan(found).headers.timestamp_type.tolist() == [TimestampType.LOG_APPEND_TIME]
    assert [row[1] for row in rows(found)] == [5000, 5000]


def test_messages_of_magic_1_become_those_of_magic_0_and_are_not_touched_otherwise() -> None:
    old = v1.encode(records(b"a", b"b"), Codec.SNAPPY)
    assert to_older_format(old, 1, 0, LIMIT) is None
    assert rows(converted(old, 0)) == [(0, -1, b"a"), (1, -1, b"b")]
    mixed = both(old, batch(b"c", first=2))
    assert converted(mixed, 1)[: len(old)].tobytes() == old.tobytes()
    assert [row[2] for row in rows(converted(mixed, 1))] == [b"a", b"b", b"c"]


def test_zstd_is_refused_at_the_start_and_ends_what_comes_before_it() -> None:
    packed = batch(b"z", first=1, codec=Codec.ZSTD)
    with pytest.raises(UnsupportedCompressionTypeError, match=r"2\.1"):
        to_older_format(packed, 1, 1, LIMIT)
    assert rows(converted(both(batch(b"a"), packed), 1)) == [(0, 1000, b"a")]


def test_the_result_is_as_large_as_what_was_found_but_holds_the_first_batch() -> None:
    several = both(*(batch(*[b""] * 20, first=20 * index) for index in range(3)))
    found = converted(several, 1)
    first = converted(batch(*[b""] * 20), 1)
    assert len(first) > len(several), "old messages without content are larger"
    assert found.tobytes() == first.tobytes()
    large = both(*(batch(b"x" * 100, first=index) for index in range(3)))
    assert rows(converted(large[:-1], 1)) == rows(converted(large, 1))[:2], "a batch that is cut off is left out"


def test_a_first_batch_that_is_not_whole_asks_for_more_bytes() -> None:
    whole = batch(b"x" * 100)
    for size in (17, 60, len(whole) - 1):
        found = to_older_format(whole[:size], 1, 0, LIMIT)
        assert found is not None
        assert len(found) == 12
        assert int.from_bytes(found[8:], "big") > 0
    assert to_older_format(whole[:16], 1, 0, LIMIT) is None
