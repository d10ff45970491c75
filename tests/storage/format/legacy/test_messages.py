"""Message sets of magic 0 and 1: offsets in wrappers are absolute in magic 0, relative in magic 1."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import InvalidRecordError, UnsupportedCompressionTypeError
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.legacy import v0, v1
from pyspark_commitlog.storage.format.tables import BinaryColumn, Bytes, Records
from tests.torture.damage.damaging import sign_messages

VALUE_SIZE_AT = 12 + 14 + 4  # in a wrapper of magic 1: after offset and length, the fixed fields, a null key's size
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
STRINGS = st.none() | st.binary(max_size=20)
ROWS = st.lists(st.tuples(st.integers(1, 2**33), st.integers(-1, 2**62), STRINGS, STRINGS), min_size=1, max_size=6)


def table(rows: list[tuple[int, int, bytes | None, bytes | None]], append_time: bool = False) -> Records:
    """Records whose offsets are the first field of each row apart."""
    steps, times, keys, values = zip(*rows, strict=True)
    return Records(
        np.cumsum(steps, dtype=np.int64),
        np.array(times, dtype=np.int64),
        np.full(len(rows), append_time, dtype=np.int8),
        BinaryColumn.from_list(list(keys)),
        BinaryColumn.from_list(list(values)),
        None,
    )


def decoded(buffer: Bytes) -> Records:
    return formats.decode(buffer, formats.scan(buffer).headers).records


def lists(records: Records) -> list[list[object]]:
    assert records.keys is not None
    assert records.values is not None
    return [records.offsets.tolist(), list(records.keys.to_list()), list(records.values.to_list())]


def with_offset(wrapper: Bytes, offset: int) -> Bytes:
    """The wrapper appended elsewhere: its offset is outside the checksum."""
    moved = wrapper.copy()
    moved[:8] = list(offset.to_bytes(8, "big", signed=True))
    return moved


def test_a_wrapper_whose_value_would_reach_beyond_it_is_refused() -> None:
    wrapper = bytearray(v1.encode(table([ROW]), Codec.GZIP).tobytes())
    size = wrapper[VALUE_SIZE_AT + 3]
    assert len(wrapper) == VALUE_SIZE_AT + 4 + size
    wrapper[VALUE_SIZE_AT + 3] = size + 1
    with pytest.raises(InvalidRecordError, match="the key or value of a wrapper reaches beyond its end"):
        decoded(np.frombuffer(sign_messages(bytes(wrapper)), np.uint8))


@given(ROWS, st.sampled_from(CODECS))
def test_messages_of_magic_1_are_read_with_their_gaps_and_times(rows, codec: Codec) -> None:
    records = table(rows)
    buffer = v1.encode(records, codec)
    again = decoded(buffer)
    assert lists(again) == lists(records)
    assert again.timestamps.tolist() == records.timestamps.tolist()
    headers = formats.scan(buffer).headers
    assert headers.table["last_offset"][-1] == records.offsets[-1]
    if codec != Codec.NONE:
        assert headers.table["max_timestamp"].tolist() == [max(records.timestamps.tolist())]


@given(ROWS, st.sampled_from(CODECS))
def test_messages_of_magic_0_are_read_without_times(rows, codec: Codec) -> None:
    records = table(rows)
    again = decoded(v0.encode(records, codec))
    assert lists(again) == lists(records)
    assert set(again.timestamps.tolist()) == {-1}
    assert set(again.timestamp_types.tolist()) == {-1}


ROW = (5, 1000, b"k", b"v")


@pytest.mark.parametrize("codec", CODECS[1:])
def test_the_append_time_of_a_wrapper_is_that_of_all_its_messages(codec: Codec) -> None:
    again = decoded(v1.encode(table([ROW, (1, 1007, None, b""), (1, 900, None, None)], append_time=True), codec))
    assert again.timestamps.tolist() == [1007, 1007, 1007]
    assert set(again.timestamp_types.tolist()) == {1}


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_wrapper_of_magic_1_moves_its_messages_along(codec: Codec) -> None:
    wrapper = v1.encode(table([ROW, (3, 1, None, None), (1, 2, None, None)]), codec)  # inside: 0, 3, 4
    assert decoded(wrapper).offsets.tolist() == [5, 8, 9]
    assert decoded(with_offset(wrapper, 2**40)).offsets.tolist() == [2**40 - 4, 2**40 - 1, 2**40]
    assert decoded(with_offset(wrapper, 4)).offsets.tolist() == [0, 3, 4]
    assert decoded(with_offset(wrapper, 0)).offsets.tolist() == [0, 3, 4]  # as old librdkafka wrote it
    behind = np.concatenate((v1.encode(table([ROW])), with_offset(wrapper, 3)))
    with pytest.raises(InvalidRecordError, match="has offset 3, which contradicts its last inner offset 4") as caught:
        decoded(behind)
    assert caught.value.position == len(behind) - len(wrapper)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_wrapper_of_magic_0_does_not(codec: Codec) -> None:
    wrapper = v0.encode(table([ROW, (3, 1, None, None)]), codec)
    for offset in (8, 2**40, 1, 0):
        assert decoded(with_offset(wrapper, offset)).offsets.tolist() == [5, 8]


@pytest.mark.parametrize("module", [v0, v1])
def test_zstd_is_refused(module) -> None:
    with pytest.raises(UnsupportedCompressionTypeError, match="zstd"):
        module.encode(table([ROW]), Codec.ZSTD)


@pytest.mark.parametrize("module", [v0, v1])
@pytest.mark.parametrize("codec", CODECS)
def test_no_records_are_no_bytes(module, codec: Codec) -> None:
    nothing = decoded(np.empty(0, dtype=np.uint8))
    assert len(module.encode(nothing, codec)) == 0


@pytest.mark.parametrize("module", [v0, v1])
@given(data=st.data())
def test_a_damaged_set_is_refused_or_read_but_nothing_else(module, data: st.DataObject) -> None:
    """With a correct checksum around the damage, so that it is decoded."""
    buffer = module.encode(table(data.draw(ROWS)), data.draw(st.sampled_from(CODECS))).copy()
    size = int(formats.scan(buffer).headers.table["size"][0])
    for _ in range(data.draw(st.integers(1, 3))):
        buffer[data.draw(st.integers(17, size - 1))] = data.draw(st.integers(0, 255))
    buffer[12:16] = list(zlib.crc32(buffer[16:size]).to_bytes(4, "big"))
    headers = formats.scan(buffer).headers
    try:
        found = formats.decode(buffer, headers)
    except InvalidRecordError as error:
        found = None
        position = error.position
    assert found is None or len(found.records) == found.counts.sum()
    assert found is not None or position in headers.table["position"].tolist()
