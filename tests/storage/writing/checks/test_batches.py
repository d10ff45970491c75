"""What a leader refuses, keeps, and rewrites. The batches are built here byte by byte, without any of our code."""

from __future__ import annotations

import dataclasses
import gzip
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.errors import (
    AppendError,
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
    RecordValidationError,
    UnsupportedCompressionTypeError,
    UnsupportedMagicError,
)
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.checksums import crc32c
from pyspark_commitlog.storage.format.constants import Codec, TimestampType
from pyspark_commitlog.storage.format.tables import BatchHeaders, BinaryColumn, Bytes, HeadersColumn, Records
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.checks.batches import (
    Validated,
    analyze,
    check_batch_sizes,
    validate_and_assign_offsets,
)
from pyspark_commitlog.storage.writing.checks.records import target_compression, validate_columns

NOW_MS = 1_700_000_000_000
START = 1000
LEADER_EPOCH = 7
GZIP, ZSTD = 1, 4
APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20


class Rec(NamedTuple):
    """A record of a batch under construction; ``offset`` is the delta to write, by default its index."""

    key: bytes | None = b"k"
    value: bytes | None = b"v"
    timestamp: int = NOW_MS
    offset: int | None = None


def varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def sized(string: bytes | None) -> bytes:
    return varint(-1) if string is None else varint(len(string)) + string


def compress(codec: int, data: bytes) -> bytes:
    match codec:
        case 0:
            return data
        case 1:
            return gzip.compress(data, compresslevel=1, mtime=0)
        case _:
            return zstandard.compress(data, 1)


def batch(
    records: Sequence[Rec],
    *,
    codec: int = 0,
    attributes: int = 0,
    spoil: Callable[[bytes], bytes] = bytes,
    **header: int,
) -> bytes:
    """A batch of magic 2 from a client; ``header`` overrides fields, ``spoil`` changes the encoded records."""
    base_timestamp = header.get("base_timestamp", records[0].timestamp if records else -1)
    body = b""
    for place, record in enumerate(records):
        delta = place if record.offset is None else record.offset
        one = b"\0" + varint(record.timestamp - base_timestamp) + varint(delta)
        one += sized(record.key) + sized(record.value) + varint(0)
        body += varint(len(one)) + one
    checked = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        header.get("last_offset_delta", len(records) - 1),
        base_timestamp,
        header.get("max_timestamp", max((r.timestamp for r in records), default=-1)),
        header.get("producer_id", -1),
        header.get("producer_epoch", -1),
        header.get("base_sequence", -1),
        header.get("count", len(records)),
    ) + compress(codec, spoil(body))
    start = struct.pack(">qiibI", header.get("base_offset", 0), 9 + len(checked), -1, 2, crc32c(checked))
    return start + checked


def message(magic: int, record: Rec, *, attributes: int = 0, offset: int = 0) -> bytes:
    """A message of magic 0 or 1."""
    timestamp = struct.pack(">q", record.timestamp) if magic == 1 else b""
    checked = struct.pack(">bb", magic, attributes) + timestamp
    for string in (record.key, record.value):
        checked += struct.pack(">i", -1) if string is None else struct.pack(">i", len(string)) + string
    return struct.pack(">qiI", offset, 4 + len(checked), zlib.crc32(checked)) + checked


def wrapper(magic: int, inner: bytes, *, offset: int, timestamp: int = NOW_MS) -> bytes:
    return message(magic, Rec(None, gzip.compress(inner, mtime=0), timestamp), attributes=GZIP, offset=offset)


def buffer_of(*batches: bytes) -> Bytes:
    return np.frombuffer(b"".join(batches), dtype=np.uint8)  # read-only, as the bytes of a request are


PLAIN = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
APPEND_TIME_TOPIC = LogConfig(message_timestamp_type="LogAppendTime")


def append(*batches: bytes, config: LogConfig = PLAIN, origin: Origin = Origin.CLIENT, start: int = START) -> Validated:
    buffer = buffer_of(*batches)
    return validate_and_assign_offsets(
        buffer,
        analyze(buffer, origin, config),
        start_offset=start,
        now_ms=NOW_MS,
        leader_epoch=LEADER_EPOCH,
        origin=origin,
        config=config,
    )


def records_of(validated: Validated) -> Records:
    return formats.decode(validated.buffer, validated.headers).records


def rows(records: Records) -> list[tuple[int, int, bytes | None, bytes | None]]:
    assert records.keys is not None
    assert records.values is not None
    columns = (records.offsets.tolist(), records.timestamps.tolist(), records.keys.to_list(), records.values.to_list())
    return list(zip(*columns, strict=True))


