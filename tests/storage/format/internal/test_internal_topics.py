"""Records of the internal topics."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.errors import InvalidRecordError
from pyspark_commitlog.storage.format.internal import internal_topics, messages
from pyspark_commitlog.storage.format.internal.internal_topics import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TopicPartitions,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    decode_group_key,
    decode_transaction_key,
    partition_for,
    string_hash,
)
from pyspark_commitlog.storage.format.internal.message_schema import Array, Schema, Struct
from tests.support.logs.plain_batches import PlainRecord, records
from tests.support.logs.sidecars import SIDECARS, dump_of

DUMPS = Path(__file__).parents[3] / "golden" / "dumps"
COMMIT_KEY = bytes.fromhex("000100086d792d67726f75700007746f7069632d6100000003")
COMMIT_VALUE = bytes.fromhex("0003000000000000002affffffff000000000000000003e8")
MEMBER = MemberMetadata("m-1", "client", "/127.0.0.1", 45000, b"sub", b"", None, 300000)
GROUP_VALUE = GroupMetadataValue("consumer", 7, "range", "m-1", (MEMBER,), 1000)
TXN_VALUE = TransactionLogValue(
    producer_id=2**40,
    producer_epoch=3,
    transaction_timeout_ms=60000,
    transaction_status=TransactionState.ONGOING,
    transaction_partitions=(TopicPartitions("t", (0, 2)), TopicPartitions("__consumer_offsets", (12,))),
    transaction_last_update_timestamp_ms=2000,
    transaction_start_timestamp_ms=1000,
)


def files(topic: str) -> list[Path]:
    found = sorted(SIDECARS.glob(f"{topic}-*/*.log"))
    assert found
    return found


def dumped(path: Path) -> dict[int, tuple[str, str]]:
    """The dump tool's text for key and payload, by offset."""
    found = [re.search(r"^\| offset: (\d+) .*? key: (.*?) payload: (.*)$", line) for line in dump_of(path)]
    return {int(m[1]): (m[2], m[3]) for m in found if m}


def camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def fields_of(value: Any, leave_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    return {camel(name): getattr(value, name) for name in value.__slots__ if name not in leave_out}


@pytest.mark.parametrize("path", files("__consumer_offsets"), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_group_records_of_kafka_equal_its_dump_and_are_rewritten_byte_for_byte(path: Path) -> None:
    expected = dumped(path)
    found = list(records(path.read_bytes()))
    assert found
    assert {record.offset for record in found} == set(expected)
    for record in found:
        key_text, payload = expected[record.offset]
        assert record.key is not None
        key = decode_group_key(record.key)
        assert key is not None
        assert key.encode() == record.key
        assert fields_of(key) == json.loads(key_text)["data"]
        check_group_value(key, record, payload)


def check_group_value(key: OffsetCommitKey | GroupMetadataKey, record: PlainRecord, payload: str) -> None:
    if record.value is None:
        assert payload == "<DELETE>"
        return
    expected = json.loads(payload)["data"]
    if isinstance(key, OffsetCommitKey):
        commit = OffsetCommitValue.decode(record.value)
        assert fields_of(commit, frozenset({"expire_timestamp", "topic_id"})) == expected
        assert commit.encode() == record.value
    else:
        group = GroupMetadataValue.decode(record.value)
        assert fields_of(group, frozenset({"members"})) == {k: v for k, v in expected.items() if k != "members"}
        for member, said in zip(group.members, expected["members"], strict=True):
            ours = fields_of(member, frozenset({"subscription", "assignment"}))
            assert ours == {k: v for k, v in said.items() if k not in ("subscription", "assignment")}
        assert group.encode() == record.value


@pytest.mark.parametrize("path", files("__transaction_state"), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_transaction_records_of_kafka_equal_its_dump_and_are_rewritten_byte_for_byte(path: Path) -> None:
    expected = dumped(path)
    found = list(records(path.read_bytes()))
    assert found
    for record in found:
        key_text, payload = expected[record.offset]
        assert record.key is not None
        assert record.value is not None
        key, value = decode_transaction_key(record.key), TransactionLogValue.decode(record.value)
        assert key is not None
        assert key_text == f"transaction_metadata::transactionalId={key.transactional_id}"
        assert transaction_line(value) == payload
        assert (key.encode(), value.encode()) == (record.key, record.value)


def transaction_line(value: TransactionLogValue) -> str:
    state = "".join(part.capitalize() for part in value.transaction_status.name.split("_"))
    partitions = [f"{t.topic}-{p}" for t in value.transaction_partitions or () for p in t.partition_ids]
    return (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={state},"
        f"partitions=[{','.join(partitions)}],txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


@pytest.mark.parametrize(
    ("file", "key", "table"),
    [
        ("groups", ("coordinator-value", 1), internal_topics._OFFSET_COMMIT_VALUE),
        ("groups", ("coordinator-value", 2), internal_topics._GROUP_METADATA_VALUE),
        ("transactions", ("coordinator-value", 0), internal_topics._TRANSACTION_LOG_VALUE),
    ],
)
def test_records_that_are_written_have_the_fields_of_kafkas_schema(
    file: str, key: tuple[str, int], table: Schema
) -> None:
    schema = messages._schemas(file)[key]
    assert table.versions == schema.versions
    assert table.flexible_from == schema.flexible.start
    for version in table.versions:
        kafkas = messages._struct(file, *key, version)
        assert shape(table.struct, version) == shape(kafkas, version)


def shape(struct: Struct, version: int) -> list[Any]:
    """Name, tag, kind, and the fields within, of each field of a version."""
    found = []
    for each in struct.fields:
        if version in each.versions:
            inner = each.kind.of if isinstance(each.kind, Array) else None
            within = shape(inner, version) if isinstance(inner, Struct) else None
            kind = type(each.kind).__name__.replace("_State", "Int")
            found.append((camel(each.name), each.tag, kind, within))
    return found


def test_an_offset_commit_has_the_bytes_of_the_specification() -> None:
    assert OffsetCommitKey("my-group", "topic-a", 3).encode() == COMMIT_KEY
    assert OffsetCommitValue(42, "", 1000).encode() == COMMIT_VALUE
    assert decode_group_key(COMMIT_KEY) == OffsetCommitKey("my-group", "topic-a", 3)
    assert OffsetCommitValue.decode(COMMIT_VALUE) == OffsetCommitValue(42, "", 1000)


@pytest.mark.parametrize(
    ("hexed", "value"),
    [
        pytest.param("0000 000000000000002a 0001 6d 00000000000003e8", OffsetCommitValue(42, "m", 1000), id="v0"),
        pytest.param(
            "0001 000000000000002a 0001 6d 00000000000003e8 00000000000007d0",
            OffsetCommitValue(42, "m", 1000, expire_timestamp=2000),
            id="v1, with an expiry",
        ),
        pytest.param("0002 000000000000002a 0001 6d 00000000000003e8", OffsetCommitValue(42, "m", 1000), id="v2"),
        pytest.param(
            "0003 000000000000002a 00000005 0001 6d 00000000000003e8", OffsetCommitValue(42, "m", 1000, 5), id="v3"
        ),
        pytest.param(
            "0004 000000000000002a 00000005 02 6d 00000000000003e8 00", OffsetCommitValue(42, "m", 1000, 5), id="v4"
        ),
        pytest.param(
            "0004 000000000000002a 00000005 02 6d 00000000000003e8 01 09 02 abcd",
            OffsetCommitValue(42, "m", 1000, 5),
            id="v4 with a tag of a later release",
        ),
        pytest.param(
            "0004 000000000000002a 00000005 02 6d 00000000000003e8 01 00 10 b91c8a326070417d8f4efc61ddfaf29c",
            OffsetCommitValue(42, "m", 1000, 5, topic_id="uRyKMmBwQX2PTvxh3frynA"),
            id="v4 with a topic id",
        ),
    ],
)
def test_every_version_of_an_offset_commit_is_read(hexed: str, value: OffsetCommitValue) -> None:
    assert OffsetCommitValue.decode(bytes.fromhex(hexed)) == value


def test_offsets_committed_to_kafka_4_have_a_topic_id_and_are_written_as_kafka_wrote_them() -> None:
    with tarfile.open(DUMPS / "kafka-4-offsets-0.tar.xz") as packed:
        [name] = [each for each in packed.getnames() if each.endswith(".log")]
        member = packed.extractfile(name)
        assert member is not None
        found = [each for each in records(member.read()) if each.key and each.value]
    commits = [each.value for each in found if isinstance(decode_group_key(each.key or b""), OffsetCommitKey)]
    values = [OffsetCommitValue.decode(each or b"") for each in commits]
    assert {each.topic_id for each in values} == {
        *("uRyKMmBwQX2PTvxh3frynA", "uU0zWdG9S7Cds20y9nEDBQ", "uk8DRXvGSZuLthO-pJjEHA")
    }
    assert [each.encode() for each in values] == commits


def test_an_explicit_expiry_is_kept_by_writing_version_1() -> None:
    value = OffsetCommitValue(42, "m", 1000, expire_timestamp=2000)
    assert value.encode()[:2] == b"\0\1"
    assert OffsetCommitValue.decode(value.encode()) == value


def test_a_group_of_versions_0_2_and_4_is_read() -> None:
    v0 = "0000 0001 63 00000007 ffff ffff 00000001 0001 6d 0001 63 0001 68 0000afc8 00000001 aa 00000000"
    member = MemberMetadata("m", "c", "h", 45000, b"\xaa", b"")
    assert GroupMetadataValue.decode(bytes.fromhex(v0)) == GroupMetadataValue("c", 7, None, None, (member,))
    v2 = (
        "0002 0001 63 00000007 ffff ffff 00000000000003e8 00000001"
        "0001 6d 0001 63 0001 68 00000001 0000afc8 00000001 aa 00000000"
    )
    member = MemberMetadata("m", "c", "h", 45000, b"\xaa", b"", rebalance_timeout=1)
    assert GroupMetadataValue.decode(bytes.fromhex(v2)) == GroupMetadataValue("c", 7, None, None, (member,), 1000)
    v4 = (
        "0004 02 63 00000007 00 00 00000000000003e8 02"
        "02 6d 02 69 02 63 02 68 00000001 0000afc8 02 aa 01 00"  # the member, its tags
        "00"
    )
    member = MemberMetadata("m", "c", "h", 45000, b"\xaa", b"", "i", 1)
    assert GroupMetadataValue.decode(bytes.fromhex(v4)) == GroupMetadataValue("c", 7, None, None, (member,), 1000)


def test_a_group_is_decoded_again_and_keys_of_newer_protocols_are_skipped() -> None:
    assert GroupMetadataValue.decode(GROUP_VALUE.encode()) == GROUP_VALUE
    assert decode_group_key(GroupMetadataKey("g").encode()) == GroupMetadataKey("g")
    assert decode_group_key(b"\x00\x03\x00\x01g") is None
    assert decode_transaction_key(b"\x00\x01\x02t") is None


def test_a_transaction_is_decoded_again_and_an_empty_one_has_a_null_list() -> None:
    assert TransactionLogValue.decode(TXN_VALUE.encode()) == TXN_VALUE
    assert decode_transaction_key(TransactionLogKey("tx").encode()) == TransactionLogKey("tx")
    empty = TransactionLogValue(1, 0, 60000, TransactionState.EMPTY, None, 2000)
    assert len(empty.encode()) == 37
    assert b"\xff\xff\xff\xff" in empty.encode()
    assert TransactionLogValue.decode(empty.encode()) == empty


def test_a_transaction_of_version_1_is_read_with_its_tags() -> None:
    data = (
        "0001 0000000000000005 0003 0000ea60 01"
        "02 02 74 02 00000002 00"  # one topic, t, one partition, its tags
        "00000000000007d0 00000000000003e8"
        "02 00 08 0000000000000004 02 02 0002"  # previous producer id, client transaction version
    )
    value = TransactionLogValue.decode(bytes.fromhex(data))
    assert value.transaction_partitions == (TopicPartitions("t", (2,)),)
    assert (value.previous_producer_id, value.next_producer_id, value.client_transaction_version) == (4, -1, 2)
    assert (value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms) == (2000, 1000)


def decode_any_key(data: bytes) -> object:
    return decode_group_key(data)


@pytest.mark.parametrize(
    ("decode", "data", "reason"),
    [
        pytest.param(decode_any_key, b"", "states 2 bytes, but only 0 remain", id="an empty key"),
        pytest.param(decode_any_key, COMMIT_KEY[:-1], "states 4 bytes, but only 3", id="a key cut short"),
        pytest.param(decode_any_key, b"\0\1\x7f\xff", "states 32767 bytes", id="a length beyond the key"),
        pytest.param(decode_any_key, b"\0\1\xff\xff", "null string", id="a null group"),
        pytest.param(decode_any_key, b"\0\2\0\1\xff", "not UTF-8", id="a group that is no text"),
        pytest.param(OffsetCommitValue.decode, b"\0\5" + COMMIT_VALUE[2:], "has version 5", id="a later version"),
        pytest.param(OffsetCommitValue.decode, b"\xff\xff" + COMMIT_VALUE[2:], "has version -1", id="version -1"),
        pytest.param(
            GroupMetadataValue.decode,
            GroupMetadataValue("c", 1, None, None, ()).encode()[:-4] + b"\x7f\xff\xff\xff",
            "states 2147483647 elements, but only 0",
            id="an absurd count",
        ),
        pytest.param(
            GroupMetadataValue.decode,
            GroupMetadataValue("c", 1, None, None, ()).encode()[:-4] + b"\xff\xff\xff\xff",
            "null array",
            id="null members",
        ),
        pytest.param(
            GroupMetadataValue.decode,
            GROUP_VALUE.encode()[:-4] + b"\xff\xff\xff\xff",
            "null bytes",
            id="null assignment",
        ),
        pytest.param(
            TransactionLogValue.decode,
            TXN_VALUE.encode().replace(b"\0\0\xea\x60\1", b"\0\0\xea\x60\x63"),
            "transaction state 99",
            id="an unknown state",
        ),
        pytest.param(
            OffsetCommitValue.decode,
            bytes.fromhex("0004 000000000000002a 00000005 ffffffffffff"),
            "varint has more than 5",
            id="an endless varint",
        ),
    ],
)
def test_malformed_bytes_are_refused_with_the_reason(
    decode: Callable[[bytes], object], data: bytes, reason: str
) -> None:
    with pytest.raises(InvalidRecordError, match=reason) as caught:
        decode(data)
    assert caught.value.position is not None


@pytest.mark.parametrize(
    "data",
    [COMMIT_VALUE, GROUP_VALUE.encode(), TXN_VALUE.encode()],
    ids=["offset commit", "group", "transaction"],
)
def test_a_value_cut_anywhere_is_refused(data: bytes) -> None:
    decode = {
        COMMIT_VALUE: OffsetCommitValue.decode,
        GROUP_VALUE.encode(): GroupMetadataValue.decode,
        TXN_VALUE.encode(): TransactionLogValue.decode,
    }[data]
    for length in range(len(data)):
        with pytest.raises(InvalidRecordError):
            decode(data[:length])


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("test", 48),
        ("my-group", 12),
        ("group1", 40),
        pytest.param("polygenelubricants", 0, id="whose hash is -2^31"),
        pytest.param("", 0, id="empty"),
        pytest.param("\U0001f600", (31 * 0xD83D + 0xDE00) % 50, id="a character of two UTF-16 units"),
    ],
)
def test_a_group_is_in_the_partition_of_its_names_java_hash(name: str, partition: int) -> None:
    assert partition_for(name, 50) == partition


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 2 * 4096 + 5])
def test_a_name_of_any_length_has_the_hash_that_java_computes(length: int) -> None:
    name = ("aé漢😀" * length)[:length]
    hashed = 0
    for high, low in pairwise_units(name):
        hashed = (31 * hashed + (high << 8 | low)) % 2**32
    assert string_hash(name) % 2**32 == hashed
    assert string_hash("hello") == 99162322


def pairwise_units(name: str) -> Iterator[tuple[int, int]]:
    units = name.encode("utf-16-be")
    return zip(units[::2], units[1::2], strict=True)
