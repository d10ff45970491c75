"""What a writer of batches of magic 2 may do, and what is refused before a byte is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import InvalidRecordError, OffsetsOutOfOrderError, RecordTooLargeError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.legacy import v1
from pyspark_commitlog.storage.format.tables import BinaryColumn, Bytes, Records

PRODUCER = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


def records(offsets: list[int], value: bytes = b"value", timestamps: list[int] | None = None) -> Records:
    count = len(offsets)
    return Records(
        np.array(offsets, dtype=np.int64),
        np.array(timestamps or [1000] * count, dtype=np.int64),
        np.zeros(count, dtype=np.int8),
        BinaryColumn.from_list([b"%d" % offset for offset in offsets]),
        BinaryColumn.from_list([value] * count),
        None,
    )


def decoded(buffer: Bytes) -> Records:
    return formats.decode(buffer, formats.scan(buffer).headers).records


def header(buffer: Bytes) -> dict[str, Any]:
    row = formats.scan(buffer).headers.table[0]
    return {name: row[name].item() for name in row.dtype.names or ()}


class TestOffsets:
    def test_gaps_before_between_and_after_the_records_are_kept(self) -> None:
        batch = v2.encode(records([12, 15, 2**31 + 8]), v2.BatchFields(), base_offset=9, last_offset=2**31 + 8)
        assert decoded(batch).offsets.tolist() == [12, 15, 2**31 + 8]
        assert (header(batch)["base_offset"], header(batch)["last_offset"]) == (9, 2**31 + 8)

    def test_the_highest_possible_offsets(self) -> None:
        top = 2**63 - 1
        batch = v2.encode(records([top - 5, top]), v2.BatchFields())
        assert decoded(batch).offsets.tolist() == [top - 5, top]
        assert header(batch)["last_offset"] == top

    @pytest.mark.parametrize(
        ("offsets", "bounds", "said"),
        [
            ([3, 3], {}, "do not increase from record to record"),
            ([3, 5, 4], {}, "do not increase from record to record"),
            ([5, 6], {"base_offset": 6}, "5 to 6 are outside the batch's 6 to 6"),
            ([5, 6], {"last_offset": 5}, "5 to 6 are outside the batch's 5 to 5"),
            ([5, 6], {"base_offset": 6, "last_offset": 8}, "5 to 6 are outside the batch's 6 to 8"),
            ([0, 2**31], {}, "span at most 2147483647"),
            ([2**31], {"base_offset": 0}, "span at most 2147483647"),
            ([0, 2**40], {"last_offset": 10}, "outside the batch's 0 to 10"),
        ],
    )
    def test_records_that_no_batch_can_hold_are_refused(
        self, offsets: list[int], bounds: dict[str, int], said: str
    ) -> None:
        with pytest.raises(OffsetsOutOfOrderError, match=said):
            v2.encode(records(offsets), v2.BatchFields(), **bounds)


class TestTimes:
    def test_of_records_that_go_back_in_time(self) -> None:
        batch = v2.encode(records([0, 1, 2], timestamps=[1000, -1, 2**62]), v2.BatchFields())
        assert decoded(batch).timestamps.tolist() == [1000, -1, 2**62]
        assert (header(batch)["base_timestamp"], header(batch)["max_timestamp"]) == (1000, 2**62)

    @pytest.mark.parametrize("codec", Codec)
    def test_a_delete_horizon_replaces_the_base_and_changes_no_records_time(self, codec: Codec) -> None:
        fields = v2.BatchFields(codec=codec, delete_horizon_ms=86_400_000)
        one = v2.encode(records([4, 5], timestamps=[1000, 900]), fields)
        many = v2.encode_batches(records([4, 5], timestamps=[1000, 900]), fields, batch_bytes_max=1).buffer
        for buffer in (one, many):
            headers = formats.scan(buffer).headers
            assert headers.has_delete_horizon.all()
            assert set(headers.table["base_timestamp"].tolist()) == {86_400_000}
            assert decoded(buffer).timestamps.tolist() == [1000, 900]


class TestFields:
    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"leader_epoch": 2**31}, "leader_epoch 2147483648"),
            ({"leader_epoch": -2}, "leader_epoch -2"),
            (PRODUCER | {"producer_epoch": 2**15}, "producer_epoch 32768"),
            (PRODUCER | {"base_sequence": 2**31}, "base_sequence 2147483648"),
            (PRODUCER | {"producer_id": 2**63}, "producer_id 9223372036854775808"),
            (PRODUCER | {"producer_epoch": -1}, "producer 7 needs an epoch from 0, not -1"),
            (PRODUCER | {"base_sequence": -1}, "producer 7 needs a base sequence from 0, not -1"),
            ({"transactional": True}, "needs a producer id"),
        ],
    )
    def test_that_cannot_be_are_refused(self, fields: dict[str, Any], said: str) -> None:
        with pytest.raises(ValueError, match=said):
            v2.BatchFields(**fields)

    def test_the_largest_of_each_are_kept(self) -> None:
        fields = v2.BatchFields(
            leader_epoch=2**31 - 1, producer_id=2**63 - 1, producer_epoch=2**15 - 1, base_sequence=2**31 - 1
        )
        told = header(v2.encode(records([0]), fields))
        assert [told[name] for name in ("leader_epoch", "producer_id", "producer_epoch", "base_sequence")] == [
            2**31 - 1,
            2**63 - 1,
            2**15 - 1,
            2**31 - 1,
        ]

    def test_control_batches_have_no_sequences(self) -> None:
        fields = v2.BatchFields(producer_id=7, producer_epoch=0, transactional=True, control=True)
        headers = v2.encode_batches(records([0, 1, 2]), fields, batch_bytes_max=1).headers
        assert headers.table["base_sequence"].tolist() == [-1, -1, -1]


class TestCutting:
    """Records of 13 bytes: length, attributes, two deltas, a key of one and a value of five, and no headers."""

    SIZE = 13

    def sizes(self, count: int, batch_bytes_max: int, codec: Codec = Codec.NONE) -> list[int]:
        fields = v2.BatchFields(codec=codec)
        encoded = v2.encode_batches(records(list(range(count))), fields, batch_bytes_max=batch_bytes_max)
        assert decoded(encoded.buffer).offsets.tolist() == list(range(count))
        assert (
            encoded.headers.table["base_offset"].tolist()
            == np.cumsum([0, *encoded.headers.table["count"][:-1]]).tolist()
        )
        return encoded.headers.table["count"].tolist()  # type: ignore[no-any-return]

    @pytest.mark.parametrize("codec", Codec)
    def test_a_record_that_fits_exactly_is_in_and_one_byte_less_leaves_it_out(self, codec: Codec) -> None:
        assert self.sizes(10, 5 * self.SIZE, codec) == [5, 5]
        assert self.sizes(10, 5 * self.SIZE - 1, codec) == [4, 4, 2]

    @pytest.mark.parametrize("batch_bytes_max", [0, 1, 12])
    def test_records_larger_than_allowed_are_batches_alone(self, batch_bytes_max: int) -> None:
        assert self.sizes(3, batch_bytes_max) == [1, 1, 1]

    def test_one_large_record_among_small_ones_is_alone(self) -> None:
        table = records(list(range(5)))
        values = BinaryColumn.from_list([b"s", b"s", bytes(500), b"s", b"s"])
        table = Records(table.offsets, table.timestamps, table.timestamp_types, None, values, None)
        headers = v2.encode_batches(table, v2.BatchFields(), batch_bytes_max=100).headers
        assert headers.table["count"].tolist() == [2, 1, 2]

    @pytest.mark.parametrize("codec", Codec)
    def test_sequences_continue_over_batches_and_wrap_to_zero(self, codec: Codec) -> None:
        fields = v2.BatchFields(codec=codec, producer_id=7, producer_epoch=0, base_sequence=2**31 - 4)
        headers = v2.encode_batches(records(list(range(6))), fields, batch_bytes_max=2 * self.SIZE).headers
        assert headers.table["base_sequence"].tolist() == [2**31 - 4, 2**31 - 2, 0]

    def test_some_rows_of_a_table_are_written_without_the_others(self) -> None:
        only = np.array([True, False, True, False, False])
        encoded = v2.encode_batches(records(list(range(5))), v2.BatchFields(), only=only, batch_bytes_max=10**6)
        keys = decoded(encoded.buffer).keys
        assert keys is not None
        assert keys.to_list() == [b"0", b"2"]

    @pytest.mark.parametrize(
        "shares",
        [
            pytest.param([0, 1, 2], id="a share above those there are"),
            pytest.param([0, 1], id="fewer than rows"),
            pytest.param([0, 1, 0, 1], id="more than rows"),
        ],
    )
    def test_shares_that_are_not_of_the_rows_are_refused(self, shares: list[int]) -> None:
        table = v2.Divided(records([0, 1, 2]), np.array(shares, dtype=np.int32))
        with pytest.raises(IndexError, match="3 records"):
            list(v2.ShareEncoder(2, v2.BatchFields(), batch_bytes_max=1).encode([table]))

    def test_results_too_large_for_the_given_memory_get_memory_of_their_own(self) -> None:
        memory = np.zeros(500, dtype=np.uint8)
        encoder = v2.ShareEncoder(2, v2.BatchFields(), batch_bytes_max=10**6, memory=memory)
        small = v2.Divided(records([0, 1]), np.array([1, 0], dtype=np.int32))
        large = v2.Divided(records(list(range(40))), np.zeros(40, dtype=np.int32))
        shared = [
            [(share, np.shares_memory(encoded.buffer, memory)) for share, encoded in encoder.encode([table])]
            for table in (small, large, small)
        ]
        assert shared == [[(0, True), (1, True)], [(0, False)], [(0, True), (1, True)]]

    def test_a_slice_of_a_table_is_written_without_the_rest(self) -> None:
        part = records(list(range(100))).slice(40, 43)
        encoded = v2.encode_batches(part, v2.BatchFields(), batch_bytes_max=10**6)
        keys = decoded(encoded.buffer).keys
        assert keys is not None
        assert keys.to_list() == [b"40", b"41", b"42"]
        assert len(encoded.buffer) < 61 + 3 * 20

    def test_a_column_that_was_not_asked_for_is_written_as_nulls(self) -> None:
        buffer = v2.encode(records([0, 1]), v2.BatchFields())
        only_values = formats.decode(buffer, formats.scan(buffer).headers, columns=("value",)).records
        for again in (v2.encode(only_values, v2.BatchFields()), v1.encode(only_values)):
            keys = decoded(again).keys
            assert keys is not None
            assert keys.to_list() == [None, None]


@pytest.mark.only_all  # makes a batch of gigabytes
def test_a_batch_too_large_for_its_length_field_is_refused() -> None:
    """One value of 2^31 - 61 bytes, never accessed: with everything around it, it is a few bytes too large."""
    size = 2**31 - 61
    table = Records(
        np.zeros(1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(1, dtype=np.int8),
        None,
        BinaryColumn(np.zeros(size, dtype=np.uint8), np.array([0, size], dtype=np.int32), None),
        None,
    )
    with pytest.raises(RecordTooLargeError, match="2147483647"):
        v2.encode(table, v2.BatchFields())


CHANGES = {
    "stamp": lambda buffer, headers: v2.stamp(buffer, headers, base_offset=5, leader_epoch=1),
    "stamp_producer": lambda buffer, headers: v2.stamp_producer(
        buffer,
        headers,
        base_offset=int(headers.table["base_offset"][0]),
        leader_epoch=int(headers.table["leader_epoch"][0]),
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=False,
    ),
    "set_append_time": lambda buffer, headers: v2.set_append_time(buffer, headers, 5),
    "set_max_timestamp": lambda buffer, headers: v2.set_max_timestamp(buffer, headers, np.array([5])),
}


class TestChangingInPlace:
    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
    def test_bytes_that_must_not_change_are_refused(self, change: Any) -> None:
        data = v2.encode(records([0, 1]), v2.BatchFields()).tobytes()
        buffer = np.frombuffer(data, dtype=np.uint8)
        before = bytes(bytearray(data))
        with pytest.raises(ValueError, match="read-only"):
            change(buffer, formats.scan(buffer).headers)
        assert data == before

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
    def test_messages_of_old_formats_are_refused(self, change: Any) -> None:
        buffer = v1.encode(records([0])).copy()
        before = buffer.tobytes()
        with pytest.raises(ValueError, match="only batches of magic 2"):
            change(buffer, formats.scan(buffer).headers)
        assert buffer.tobytes() == before

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
    def test_headers_of_a_longer_buffer_are_refused(self, change: Any) -> None:
        buffer = v2.encode(records([0, 1]), v2.BatchFields())
        with pytest.raises(ValueError, match="do not belong to this buffer"):
            change(buffer[:-1], formats.scan(buffer).headers)

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
    @pytest.mark.parametrize("codec", Codec)
    def test_every_other_field_and_every_record_stays(self, change: Any, codec: Codec) -> None:
        fields = v2.BatchFields(codec=codec, leader_epoch=3, **PRODUCER)
        buffer = v2.encode(records([2, 3], timestamps=[7, 6]), fields)
        before, headers = buffer.copy(), formats.scan(buffer).headers
        told = change(buffer, headers)
        formats.verify(buffer, told)
        assert told.table.tolist() == formats.scan(buffer).headers.table.tolist()
        assert np.array_equal(buffer[v2.LAYOUT.itemsize :], before[v2.LAYOUT.itemsize :])
        changed = {name for name in told.table.dtype.names or () if told.table[name] != headers.table[name]}
        assert changed <= {
            *("base_offset", "last_offset", "leader_epoch", "crc"),
            *("producer_id", "attributes", "max_timestamp"),
        }

    def test_a_batch_without_a_sequence_gets_none(self) -> None:
        buffer = v2.encode_batches(records([0, 1]), v2.BatchFields(), batch_bytes_max=1).buffer
        told = v2.stamp_producer(
            buffer,
            formats.scan(buffer).headers,
            base_offset=0,
            leader_epoch=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            transactional=False,
        )
        assert told.table["base_sequence"].tolist() == [-1, -1]

    def test_nothing_to_change_is_fine(self) -> None:
        nothing = np.empty(0, dtype=np.uint8)
        assert len(v2.stamp(nothing, formats.scan(nothing).headers, base_offset=5, leader_epoch=1)) == 0


class TestEmptied:
    @pytest.mark.parametrize("codec", Codec)
    @pytest.mark.parametrize("extra", [{}, {"delete_horizon_ms": 5}, {"transactional": True}])
    def test_a_batch_keeps_all_but_records_codec_and_horizon(self, codec: Codec, extra: dict[str, Any]) -> None:
        full = v2.encode(
            records([12, 15]), v2.BatchFields(codec=codec, leader_epoch=4, **PRODUCER, **extra), base_offset=9
        )
        before, after = header(full), header(v2.empty_batch(formats.scan(full).headers))
        assert after["size"] == v2.LAYOUT.itemsize
        for name in ("base_offset", "last_offset", "max_timestamp", "leader_epoch", *PRODUCER):
            assert after[name] == before[name]
        assert after["attributes"] == 0x10 * ("transactional" in extra)
        assert (after["base_timestamp"], after["count"]) == (-1, 0)

    def test_an_emptied_batch_with_a_codec_is_not_decompressed(self) -> None:
        empty = v2.empty_batch(formats.scan(v2.encode(records([0]), v2.BatchFields())).headers)
        empty[22] |= Codec.GZIP
        v2.sign(empty, np.zeros(1, dtype=np.int64), np.array([len(empty)]))
        assert len(decoded(empty)) == 0

    def test_a_codec_without_a_stream_for_the_records_it_counts_is_refused(self) -> None:
        batch = v2.encode(records([0]), v2.BatchFields(codec=Codec.GZIP))[: v2.LAYOUT.itemsize]
        batch[8:12] = [0, 0, 0, 49]
        v2.sign(batch, np.zeros(1, dtype=np.int64), np.array([len(batch)]))
        with pytest.raises(InvalidRecordError, match="record 0"):
            decoded(batch)