def three(codec: int = 0, **header: Any) -> bytes:
    return batch(
        [Rec(b"a", b"1", NOW_MS - 2), Rec(None, b"2", NOW_MS), Rec(b"c", None, NOW_MS - 1)], codec=codec, **header
    )


THREE_AT_START = [
    (START, NOW_MS - 2, b"a", b"1"),
    (START + 1, NOW_MS, None, b"2"),
    (START + 2, NOW_MS - 1, b"c", None),
]


class TestAnalyze:
    def test_an_empty_buffer_has_nothing_to_append(self) -> None:
        found = analyze(buffer_of(), Origin.CLIENT, PLAIN)
        assert (found.valid_bytes, found.first_offset, found.last_offset, found.max_timestamp) == (0, -1, -1, -1)

    def test_a_partial_last_batch_is_cut_and_not_refused(self) -> None:
        whole = three()
        for cut in range(1, len(whole)):
            found = analyze(buffer_of(whole, whole[:cut]), Origin.COORDINATOR, PLAIN)
            assert (found.valid_bytes, len(found.headers)) == (len(whole), 1)

    def test_it_finds_offsets_and_the_first_batch_that_reaches_the_largest_timestamp(self) -> None:
        batches = [
            batch([Rec(timestamp=5), Rec(timestamp=4)], base_offset=10),
            batch([Rec(timestamp=9)], base_offset=12, codec=GZIP),
            batch([Rec(timestamp=9)], base_offset=13),
        ]
        found = analyze(buffer_of(*batches), Origin.REPLICATION, PLAIN)
        assert (found.first_offset, found.last_offset) == (10, 13)
        assert (found.max_timestamp, found.offset_of_max_timestamp) == (9, 12)
        assert found.source_codec is Codec.GZIP
        assert found.valid_bytes == sum(map(len, batches))

    def test_batches_without_timestamps_have_no_offset_of_the_largest(self) -> None:
        found = analyze(buffer_of(batch([Rec(timestamp=-1)])), Origin.CLIENT, PLAIN)
        assert (found.max_timestamp, found.offset_of_max_timestamp) == (-1, -1)

    def test_the_first_offset_of_old_messages_is_unknown(self) -> None:
        found = analyze(buffer_of(message(1, Rec(), offset=3), message(1, Rec(), offset=4)), Origin.CLIENT, PLAIN)
        assert (found.first_offset, found.last_offset) == (-1, 4)

    def test_a_client_may_not_choose_the_base_offset(self) -> None:
        buffer = buffer_of(three(base_offset=1))
        with pytest.raises(RecordValidationError, match="base offset 1"):
            analyze(buffer, Origin.CLIENT, PLAIN)
        assert analyze(buffer, Origin.COORDINATOR, PLAIN).first_offset == 1

    @pytest.mark.parametrize("second", [pytest.param(0, id="repeated"), pytest.param(3, id="overlapping")])
    def test_replicated_offsets_must_increase(self, second: int) -> None:
        buffer = buffer_of(three(base_offset=3), three(base_offset=second))
        with pytest.raises(OffsetsOutOfOrderError, match="last offset"):
            analyze(buffer, Origin.REPLICATION, PLAIN)
        assert analyze(buffer, Origin.COORDINATOR, PLAIN).last_offset == second + 2

    def test_a_batch_above_max_message_bytes_is_refused_but_not_to_a_follower(self) -> None:
        one = three()
        exact, below = LogConfig(max_message_bytes=len(one)), LogConfig(max_message_bytes=len(one) - 1)
        assert analyze(buffer_of(one), Origin.CLIENT, exact).valid_bytes == len(one)
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
            analyze(buffer_of(one), Origin.CLIENT, below)
        assert analyze(buffer_of(one), Origin.REPLICATION, below).valid_bytes == len(one)

    def test_a_flipped_bit_anywhere_after_the_checksum_is_refused(self) -> None:
        whole = three()
        for at in range(21, len(whole)):
            spoiled = bytearray(whole)
            spoiled[at] ^= 4
            with pytest.raises(CorruptRecordError):
                analyze(buffer_of(bytes(spoiled)), Origin.REPLICATION, PLAIN)

    def test_a_size_too_small_for_any_message_is_refused(self) -> None:
        spoiled = bytearray(three())
        spoiled[8:12] = struct.pack(">i", 13)
        with pytest.raises(CorruptRecordError):
            analyze(buffer_of(bytes(spoiled)), Origin.CLIENT, PLAIN)

    @pytest.mark.parametrize("whole", [0, 1])
    @pytest.mark.parametrize(
        ("tail", "error"),
        [
            pytest.param(bytes(11), None, id="too short to say anything"),
            pytest.param(bytes(12), CorruptRecordError, id="a length of zero"),
            pytest.param(bytes(8) + struct.pack(">i", 100), None, id="a length and no more"),
            pytest.param(bytes(8) + struct.pack(">iib", 100, -1, -1), CorruptRecordError, id="magic below zero"),
            pytest.param(bytes(8) + struct.pack(">iib", 100, -1, 3), UnsupportedMagicError, id="magic of the future"),
            pytest.param(bytes(8) + struct.pack(">iib", 100, -1, 2), None, id="a header up to its magic"),
        ],
    )
    def test_a_tail_that_begins_no_batch_is_refused(
        self, whole: int, tail: bytes, error: type[CorruptRecordError] | None
    ) -> None:
        buffer = buffer_of(three() * whole, tail)
        if error is None:
            assert len(analyze(buffer, Origin.CLIENT, PLAIN).headers) == whole
        else:
            with pytest.raises(error) as refused:
                analyze(buffer, Origin.CLIENT, PLAIN)
            assert type(refused.value) is error
            assert refused.value.position == len(three()) * whole


