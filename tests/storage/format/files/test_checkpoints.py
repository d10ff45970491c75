"""Snapshots, text checkpoints and ids, as bytes."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.errors import CorruptCheckpointError, CorruptSnapshotError
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.format.files.checkpoints import EpochEntry, MetaProperties, ProducerEntry
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from tests.support.logs.sidecars import SIDECARS, dump_of, partition_files

LOG_DIR = SIDECARS / "log-dir"
PRODUCER = ProducerEntry(42, 3, 9, 109, 4, 1000, 7, -1)
SNAPSHOT = bytes.fromhex(
    "0001df1d8fb900000001000000000000002a000300000009000000000000006d0000000400000000000003e800000007ffffffffffffffff"
)


def dump_line(entry: ProducerEntry) -> str:
    first = entry.current_txn_first_offset
    return (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {'OptionalLong.empty' if first < 0 else f'OptionalLong[{first}]'} "
        f"lastTimestamp: {entry.timestamp} firstSequence: {entry.last_sequence - entry.offset_delta} "
        f"lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} "
        f"timestamp: {entry.timestamp}"
    )


@pytest.mark.parametrize("path", partition_files(".snapshot"), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_snapshot_of_kafka_equals_its_dump_and_is_rewritten_byte_for_byte(path: Path) -> None:
    entries = checkpoints.decode_snapshot(path.read_bytes())
    assert [dump_line(entry) for entry in entries] == dump_of(path)
    assert checkpoints.encode_snapshot(entries) == path.read_bytes()


def test_a_snapshot_has_the_bytes_of_the_specification() -> None:
    assert checkpoints.encode_snapshot([]).hex() == "000148674bc700000000"
    assert checkpoints.encode_snapshot([PRODUCER]) == SNAPSHOT
    assert checkpoints.decode_snapshot(SNAPSHOT) == [PRODUCER]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "0 bytes", id="empty"),
        pytest.param(SNAPSHOT[:9], "9 bytes", id="cut in the header"),
        pytest.param(SNAPSHOT[:-1], "1 entries take 56", id="cut in an entry"),
        pytest.param(SNAPSHOT + b"\0", "1 entries take 56", id="a byte too many"),
        pytest.param(b"\0\2" + SNAPSHOT[2:], "version 2", id="later version"),
        pytest.param(SNAPSHOT[:6] + b"\x7f\xff\xff\xff" + SNAPSHOT[10:], "2147483647 entries", id="absurd count"),
        pytest.param(SNAPSHOT[:6] + b"\xff\xff\xff\xff" + SNAPSHOT[10:], "-1 entries", id="negative count"),
        pytest.param(SNAPSHOT[:-1] + b"\0", "checksum", id="flipped byte"),
        pytest.param(bytes(56), "version 0", id="zeros"),
    ],
)
def test_a_damaged_snapshot_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=reason):
        checkpoints.decode_snapshot(data)


@given(st.integers(0, len(SNAPSHOT) * 8 - 1))
def test_no_single_flipped_bit_of_a_snapshot_passes(bit: int) -> None:
    data = bytearray(SNAPSHOT)
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptSnapshotError):
        checkpoints.decode_snapshot(data)


@pytest.mark.parametrize("path", sorted(LOG_DIR.glob("*-offset-checkpoint")), ids=lambda p: p.name)
def test_an_offset_checkpoint_of_kafka_is_encoded_byte_for_byte(path: Path) -> None:
    assert checkpoints.encode_offsets(checkpoints.decode_offsets(path.read_bytes())) == path.read_bytes()


def test_an_offset_checkpoint_of_kafka_has_one_offset_per_partition() -> None:
    offsets = checkpoints.decode_offsets((LOG_DIR / file_names.RECOVERY_POINT_CHECKPOINT).read_bytes())
    assert len(offsets) == 10
    assert offsets[("crash", 1)] == 921
    assert offsets[("__transaction_state", 3)] == 0


def test_a_leader_epoch_checkpoint_of_kafka_is_encoded_byte_for_byte() -> None:
    data = (LOG_DIR / file_names.LEADER_EPOCH_CHECKPOINT).read_bytes()
    entries = checkpoints.decode_leader_epochs(data)
    assert entries == [EpochEntry(0, 0), EpochEntry(2, 167), EpochEntry(4, 501), EpochEntry(6, 835)]
    assert checkpoints.encode_leader_epochs(entries) == data


@pytest.mark.parametrize("data", [b"", b"0\n", b"0", b"0\n0\n"])
def test_a_checkpoint_that_was_never_written_to_has_no_entries(data: bytes) -> None:
    assert checkpoints.decode_leader_epochs(data) == []
    assert checkpoints.decode_offsets(data) == {}


def test_fields_may_be_apart_by_any_blanks_and_lines_end_as_on_any_platform() -> None:
    assert checkpoints.decode_offsets(b"0\r\n1\r\n t-1 \t 2   3\r\n") == {("t-1", 2): 3}


@pytest.mark.parametrize("blank", [pytest.param(b" ", id="as-written"), pytest.param(b"\t", id="line-by-line")])
def test_offsets_are_by_topic_and_partition_by_name(blank: bytes) -> None:
    [partition] = checkpoints.decode_offsets(b"0\n1\nflights%b7%b3\n" % (blank, blank))
    assert isinstance(partition, TopicPartition)
    assert (partition.topic, partition.partition, str(partition)) == ("flights", 7, "flights-7")


def read_or_refused(data: bytes) -> object:
    try:
        return list(checkpoints.decode_offsets(data).items())
    except CorruptCheckpointError:
        return CorruptCheckpointError


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.sampled_from(["a", "b-1", "c.d"]), st.integers(0, 2**31 - 1)),
        st.integers(0, 2**63 - 1),
    ),
    st.integers(0, 200),
    st.sampled_from([b"", b"0", b"7", b"a", b" ", b"\n", b"-"]),
)
def test_reading_quickly_gives_the_same_as_line_by_line(
    offsets: dict[TopicPartition, int], at: int, put: bytes
) -> None:
    """Line ends of another platform are read the slow way; ``put`` may replace one byte."""
    data = checkpoints.encode_offsets(offsets)
    data = data[:at] + put + data[at + 1 :]
    assert read_or_refused(data) == read_or_refused(data.replace(b"\n", b"\r\n"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"1\n0\n", "line 1: the version", id="later version"),
        pytest.param(b"garbage\n", "line 1: expected a number", id="no version"),
        pytest.param(b"0\nx\n", "line 2: expected a number", id="no count"),
        pytest.param(b"0\n2\n0 0\n", "line 2: the file states 2 entries, but has 1", id="an entry missing"),
        pytest.param(b"0\n1\n0 0\n1 1\n", "line 2: the file states 1 entries, but has 2", id="an entry too many"),
        pytest.param(b"0\n2\n0 0\nhello\n", "line 4: expected 2 fields", id="an entry without numbers"),
        pytest.param(b"0\n1\n0 0 0\n", "line 3: expected 2 fields", id="a field too many"),
        pytest.param(b"0\n1\n0 -5\n", "line 3: expected a number from 0", id="a negative offset"),
        pytest.param(b"0\n1\n0 1_0\n", "line 3: expected a number", id="digits only Python reads"),
        pytest.param(b"0\n1\n2147483648 0\n", "line 3: expected a number from 0 to 2147483647", id="epoch too large"),
        pytest.param(b"0\n1\n0 9223372036854775808\n", "line 3: expected a number", id="offset too large"),
        pytest.param(b"0\n1\n\n", "line 3: expected 2 fields", id="a blank line"),
        pytest.param(b"\xff\xfe", "not UTF-8", id="not text"),
        pytest.param(bytes(64), "line 1: expected a number", id="zeros"),
    ],
)
def test_a_malformed_checkpoint_is_refused_with_the_line(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptCheckpointError, match=reason):
        checkpoints.decode_leader_epochs(data)


def test_partition_metadata_of_kafka_is_encoded_byte_for_byte() -> None:
    data = (SIDECARS / "txn-0" / file_names.PARTITION_METADATA_FILE).read_bytes()
    topic_id = checkpoints.decode_partition_metadata(data)
    assert checkpoints.encode_id(topic_id) in data.decode()
    assert checkpoints.encode_partition_metadata(topic_id) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "0 lines", id="empty"),
        pytest.param(b"version: 0", "1 lines", id="no id"),
        pytest.param(
            b"version: x\ntopic_id: q87-AaqoS_yIjeYvnjp3Kg", "line 1: expected a number", id="version no number"
        ),
        pytest.param(b"topic_id: q87-AaqoS_yIjeYvnjp3Kg\nversion: 0", "line 1: expected 'version:'", id="order"),
        pytest.param(b"version: 0\ntopic_id: q87-AaqoS_yIjeYvnjp3K", r"line 2: not an id \(22", id="id too short"),
        pytest.param(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "line 2: .* all zero", id="id zero"),
    ],
)
def test_malformed_partition_metadata_is_refused_with_the_line(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptCheckpointError, match=reason):
        checkpoints.decode_partition_metadata(data)


@given(st.uuids())
def test_an_id_has_22_characters_and_is_decoded_again(value: UUID) -> None:
    text = checkpoints.encode_id(value)
    assert len(text) == 22
    assert checkpoints.decode_id(text) == value


def test_meta_properties_of_kafka_parse() -> None:
    meta = checkpoints.decode_meta_properties((LOG_DIR / file_names.META_PROPERTIES_FILE).read_bytes())
    assert meta == MetaProperties(1, "A7hRVj_Zb-Q6U8fFHU9HQA", 1, "yR0CZb-RKovlJVgMy29KJg")


@pytest.mark.parametrize("meta", [MetaProperties(1, "c" * 22, 5, "d" * 22), MetaProperties(0, None, 3, None)])
def test_meta_properties_are_written_as_java_writes_them_and_read_again(meta: MetaProperties) -> None:
    data = checkpoints.encode_meta_properties(meta, written_ms=1_795_217_443_000)
    assert data.startswith(b"#\n#Fri Nov 20 23:30:43 UTC 2026\nversion=")
    assert checkpoints.decode_meta_properties(data) == meta


def test_meta_properties_of_zookeepers_time_name_the_broker_and_may_escape() -> None:
    data = b"! comment\n\nversion = 0\nbroker.id=7\ncluster.id=a\\=b\nunknown=1\n"
    assert checkpoints.decode_meta_properties(data) == MetaProperties(0, "a=b", 7, None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"version=2\n", "version is '2'"),
        (b"", "version is ''"),
        (b"version\n", "line 1"),
        (b"version=1\nnode.id=x\n", "node id"),
    ],
)
def test_malformed_meta_properties_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptCheckpointError, match=reason):
        checkpoints.decode_meta_properties(data)


def test_offsets_that_a_caller_changes_are_read_unchanged_the_next_time() -> None:
    data = checkpoints.encode_offsets({TopicPartition("t", 0): 5})
    checkpoints.decode_offsets(data)[TopicPartition("t", 1)] = 7
    assert checkpoints.decode_offsets(data) == {TopicPartition("t", 0): 5}
