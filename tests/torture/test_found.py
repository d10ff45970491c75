"""Faults that the suites found, each by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    CorruptionError,
    CorruptRecordError,
    InvalidRecordError,
    MissingSegmentError,
    RecordValidationError,
    SegmentOffsetOverflowError,
)
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import file_names, index_entries
from pyspark_commitlog.storage.format.legacy import messages, v0, v1
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.log import Log
from tests.support.disk.disks import get, put
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.logs.building import (
    append,
    batch,
    config,
    end_transaction,
    open_log,
    open_reader,
    records,
    rows,
    write_transactional,
)
from tests.torture.damage.damaging import sign_batches, sign_messages

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
            messages.wrapper(1, np.frombuffer(sign_messages(bytes(inner)), np.uint8), Codec.GZIP, None, 19, 5, False)
        ),
        dtype=np.uint8,
    )
    with pytest.raises(InvalidRecordError, match="the wrapper has offset 19"):
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
        again = KeptInMemory(*marks_before[:2])
        with Log.open("/t-0", settings, clock=start.clock, filesystem=killed.copy(), checkpoints=again) as log:
            disk = log.context.filesystem
            append(log, b"acknowledged")
            assert isinstance(disk, MemoryFileSystem)
            left = disk.crash(0, unsynced="lost")
        with open_log("/t-0", KeptInMemory(*marks_before[:2]), filesystem=left) as log:
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
    with disk.open(f"/t-0/{file_names.segment_file(0, file_names.LOG)}", "write") as file:
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


# A copied partition: nothing beside it tells how far it once reached

LOG = f"/t-0/{file_names.segment_file(0, file_names.LOG)}"


def harmed(disk: MemoryFileSystem, harm: Callable[[bytes], bytes]) -> MemoryFileSystem:
    """A copy of which the first log is another."""
    copy, data = disk.copy(), harm(get(disk, LOG) or b"")
    with copy.open(LOG, "write") as file:
        file.truncate(0)
        file.write(0, data)
    return copy


def flip_the_last_byte(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("isolation", Isolation)
def test_sound_batches_behind_the_end_whose_offsets_go_back_are_damage(isolation: Isolation) -> None:
    """The last batch was taken for damage that they follow, and was left out without a word."""
    disk = MemoryFileSystem()
    with open_log("/t-0", filesystem=disk) as log:
        for n in range(3):
            append(log, b"%d" % n)
    first = len(get(disk, LOG) or b"") // 3
    with (
        open_reader("/t-0", KeptInMemory(None), filesystem=harmed(disk, lambda data: data + data[:first])) as reader,
        pytest.raises(CorruptRecordError, match=r"offsets (0 to 0|from 0 on) follow offset 2"),
    ):
        rows(reader, isolation)


@pytest.mark.parametrize("isolation", Isolation)
def test_damage_in_the_last_marker_of_a_copied_partition_is_told_in_both_isolation_levels(isolation: Isolation) -> None:
    """Its transaction seemed open, and what it wrote was left out as if nobody could see it yet."""
    disk = MemoryFileSystem()
    with open_log("/t-0", filesystem=disk) as log:
        for n in range(2):
            write_transactional(log, 7, n, b"%d" % n)
            end_transaction(log, 7, commit=True)
    with (
        open_reader("/t-0", KeptInMemory(None), filesystem=harmed(disk, flip_the_last_byte)) as reader,
        pytest.raises(CorruptRecordError, match="checksum"),
    ):
        rows(reader, isolation)


def test_a_lookup_by_time_that_comes_to_damage_at_the_end_is_refused() -> None:
    """It said that no record was so young."""
    disk = MemoryFileSystem()
    with open_log("/t-0", filesystem=disk) as log:
        for n in range(3):
            append(log, b"%d" % n, timestamps=1000 + n)
    with open_reader("/t-0", KeptInMemory(None), filesystem=harmed(disk, flip_the_last_byte)) as reader:
        found = reader.offset_for_timestamp(1001)
        assert found is not None
        assert found.offset == 1
        with pytest.raises(CorruptRecordError, match="checksum"):
            reader.offset_for_timestamp(1002)
        with pytest.raises(CorruptRecordError, match="checksum"):
            reader.offset_of_max_timestamp()


def test_a_batch_that_tells_of_offsets_behind_the_end_is_damage() -> None:
    """Reading took it for the end of the log, and nothing of what lies behind it was read."""
    disk = MemoryFileSystem()
    with open_log("/t-0", filesystem=disk) as log:
        for n in range(4):
            append(log, b"%d" % n)

    def moved(data: bytes) -> bytes:
        size = len(data) // 4
        return (2**40).to_bytes(8, "big") + data[8:size] + (2**41).to_bytes(8, "big") + data[size + 8 :]

    with open_reader("/t-0", KeptInMemory(None), filesystem=harmed(disk, moved)) as reader:
        reader.checkpoints.note_holes()
        with pytest.raises(CorruptRecordError):
            rows(reader)


# Beside checkpoints


@pytest.mark.parametrize("opened", [open_reader, open_log])
def test_records_between_the_log_start_and_the_recovery_point_are_missed(opened: Callable[..., object]) -> None:
    """All of the log was taken for deleted, since what was left ended below the log start."""
    disk = MemoryFileSystem()
    with open_log("/t-0", filesystem=disk) as log:
        for n in range(6):
            append(log, b"%d" % n)
    left = harmed(disk, lambda data: data[: len(data) // 3])
    with pytest.raises(CorruptRecordError, match="everything below 6 was synced"):
        opened("/t-0", KeptInMemory(6, 4), filesystem=left.copy())
    with open_reader("/t-0", KeptInMemory(4, 4), filesystem=left) as reader:
        assert rows(reader) == []


def test_a_recovery_point_below_the_only_segment_of_a_cleanly_closed_log_is_an_error_of_ours() -> None:
    """An assertion failed."""
    disk, marks = MemoryFileSystem(), KeptInMemory()
    with open_log("/t-0", marks, filesystem=disk) as log:
        log.truncate_fully_and_start_at(100)
        append(log, b"1")
    marks.write(marks.read()._replace(recovery_point=7, was_closed_cleanly=True))
    path = f"/t-0/{file_names.segment_file(100, file_names.LOG)}"
    put(disk, path, bytes(len(get(disk, path) or b"")))
    with pytest.raises(CorruptionError), open_reader("/t-0", marks, filesystem=disk) as reader:
        rows(reader)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_lookup_by_time_does_not_pass_over_a_segment_that_lost_its_end(kept: int) -> None:
    """The records that it looked for were gone, and it answered with one of the next segment."""
    disk = MemoryFileSystem()
    with LogManager.open("/logs", create=True, clock=disk.clock, filesystem=disk) as manager:
        manager.create_topic("t", partitions=1)
        log = manager.open_log("t", 0)
        for n in range(6):
            append(log, b"%d" % n, timestamps=1000 + n)
            if n == 2:
                log.roll()
    path = f"/logs/t-0/{file_names.segment_file(0, file_names.LOG)}"
    with disk.open(path, "write") as file:
        file.truncate(kept * file.size() // 3)
    with (
        LogManager.open("/logs", clock=disk.clock, filesystem=disk) as manager,
        pytest.raises(MissingSegmentError, match=f"offsets {kept} to 2 are in no segment"),
    ):
        manager.open_reader("t", 0).offset_for_timestamp(1002)


# Wrappers of the older formats


def wrappers(magic: int, *counts: int) -> list[bytes]:
    """Compressed messages from offset 0 on, so many in each."""
    first, found = 0, []
    for count in counts:
        written = records([b"value %d" % n for n in range(first, first + count)])
        offsets = np.arange(first, first + count, dtype=np.int64)
        found.append((v1 if magic else v0).encode(replace(written, offsets=offsets), Codec.GZIP).tobytes())
        first += count
    return found


def offsets_read(parts: list[bytes]) -> list[int]:
    """Of a topic that was never compacted, as ``topics.json`` tells."""
    disk = MemoryFileSystem()
    with LogManager.open("/logs", create=True, clock=disk.clock, filesystem=disk) as manager:
        manager.create_topic("t", partitions=1)
    put(disk, f"/logs/t-0/{file_names.segment_file(0, file_names.LOG)}", b"".join(parts))
    with LogManager.open("/logs", clock=disk.clock, filesystem=disk) as manager:
        return [offset for offset, _ in rows(manager.open_reader("t", 0))]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_that_is_missing_is_missed_where_nothing_was_compacted(magic: int) -> None:
    """The header of the next one tells only where it ends."""
    parts = wrappers(magic, 3, 4, 5)
    assert offsets_read(parts) == list(range(12))
    for missing in (0, 1):
        with pytest.raises(MissingSegmentError, match="never compacted"):
            offsets_read([part for n, part in enumerate(parts) if n != missing])


def test_a_wrapper_that_moved_is_an_error_where_nothing_was_compacted() -> None:
    """Its checksum does not cover its offset, which moves all messages in it."""
    first, second = wrappers(1, 3, 4)
    with pytest.raises(MissingSegmentError, match="offsets 3 to 34 are missing"):
        offsets_read([first, (6 + 32).to_bytes(8, "big") + second[8:]])


def test_an_index_of_old_wrappers_is_not_believed_where_offsets_go_back() -> None:
    """The last entry led to a wrapper of lower offsets, and the log seemed to end with those."""
    parts = wrappers(0, 3, 4, 5)
    disk = MemoryFileSystem()
    disk.make_directory("/t-0")
    put(disk, LOG, b"".join([*parts[:2], parts[0]]))
    entry = index_entries.encode_offset_entries(0, np.array([11]), np.array([sum(map(len, parts[:2]))]))
    put(disk, LOG.replace(file_names.LOG, file_names.INDEX), entry)
    with open_reader("/t-0", KeptInMemory(None), filesystem=disk) as reader, pytest.raises(CorruptRecordError):
        rows(reader)


@pytest.mark.parametrize("offset", [4, 7])
def test_a_wrapper_of_magic_0_ends_with_the_offset_that_its_last_message_has(offset: int) -> None:
    """Messages beyond the end that it told were left out."""
    first, second = wrappers(0, 3, 4)
    with pytest.raises(CorruptRecordError, match=f"offsets 3 to 6 are in a wrapper message with offset {offset}"):
        offsets_read([first, offset.to_bytes(8, "big") + second[8:]])