class TestStructure:
    def test_nothing_to_append_is_refused(self) -> None:
        with pytest.raises(RecordValidationError, match="no complete batch"):
            append()

    def test_two_batches_of_magic_2_are_refused(self) -> None:
        with pytest.raises(RecordValidationError, match="one batch"):
            append(three(), three())

    def test_two_compressed_wrappers_are_refused(self) -> None:
        one = wrapper(1, message(1, Rec()), offset=0)
        with pytest.raises(RecordValidationError, match="one batch"):
            append(one, one)

    def test_two_magics_in_one_set_are_refused(self) -> None:
        with pytest.raises(RecordValidationError, match="magic"):
            append(message(0, Rec()), message(1, Rec(), offset=1))

    @pytest.mark.parametrize(
        "header",
        [
            pytest.param({"last_offset_delta": 3}, id="offsets span more than the records"),
            pytest.param({"last_offset_delta": 1}, id="offsets span less than the records"),
            pytest.param({"last_offset_delta": -1}, id="last offset below the base offset"),
            pytest.param({"count": 2}, id="count below the offsets"),
            pytest.param({"count": 0}, id="count zero"),
            pytest.param({"count": -1}, id="count negative"),
            pytest.param({"producer_id": 5, "producer_epoch": 0}, id="producer without a sequence"),
            pytest.param({"attributes": CONTROL}, id="control batch"),
        ],
    )
    def test_a_client_batch_that_contradicts_itself_is_refused(self, header: dict[str, int]) -> None:
        with pytest.raises(RecordValidationError) as refused:
            append(three(**header))
        assert refused.value.record_errors == ()

    def test_the_first_batch_of_a_producer_has_epoch_and_sequence_0(self) -> None:
        kept = append(three(producer_id=0, producer_epoch=0, base_sequence=0))
        assert rows(records_of(kept)) == THREE_AT_START

    @pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
    def test_an_empty_batch_is_refused(self, codec: int) -> None:
        with pytest.raises(RecordValidationError):
            append(batch([], codec=codec))

    def test_records_that_do_not_decode_are_refused(self) -> None:
        with pytest.raises(InvalidRecordError):
            append(three(spoil=lambda body: body[:-1]))

    def test_an_unknown_codec_is_refused(self) -> None:
        with pytest.raises(UnsupportedCompressionTypeError):
            append(three(attributes=5))


