"""Faults that the suites found, each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.cleaner import Cleaner
from pyspark_commitlog.storage.errors import (
    InvalidRecordError,
    RecordValidationError,
    SegmentOffsetOverflowError,
)
from pyspark_commitlog.storage.format import index_entries, names, v1, v2
from pyspark_commitlog.storage.format.fields import Codec
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.manager import LogManager
from pyspark_commitlog.storage.producers import Origin
from pyspark_commitlog.storage.reader import KeptInMemory
from tests.support.logs import append, batch, config, open_log, open_reader, records, rows
from tests.support.memory_filesystem import MemoryFileSystem, crash_points
from tests.torture.damaging import sign_batches, sign_messages

FIELDS = {name: (dtype, at) for name, (dtype, at, *_) in (v2.LAYOUT.fields or {}).items()}


def with_field(data: Bytes, name: str, value: int) -> Bytes:
    """A batch that says something else in its header, its checksum right."""
    dtype, at = FIELDS[name]
    changed = bytearray(data.tobytes())
    changed[at : at + dtype.itemsize] = np.array([value], dtype=dtype).tobytes()
    return np.frombuffer(sign_batches(bytes(changed)), dtype=np.uint8)


def keyed(value: bytes, key: bytes = b"k") -> Bytes:
    return v2.encode(records([value], keys=[key]), v2.BatchFields())


def test_an_index_that_points_before_the_log_is_passed_over() -> None:
    """Its position was read at, which the system refuses: a reader of a sound log failed."""
    disk, marks = MemoryFileSystem(), KeptInMemory()
    with open_log("/t-0", marks, filesystem=disk, index_interval_bytes=0) as log:
        for n in range(4):
            append(log, b"%d" % n)
        written = rows(log)
    with disk.open("/t-0/00000000000000000000.index", "write") as file:
        entries = index_entries.encode_offset_entries(0, np.array([1, 2]), np.array([-80, -5]))
        file.write(0, entries)
    with open_reader("/t-0", marks, filesystem=disk) as reader:
        assert rows(reader) == written


@pytest.mark.parametrize("name", ["producer_id", "producer_epoch", "base_sequence"])
def test_a_producer_below_none_is_refused_as_half_a_producer_is(name: str) -> None:
    """Records that had to be encoded again failed by a ValueError, and others were stored as they were."""
    data = with_field(batch(b"1", b"2"), name, -7)
    with (
        open_log("/t-0", filesystem=MemoryFileSystem(), compression_type="zstd") as log,
        pytest.raises(RecordValidationError, match="-7"),
    ):
        log.append(data)


@pytest.mark.parametrize("base_offset", [-(2**63), -1, 2**63 - 1])
def test_offsets_beyond_all_numbers_are_refused_whoever_sends_them(base_offset: int) -> None:
    """Shifting them to the end of the log overflowed."""
    marker = with_field(batch(b"1", b"2"), "base_offset", base_offset)
    with open_log("/t-0", filesystem=MemoryFileSystem()) as log, pytest.raises(RecordValidationError):
        log.append(marker, origin=Origin.COORDINATOR)


def test_inner_offsets_of_an_old_wrapper_that_are_negative_are_damage() -> None:
    """The sum of both overflowed."""
    inner = bytearray(v1.encode(records([b"value"])).tobytes())
    inner[:8] = (-(2**63)).to_bytes(8, "big", signed=True)
    data = np.frombuffer(
        bytes(
            formats.legacy.wrapper(
                1, np.frombuffer(sign_messages(bytes(inner)), np.uint8), Codec.GZIP, None, 19, 5, False
            )
        ),
        dtype=np.uint8,
    )
    with pytest.raises(InvalidRecordError, match="wrapper offset 19"):
        formats.decode(data, formats.scan(data).headers)


def test_a_segment_whose_maker_was_killed_while_it_rolled_keeps_what_the_next_writer_appends() -> None:
    """Its name was never synced: where all before it was, a power cut took an acknowledged record with it."""
    settings = config(segment_index_bytes=240)
    marks, start = KeptInMemory(), MemoryFileSystem()
    with Log.open("/t-0", settings, clock=start.clock, filesystem=start, checkpoints=marks) as log:
        append(log, b"first")
    marks_before = marks.read()
    for operation, killed in crash_points(
        lambda disk: Log.open("/t-0", settings, clock=disk.clock, filesystem=disk, checkpoints=marks).roll(), start
    ):
        again = KeptInMemory(*marks_before)
        with Log.open("/t-0", settings, clock=start.clock, filesystem=killed.copy(), checkpoints=again) as log:
            disk = log.context.filesystem
            append(log, b"acknowledged")
            assert isinstance(disk, MemoryFileSystem)
            left = disk.crash(0, unsynced="lost")
        with open_log("/t-0", KeptInMemory(*marks_before), filesystem=left) as log:
            assert rows(log) == [(0, b"first"), (1, b"acknowledged")], operation


def test_records_whose_deleter_was_killed_stay_deleted_once_a_writer_has_seen_them_gone() -> None:
    """The new log start had its name, which was never synced: a power cut, after records that came behind, took it."""
    start = MemoryFileSystem()
    with LogManager.open("/logs", create=True, clock=start.clock, filesystem=start) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"0", b"1", b"2")

    def delete(disk: MemoryFileSystem) -> None:
        LogManager.open("/logs", clock=disk.clock, filesystem=disk).open_log("t", 0).delete_records(2)

    found = set()
    for operation, killed in crash_points(delete, start):
        disk = killed.copy()
        log = LogManager.open("/logs", clock=disk.clock, filesystem=disk).open_log("t", 0)
        append(log, b"3")
        seen = rows(log)
        left = disk.crash(0, unsynced="lost")
        after = LogManager.open("/logs", clock=left.clock, filesystem=left).open_log("t", 0)
        assert rows(after) == seen, operation
        found.add(seen[0][0])
    assert found == {0, 2}


def test_compaction_refuses_an_offset_that_no_segment_of_its_name_can_hold() -> None:
    """It began one segment after the other for the batch, each under the same name, until the memory was used up."""
    disk, marks, written = MemoryFileSystem(), KeptInMemory(), keyed(b"1")
    with open_log("/t-0", marks, filesystem=disk, cleanup_policy="compact") as log:
        log.append(written)
        log.roll()
    with disk.open(f"/t-0/{names.segment_file(0, names.LOG)}", "write") as file:
        file.write(0, with_field(written, "base_offset", 2**38).data)
    with (
        open_log("/t-0", marks, filesystem=disk, cleanup_policy="compact") as log,
        pytest.raises(SegmentOffsetOverflowError, match=str(2**38)),
    ):
        Cleaner().clean(log, 0, disk.clock.now_ms())


@pytest.mark.parametrize("index_bytes", [4, 12, 24])
def test_compaction_ends_where_indexes_have_room_for_no_entry(index_bytes: int) -> None:
    """As above, with a setting that Kafka allows: each batch gets a segment of its own there."""
    disk = MemoryFileSystem()
    with open_log("/t-0", filesystem=disk, cleanup_policy="compact", segment_index_bytes=index_bytes) as log:
        for n in range(4):
            log.append(keyed(b"%d" % n, key=b"%d" % (n % 3)))
        log.roll()
        Cleaner().clean(log, 0, disk.clock.now_ms())
        assert rows(log) == [(1, b"1"), (2, b"2"), (3, b"3")]
