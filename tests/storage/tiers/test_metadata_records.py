"""Records of __remote_log_metadata, beside those that real brokers with tiered storage wrote."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage.errors import InvalidRecordError
from pyspark_commitlog.storage.tiers.metadata_records import (
    DeletionState,
    PartitionDeletion,
    SegmentMetadata,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
    parse_remote_record,
    segments_of,
)
from tests.support.logs.plain_batches import records

ARCHIVE = Path(__file__).parents[2] / "golden" / "tiered" / "metadata.tar.xz"
PLAIN = TopicIdPartition("t-plain", "gieiioRPRGyV_wc7XWQ5Fg", 0)
UNKNOWN_STATE = PartitionDeletion(PLAIN, 1, 1, DeletionState.DELETE_PARTITION_FINISHED).encode()[:-2] + b"\x07\x00"


def written() -> Iterator[tuple[int, bytes]]:
    """Partition and value of each record of three brokers."""
    with tarfile.open(ARCHIVE) as packed:
        for member in packed:
            if member.isfile():
                file = packed.extractfile(member)
                assert file is not None
                number = int(Path(member.name).parent.name.rpartition("-")[2])
                for record in records(file.read()):
                    assert record.value is not None
                    yield number, record.value


def test_every_record_of_the_brokers_is_encoded_as_they_wrote_it() -> None:
    values = [value for _, value in written()]
    assert len(values) > 300
    assert [parse_remote_record(value).encode() for value in values] == values


def test_every_record_lies_in_the_partition_that_we_compute() -> None:
    found = Counter(parse_remote_record(value).partition.metadata_partition(3) - number for number, value in written())
    assert found.keys() == {0}


def test_a_segment_goes_through_its_states_as_the_broker_wrote_them() -> None:
    found: dict[str, SegmentMetadata] = {}
    for _, value in written():
        record = parse_remote_record(value)
        if isinstance(record, SegmentMetadata):
            assert record.state is SegmentState.COPY_SEGMENT_STARTED
            found[record.segment_id] = record
        elif isinstance(record, SegmentUpdate):
            found[record.segment_id] = found[record.segment_id].updated(record)
    states = Counter(each.state for each in found.values())
    assert states[SegmentState.COPY_SEGMENT_FINISHED] > 100
    assert states[SegmentState.DELETE_SEGMENT_FINISHED] > 10
    assert states[SegmentState.COPY_SEGMENT_STARTED] == 1  # a broker was killed in between, and copied it again
    first = found["pFtPfu6pSlKnIgDfW57C4Q"]
    assert (first.partition, first.start_offset, first.end_offset, first.size) == (PLAIN, 0, 75, 5498)


def test_the_segments_of_a_partition_are_those_that_are_not_deleted() -> None:
    records = [parse_remote_record(value) for _, value in written()]
    partitions = sorted({each.partition for each in records if each.partition.topic == "t-retention"})
    assert len(partitions) == 3
    for partition in partitions:
        found = segments_of(records, partition)
        deleted = {
            each.segment_id
            for each in records
            if isinstance(each, SegmentUpdate) and each.state is SegmentState.DELETE_SEGMENT_FINISHED
        }
        assert found
        assert not found.keys() & deleted
        assert {each.partition for each in found.values()} == {partition}
        ends = [each.end_offset + 1 for each in found.values()]
        assert [each.start_offset for each in found.values()][1:] == ends[:-1]


def test_custom_metadata_stays_when_a_later_state_has_none() -> None:
    segment = next(
        each
        for each in map(parse_remote_record, (value for _, value in written()))
        if isinstance(each, SegmentMetadata)
    )
    finished, deleting = SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED
    copied = segment.updated(SegmentUpdate(segment.partition, segment.segment_id, 2, 7, finished, b"chunks"))
    assert (copied.custom_metadata, copied.broker_id, copied.event_timestamp_ms) == (b"chunks", 2, 7)
    later = copied.updated(SegmentUpdate(segment.partition, segment.segment_id, 3, 8, deleting))
    assert (later.custom_metadata, later.state) == (b"chunks", deleting)
    assert parse_remote_record(later.encode()) == later


def test_the_deletion_of_a_partition_comes_back() -> None:
    deletion = PartitionDeletion(PLAIN, 1, 1795720905449, DeletionState.DELETE_PARTITION_MARKED)
    assert parse_remote_record(deletion.encode()) == deletion


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "remain"),
        (b"\x01\x03\x00", "remain"),
        (b"\x01\x63\x00", "unknown record type 99"),
        (
            PartitionDeletion(PLAIN, 1, 1, DeletionState.DELETE_PARTITION_FINISHED).encode()[:-2] + b"\x07\x00",
            "state 7",
        ),
    ],
)
def test_bytes_that_no_broker_writes_are_refused_with_the_reason(value: bytes | None, reason: str) -> None:
    with pytest.raises(InvalidRecordError, match=reason):
        parse_remote_record(value)