class TestInPlace:
    @pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
    def test_only_offset_and_leader_epoch_change_and_the_checksum_stays(self, codec: int) -> None:
        sent = three(codec, producer_id=5, producer_epoch=1, base_sequence=8)
        kept = append(sent)
        expected = struct.pack(">qii", START, len(sent) - 12, LEADER_EPOCH) + sent[16:]
        assert kept.buffer.tobytes() == expected
        assert rows(records_of(kept)) == THREE_AT_START
        assert (kept.max_timestamp, kept.offset_of_max_timestamp) == (NOW_MS, START + 2)
        assert (kept.log_append_time_ms, kept.sizes_changed) == (-1, False)

    def test_the_headers_returned_are_those_of_the_bytes_returned(self) -> None:
        for config in (PLAIN, APPEND_TIME_TOPIC, LogConfig(compression_type="gzip")):
            kept = append(three(), config=config)
            assert (
                kept.headers.table.tolist() == analyze(kept.buffer, Origin.REPLICATION, config).headers.table.tolist()
            )

    def test_the_buffer_of_the_caller_is_not_touched(self) -> None:
        for config in (PLAIN, APPEND_TIME_TOPIC, LogConfig(compression_type="gzip")):
            sent = three()
            buffer = np.frombuffer(bytearray(sent), dtype=np.uint8)
            found = analyze(buffer, Origin.CLIENT, config)
            before = found.headers.table.tolist()
            options = {"start_offset": START, "now_ms": NOW_MS, "leader_epoch": 1}
            validate_and_assign_offsets(buffer, found, **options, origin=Origin.CLIENT, config=config)
            assert buffer.tobytes() == sent
            assert found.headers.table.tolist() == before

    def test_bytes_after_the_last_complete_batch_are_dropped(self) -> None:
        whole = three()
        assert len(append(whole, whole[:-1]).buffer) == len(whole)

    @pytest.mark.parametrize("codec", [0, GZIP])
    @pytest.mark.parametrize("claimed", [-1, NOW_MS + 10**6, 17])
    def test_a_wrong_max_timestamp_of_the_client_is_corrected(self, codec: int, claimed: int) -> None:
        kept = append(three(codec, max_timestamp=claimed))
        assert kept.headers.table["max_timestamp"].tolist() == [NOW_MS]
        assert kept.max_timestamp == NOW_MS
        assert rows(records_of(kept)) == THREE_AT_START  # decoding verifies the checksum
        assert not kept.sizes_changed

    @pytest.mark.parametrize("codec", [0, GZIP])
    def test_append_time_overrides_the_clients_time(self, codec: int) -> None:
        kept = append(three(codec), config=APPEND_TIME_TOPIC)
        records = records_of(kept)
        assert records.timestamps.tolist() == [NOW_MS] * 3
        assert records.timestamp_types.tolist() == [TimestampType.LOG_APPEND_TIME] * 3
        assert (kept.max_timestamp, kept.offset_of_max_timestamp, kept.log_append_time_ms) == (
            NOW_MS,
            START + 2,
            NOW_MS,
        )
        assert kept.headers.table["base_timestamp"].tolist() == [
            NOW_MS - 2
        ]  # left alone: only the flag and the maximum change

    def test_records_without_timestamps_are_accepted_and_have_no_largest(self) -> None:
        kept = append(batch([Rec(timestamp=-1), Rec(timestamp=-1)]))
        assert (kept.max_timestamp, kept.offset_of_max_timestamp) == (-1, -1)

    @pytest.mark.parametrize("producer", ["gzip", "lz4", "snappy", "zstd"])
    def test_a_control_batch_of_the_coordinator_is_never_compressed(self, producer: str) -> None:
        marker = batch(
            [Rec(b"\0\0\0\1", b"\0\0\0\0\0\7")],
            attributes=CONTROL | TRANSACTIONAL,
            producer_id=42,
            producer_epoch=3,
        )
        kept = append(marker, origin=Origin.COORDINATOR, config=LogConfig(compression_type=producer))
        assert kept.buffer.tobytes()[16:] == marker[16:]
        assert kept.headers.is_control.tolist() == [True]

    def test_a_differing_level_does_not_compress_again(self) -> None:
        sent = three(GZIP)
        kept = append(sent, config=LogConfig(compression_type="gzip", compression_gzip_level=9))
        assert kept.buffer.tobytes()[16:] == sent[16:]


class TestRebuild:
    @pytest.mark.parametrize("source", [0, GZIP, ZSTD])
    @pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_the_codec_of_the_topic_wins_over_that_of_the_producer(self, source: int, target: str) -> None:
        wanted = Codec.NONE if target == "uncompressed" else Codec[target.upper()]
        header = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 8, "attributes": source | TRANSACTIONAL}
        kept = append(three(source, **header), config=LogConfig(compression_type=target))
        assert kept.headers.codec.tolist() == [wanted]
        assert rows(records_of(kept)) == THREE_AT_START
        (row,) = kept.headers.table
        assert (row["producer_id"], row["producer_epoch"], row["base_sequence"]) == (5, 1, 8)
        assert (row["base_offset"], row["last_offset"], row["leader_epoch"]) == (START, START + 2, LEADER_EPOCH)
        assert kept.headers.is_transactional.tolist() == [True]
        assert (kept.max_timestamp, kept.offset_of_max_timestamp) == (NOW_MS, START + 2)
        assert kept.sizes_changed == (source != wanted)

    @pytest.mark.parametrize("source", [0, GZIP, ZSTD])
    def test_producer_keeps_the_codec_of_the_producer(self, source: int) -> None:
        assert append(three(source), config=LogConfig(compression_type="producer")).headers.codec.tolist() == [source]

    @pytest.mark.parametrize("codec", [0, GZIP])
    @pytest.mark.parametrize("inner", [(0, 0, 2), (1, 2, 3), (0, 2, 1), (0, 1, 7), (5, 5, 5)])
    def test_inner_offsets_that_do_not_count_up_from_zero_are_reassigned(
        self, codec: int, inner: tuple[int, ...]
    ) -> None:
        kept = append(batch([Rec(b"k", b"%d" % at, NOW_MS, at) for at in inner], codec=codec))
        expected = [(START + i, NOW_MS, b"k", b"%d" % at) for i, at in enumerate(inner)]
        assert rows(records_of(kept)) == expected
        assert kept.headers.codec.tolist() == [codec]
        assert kept.headers.table["last_offset"].tolist() == [START + 2]

    @pytest.mark.parametrize("codec", [0, GZIP])
    def test_a_batch_of_the_coordinator_with_gaps_is_closed_up(self, codec: int) -> None:
        sent = batch([Rec(b"a", offset=0), Rec(b"b", offset=4)], codec=codec, last_offset_delta=6)
        kept = append(sent, origin=Origin.COORDINATOR)
        assert [(row[0], row[2]) for row in rows(records_of(kept))] == [(START, b"a"), (START + 1, b"b")]
        assert kept.headers.table["last_offset"].tolist() == [START + 1]

    def test_append_time_survives_a_rebuild(self) -> None:
        config = LogConfig(message_timestamp_type="LogAppendTime", compression_type="zstd")
        kept = append(three(), config=config)
        assert records_of(kept).timestamps.tolist() == [NOW_MS] * 3
        assert kept.headers.timestamp_type.tolist() == [1]
        assert (kept.max_timestamp, kept.offset_of_max_timestamp, kept.log_append_time_ms) == (
            NOW_MS,
            START + 2,
            NOW_MS,
        )

    def test_the_size_is_checked_again_after_a_rebuild(self) -> None:
        sent = batch([Rec(b"k", bytes(1000))], codec=GZIP)
        config = LogConfig(max_message_bytes=len(sent), compression_type="uncompressed")
        with pytest.raises(RecordTooLargeError):
            append(sent, config=config)

    def test_headers_of_records_survive_a_rebuild(self) -> None:
        columns = Records(
            offsets=np.arange(2, dtype=np.int64),
            timestamps=np.full(2, NOW_MS, dtype=np.int64),
            timestamp_types=np.zeros(2, dtype=np.int8),
            keys=BinaryColumn.from_list([b"k", b"l"]),
            values=BinaryColumn.from_list([b"v", None]),
            headers=HeadersColumn(
                np.array([0, 0, 2], dtype=np.int32),
                BinaryColumn.from_list([b"h", b"h"]),
                BinaryColumn.from_list([b"1", None]),
            ),
        )
        kept = append(v2.encode(columns, v2.BatchFields()).tobytes(), config=LogConfig(compression_type="gzip"))
        found = records_of(kept).headers
        assert found is not None
        assert found.offsets.tolist() == [0, 0, 2]
        assert (found.keys.to_list(), found.values.to_list()) == ([b"h", b"h"], [b"1", None])


class TestOldMessages:
    @pytest.mark.parametrize("target", ["producer", "uncompressed", "zstd"])
    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("wrapped", [False, True])
    def test_a_set_becomes_one_batch_of_magic_2(self, magic: int, wrapped: bool, target: str) -> None:
        sent = [message(magic, Rec(b"k%d" % i, b"v", NOW_MS - i), offset=i) for i in range(3)]
        whole = [wrapper(magic, b"".join(sent), offset=2)] if wrapped else sent
        kept = append(*whole, config=LogConfig(compression_type=target))
        times = [NOW_MS - i if magic == 1 else -1 for i in range(3)]
        assert rows(records_of(kept)) == [(START + i, times[i], b"k%d" % i, b"v") for i in range(3)]
        (row,) = kept.headers.table
        assert (row["magic"], row["count"], row["producer_id"], row["base_sequence"]) == (2, 3, -1, -1)
        assert row["leader_epoch"] == LEADER_EPOCH
        wanted = {"producer": Codec.GZIP if wrapped else Codec.NONE, "uncompressed": Codec.NONE, "zstd": Codec.ZSTD}
        assert kept.headers.codec.tolist() == [wanted[target]]
        assert kept.sizes_changed
        assert (kept.max_timestamp, kept.offset_of_max_timestamp) == ((NOW_MS, START + 2) if magic == 1 else (-1, -1))

    @pytest.mark.parametrize("magic", [0, 1])
    def test_the_time_of_the_append_is_given_to_messages_without_one(self, magic: int) -> None:
        kept = append(message(magic, Rec(timestamp=-1)), config=APPEND_TIME_TOPIC)
        assert records_of(kept).timestamps.tolist() == [NOW_MS]
        assert kept.log_append_time_ms == NOW_MS

    @pytest.mark.parametrize("magic", [0, 1])
    def test_inner_offsets_that_are_all_zero_are_reassigned(self, magic: int) -> None:
        inner = b"".join(message(magic, Rec(b"k", b"%d" % i)) for i in range(3))
        kept = append(wrapper(magic, inner, offset=2))
        assert [row[0] for row in rows(records_of(kept))] == [START, START + 1, START + 2]

    @pytest.mark.parametrize("magic", [0, 1])
    def test_an_inner_message_with_a_wrong_checksum_is_refused(self, magic: int) -> None:
        inner = bytearray(message(magic, Rec()))
        inner[-1] ^= 1
        with pytest.raises(CorruptRecordError):
            append(wrapper(magic, bytes(inner), offset=0))

    @pytest.mark.parametrize("magic", [0, 1])
    def test_a_wrapper_in_a_wrapper_is_refused(self, magic: int) -> None:
        inner = wrapper(magic, message(magic, Rec()), offset=0)
        with pytest.raises(InvalidRecordError):
            append(wrapper(magic, inner, offset=0))

    @pytest.mark.parametrize("magic", [0, 1])
    def test_an_inner_message_of_the_other_magic_is_refused(self, magic: int) -> None:
        with pytest.raises(RecordValidationError, match="magic"):
            append(wrapper(magic, message(1 - magic, Rec()), offset=0))


class TestRecords:
    @pytest.mark.parametrize("codec", [0, GZIP])
    def test_records_without_a_key_are_refused_by_a_compacted_topic_and_named(self, codec: int) -> None:
        sent = batch([Rec(b"a"), Rec(None), Rec(b""), Rec(None)], codec=codec)
        with pytest.raises(RecordValidationError) as refused:
            append(sent, config=COMPACTED)
        assert not isinstance(refused.value, InvalidTimestampError)
        assert [index for index, _ in refused.value.record_errors] == [1, 3]
        assert all("key" in reason for _, reason in refused.value.record_errors)

    def test_old_messages_without_a_key_are_named_by_their_place_in_the_append(self) -> None:
        sent = [message(1, Rec(key), offset=i) for i, key in enumerate([b"a", None, b"c", None])]
        with pytest.raises(RecordValidationError) as refused:
            append(*sent, config=COMPACTED)
        assert [index for index, _ in refused.value.record_errors] == [1, 3]

    def test_compact_and_delete_together_need_keys_too(self) -> None:
        with pytest.raises(RecordValidationError):
            append(batch([Rec(None)]), config=LogConfig(cleanup_policy=frozenset({"compact", "delete"})))

    @pytest.mark.parametrize(
        ("timestamp", "accepted"),
        [
            pytest.param(NOW_MS - 1000, True, id="as old as allowed"),
            pytest.param(NOW_MS - 1001, False, id="too old"),
            pytest.param(NOW_MS + 500, True, id="as far ahead as allowed"),
            pytest.param(NOW_MS + 501, False, id="too far ahead"),
            pytest.param(-1, True, id="none"),
            pytest.param(-2, False, id="negative"),
            pytest.param(2**63 - 1, False, id="largest"),
            pytest.param(-(2**63) + NOW_MS, False, id="so small that a difference overflows"),
        ],
    )
    @pytest.mark.parametrize("codec", [0, GZIP])
    def test_timestamps_are_held_to_the_limits_of_the_topic(self, timestamp: int, accepted: bool, codec: int) -> None:
        config = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
        sent = batch([Rec(), Rec(timestamp=timestamp)], codec=codec)
        if accepted:
            assert len(records_of(append(sent, config=config))) == 2
        else:
            with pytest.raises(InvalidTimestampError) as refused:
                append(sent, config=config)
            ((index, reason),) = refused.value.record_errors
            assert index == 1
            assert str(timestamp) in reason

    def test_the_limits_do_not_hold_where_the_log_sets_the_time(self) -> None:
        config = LogConfig(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=0)
        assert append(batch([Rec(timestamp=5)]), config=config).max_timestamp == NOW_MS

    def test_any_age_is_accepted_by_default(self) -> None:
        assert append(batch([Rec(timestamp=0)])).max_timestamp == 0

    @pytest.mark.parametrize("config", [PLAIN, APPEND_TIME_TOPIC])
    @pytest.mark.parametrize("timestamp", [NOW_MS, -1])
    def test_a_client_may_not_claim_that_the_log_set_the_time(self, config: LogConfig, timestamp: int) -> None:
        with pytest.raises(InvalidTimestampError) as refused:
            append(batch([Rec(timestamp=timestamp)] * 2, attributes=APPEND_TIME), config=config)
        assert [index for index, _ in refused.value.record_errors] == [0, 1]

    def test_a_timestamp_error_decides_over_the_others_and_the_list_keeps_them_all(self) -> None:
        config = LogConfig(cleanup_policy=frozenset({"compact"}), message_timestamp_before_max_ms=1000)
        sent = batch([Rec(None), Rec(b"k", timestamp=1), Rec(None, timestamp=1), Rec()])
        with pytest.raises(InvalidTimestampError) as refused:
            append(sent, config=config)
        assert [index for index, _ in refused.value.record_errors] == [0, 1, 2]

    def test_the_list_of_refused_records_is_bounded_and_the_message_counts_them_all(self) -> None:
        with pytest.raises(RecordValidationError, match="5000 of 5000") as refused:
            append(batch([Rec(None)] * 5000), config=COMPACTED)
        assert len(refused.value.record_errors) == 1000


# The fast path: columns that are checked before they are encoded, and never decoded again.

KEYS = st.one_of(st.none(), st.binary(max_size=80))
TIMESTAMPS = st.one_of(st.just(-1), st.integers(NOW_MS - 1200, NOW_MS + 700), st.sampled_from([-(2**61), -2, 0, 2**62]))
RECORDS = st.lists(st.builds(Rec, KEYS, KEYS, TIMESTAMPS, st.none()), min_size=1, max_size=12)
POLICIES = st.sampled_from([frozenset({"delete"}), frozenset({"compact"})])
TIMESTAMP_TYPES = st.sampled_from(["CreateTime", "LogAppendTime"])
CODECS = st.sampled_from(["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
CONFIGS = st.builds(
    LogConfig,
    cleanup_policy=POLICIES,
    message_timestamp_type=TIMESTAMP_TYPES,
    message_timestamp_before_max_ms=st.sampled_from([1000, 2**63 - 1]),
    message_timestamp_after_max_ms=st.sampled_from([0, 500, 2**63 - 1]),
    compression_type=CODECS,
)


def columns_of(records: Sequence[Rec]) -> Records:
    return Records(
        offsets=np.arange(len(records), dtype=np.int64),
        timestamps=np.array([r.timestamp for r in records], dtype=np.int64),
        timestamp_types=np.zeros(len(records), dtype=np.int8),
        keys=BinaryColumn.from_list([r.key for r in records]),
        values=BinaryColumn.from_list([r.value for r in records]),
        headers=None,
    )


Refusal = tuple[type[AppendError], tuple[tuple[int, str], ...]]


def refusal(attempt: Callable[[], object]) -> Refusal | None:
    try:
        attempt()
    except RecordValidationError as error:
        return type(error), error.record_errors
    return None


class TestColumns:
    @given(RECORDS, CONFIGS)
    def test_the_same_records_are_refused_as_after_encoding(self, records: list[Rec], config: LogConfig) -> None:
        fast = refusal(lambda: validate_columns(columns_of(records), now_ms=NOW_MS, config=config))
        assert fast == refusal(lambda: append(batch(records), config=config))

    @given(RECORDS, st.integers(60, 260))
    def test_the_first_record_that_no_batch_can_hold_is_named(self, records: list[Rec], limit: int) -> None:
        config = LogConfig(max_message_bytes=limit, message_timestamp_type="LogAppendTime")
        records = [record._replace(timestamp=NOW_MS) for record in records]
        sizes = [len(batch([record])) for record in records]
        too_large = [index for index, size in enumerate(sizes) if size > limit]
        if too_large:
            with pytest.raises(RecordTooLargeError, match=f"record {too_large[0]} .* {sizes[too_large[0]]} bytes"):
                validate_columns(columns_of(records), now_ms=NOW_MS, config=config)
        else:
            validate_columns(columns_of(records), now_ms=NOW_MS, config=config)

    @pytest.mark.parametrize("length", [63, 64, 8191, 8192, 2**20 - 1, 2**20])
    @pytest.mark.parametrize("room", [-1, 0])
    def test_sizes_are_exact_where_a_varint_grows(self, length: int, room: int) -> None:
        record = Rec(bytes(length), bytes(length))
        config = LogConfig(max_message_bytes=len(batch([record])) + room)
        assert (refused_for_size([record], config) is None) == (room == 0)

    @settings(max_examples=60)
    @given(RECORDS, POLICIES, TIMESTAMP_TYPES, CODECS, st.integers(100, 400))
    def test_the_same_bytes_are_written_as_by_the_long_way(
        self, records: list[Rec], policy: frozenset[str], timestamp_type: str, codec: str, batch_bytes_max: int
    ) -> None:
        """The long way takes each encoded batch as if sent by a client; the short one stamps them all in place."""
        config = LogConfig(cleanup_policy=policy, message_timestamp_type=timestamp_type, compression_type=codec)
        columns = columns_of([Rec(r.key or b"", r.value, max(r.timestamp, -1)) for r in records])
        validate_columns(columns, now_ms=NOW_MS, config=config)
        buffer, headers = v2.encode_batches(
            columns, v2.BatchFields(*target_compression(config, Codec.NONE)), batch_bytes_max=batch_bytes_max
        )
        check_batch_sizes(headers, config)
        sent = [bytes(buffer[at : at + size]) for at, size in zip(*positions(headers), strict=True)]
        headers = v2.stamp(buffer, headers, base_offset=START, leader_epoch=LEADER_EPOCH)
        if timestamp_type == "LogAppendTime":
            headers = v2.set_append_time(buffer, headers, NOW_MS)
        start, kept = START, b""
        for one in sent:
            long = append(bytes(8) + one[8:], config=config, start=start)
            kept += long.buffer.tobytes()
            start = long.headers.next_offset
        assert buffer[: headers.end].tobytes() == kept
        assert start == START + len(records)

    def test_no_records_are_no_error(self) -> None:
        validate_columns(columns_of([]), now_ms=NOW_MS, config=COMPACTED)

    def test_a_missing_key_column_means_no_keys(self) -> None:
        columns = dataclasses.replace(columns_of([Rec()]), keys=None)
        validate_columns(columns, now_ms=NOW_MS, config=PLAIN)
        with pytest.raises(RecordValidationError, match="record 0"):
            validate_columns(columns, now_ms=NOW_MS, config=COMPACTED)

    def test_data_to_be_compressed_is_measured_after_compression(self) -> None:
        columns = columns_of([Rec(value=bytes(1000))])
        config = LogConfig(max_message_bytes=500)
        with pytest.raises(RecordTooLargeError, match="record 0"):
            validate_columns(columns, now_ms=NOW_MS, config=config)
        validate_columns(columns, now_ms=NOW_MS, config=config, source_codec=Codec.GZIP)
        validate_columns(columns, now_ms=NOW_MS, config=LogConfig(max_message_bytes=500, compression_type="zstd"))

    @pytest.mark.parametrize("room", [-1, 0])
    def test_headers_count_towards_the_size(self, room: int) -> None:
        strings = BinaryColumn.from_list([bytes(100), b"h"]), BinaryColumn.from_list([bytes(100), None])
        headers = HeadersColumn(np.array([0, 0, 2], dtype=np.int32), *strings)
        columns = dataclasses.replace(columns_of([Rec(), Rec()]), headers=headers)
        size = len(batch([Rec()])) + (2 + 100) + (2 + 100) + (1 + 1) + 1 + 1  # and the length of the record grows
        config = LogConfig(max_message_bytes=size + room)
        assert size == v2.encode_batches(columns, v2.BatchFields(), batch_bytes_max=1).headers.table["size"][1]
        if room == 0:
            validate_columns(columns, now_ms=NOW_MS, config=config)
        else:
            with pytest.raises(RecordTooLargeError, match="record 1"):
                validate_columns(columns, now_ms=NOW_MS, config=config)


def positions(headers: BatchHeaders) -> tuple[list[int], list[int]]:
    return headers.table["position"].tolist(), headers.table["size"].tolist()


def refused_for_size(records: Sequence[Rec], config: LogConfig) -> str | None:
    try:
        validate_columns(columns_of(records), now_ms=NOW_MS, config=config)
    except RecordTooLargeError as error:
        return str(error)
    return None


class TestOffsets:
    @given(
        st.lists(
            st.builds(Rec, KEYS, KEYS, st.integers(-1, 2**40), st.integers(0, 20) | st.none()), min_size=1, max_size=12
        ),
        st.sampled_from([0, GZIP, ZSTD]),
        CODECS,
        st.integers(0, 2**62),
    )
    def test_every_record_gets_the_next_offset_and_keeps_its_content(
        self, records: list[Rec], codec: int, target: str, start: int
    ) -> None:
        kept = append(batch(records, codec=codec), config=LogConfig(compression_type=target), start=start)
        assert rows(records_of(kept)) == [(start + i, r.timestamp, r.key, r.value) for i, r in enumerate(records)]
        (row,) = kept.headers.table
        assert (row["base_offset"], row["last_offset"], row["count"]) == (start, start + len(records) - 1, len(records))
        assert row["max_timestamp"] == kept.max_timestamp == max(r.timestamp for r in records)
