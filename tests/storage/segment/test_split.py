"""A segment with offsets more than 2^31 - 1 above its base is split, whatever step a crash interrupts."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.errors import CorruptRecordError, SegmentOffsetOverflowError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import INT32_MAX
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.locks import MAINTENANCE_LOCK_FILE
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.disks import put
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, config, records, rows

Rows = list[tuple[int, bytes | None]]

COMPACTED = config(cleanup_policy="compact")
DIRECTORY = "/log"
LOG = f"{DIRECTORY}/00000000000000000000.log"


def batches(*offsets: int) -> bytes:
    """A batch of one record at each offset."""
    parts = []
    for offset in offsets:
        record = replace(records([b"%d" % offset], keys=[b"k"]), offsets=np.array([offset], dtype=np.int64))
        parts.append(v2.encode(record, v2.BatchFields()).tobytes())
    return b"".join(parts)


def a_log(*offsets: int) -> MemoryFileSystem:
    """A disk with one segment of base 0 that holds these offsets."""
    disk = MemoryFileSystem()
    disk.make_directory(DIRECTORY)
    put(disk, LOG, batches(*offsets), sync=True)
    disk.sync_directory("/")
    disk.sync_directory(DIRECTORY)
    return disk


def open_log(disk: MemoryFileSystem, recovery_point: int = 0) -> Log:
    marks = KeptInMemory(recovery_point)
    return Log.open(DIRECTORY, COMPACTED, clock=ManualClock(NOW_MS), filesystem=disk, checkpoints=marks)


def held(offsets: tuple[int, ...]) -> Rows:
    return [(offset, b"%d" % offset) for offset in offsets]


@pytest.mark.parametrize(
    ("offsets", "bases"),
    [
        pytest.param((0, INT32_MAX), [0], id="the last offset that fits"),
        pytest.param((0, INT32_MAX + 1), [0, INT32_MAX + 1], id="the first that does not"),
        pytest.param((5, 2**32, 2**32 + 7, 2**33), [0, 2**32, 2**33], id="twice in one segment"),
        pytest.param((2**40,), [0, 2**40], id="the only batch does not fit"),
        pytest.param((0, 1, 2**31, 2**31 + 1), [0, 2**31], id="several batches in both"),
    ],
)
def test_every_record_is_found_in_the_segment_that_can_hold_it(offsets: tuple[int, ...], bases: list[int]) -> None:
    disk = a_log(*offsets)
    for _ in range(2):
        with open_log(disk) as log:
            assert log.segments.base_offsets == bases
            assert rows(log) == held(offsets)
            assert log.log_end_offset == offsets[-1] + 1
    sizes = [disk.status(f"{DIRECTORY}/{base:020d}.log") for base in bases]
    assert sum(status.size for status in sizes if status) == len(batches(*offsets))


def test_a_split_log_is_appended_to(tmp_path: Path) -> None:
    with open_log(disk := a_log(0, 2**31)) as log:
        log.append_records(records([b"new"], keys=[b"k"]))
    with open_log(disk, recovery_point=2**31 + 2) as log:
        assert rows(log) == [*held((0, 2**31)), (2**31 + 1, b"new")]


def test_no_power_cut_while_a_segment_is_split_loses_or_doubles_a_record() -> None:
    offsets = (0, 2**31, 2**32)
    cuts = 0
    for _, disk in crash_points(lambda disk: open_log(disk).close(), a_log(*offsets), every=2):
        for seed in range(2):
            left = disk.crash(seed)
            reader = LogReader.open(DIRECTORY, COMPACTED, clock=ManualClock(NOW_MS), filesystem=left)
            assert rows(reader) == held(offsets)
            with open_log(left) as log:
                assert rows(log) == held(offsets)
                assert len(log.segments) == 3
        cuts += 1
    assert cuts > 10


def test_a_torn_tail_of_an_overflowed_segment_is_cut_off_after_the_split() -> None:
    disk = a_log(0, 2**31)
    put(disk, LOG, batches(2**31 + 1)[:-4], position=len(batches(0, 2**31)), sync=True)
    with open_log(disk) as log:
        assert rows(log) == held((0, 2**31))
        assert log.truncated_bytes == len(batches(2**31 + 1)) - 4
    disk = a_log(0, 2**31)
    put(disk, LOG, batches(2**31 + 1)[:-4], position=len(batches(0, 2**31)), sync=True)
    with pytest.raises(CorruptRecordError, match=rf"sound only up to offset {2**31 + 1},"):
        open_log(disk, recovery_point=2**31 + 2)


def test_legacy_messages_are_split_where_their_offsets_can_be_relative() -> None:
    """Their headers contain only the last offset; the part begins where any offset in it fits."""
    disk = MemoryFileSystem()
    disk.make_directory(DIRECTORY)
    legacy = broker_dirs.legacy() / "log" / "v1-gzip-0" / "00000000000000000000.log"
    data = bytearray(legacy.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    end = size + 12 + int.from_bytes(data[size + 8 : size + 12], "big")
    data[size : size + 8] = (2**32).to_bytes(8, "big")
    put(disk, LOG, bytes(data[:end]), sync=True)
    with open_log(disk) as log:
        first, second = log.segments.base_offsets
        assert (first, second) == (0, 2**32 - INT32_MAX)
        found = [offset for offset, _ in rows(log)]
        assert found[0] == 0
        assert found[-1] == 2**32
        assert np.all(np.diff(found) > 0)


def test_an_overflowed_segment_waits_for_the_maintenance_lock(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(batches(0, 2**31))
    with (
        LocalFileSystem().lock(str(tmp_path / MAINTENANCE_LOCK_FILE)) or pytest.fail("it waits"),
        pytest.raises(SegmentOffsetOverflowError, match=r"000\.log: .*another process holds .* open the log again"),
    ):
        Log.open(str(tmp_path), COMPACTED)
    assert (tmp_path / "00000000000000000000.log").read_bytes() == batches(0, 2**31)
    with Log.open(str(tmp_path), COMPACTED) as log:
        assert rows(log) == held((0, 2**31))


def test_entries_of_aborted_transactions_outlive_the_split(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka loses them after a clean stop, and then shows the aborted records."""
    directory = broker_dirs.copy_to(tmp_path / "log", "recovery-damage/damaged")
    aborted = broker_dirs.consumed("recovery-damage/no-marker-rp0-after")["d-overflow-0"]["read_committed"]
    with caplog.at_level(logging.WARNING), broker_dirs.open_manager(directory) as manager:
        log = manager.open_log("d-overflow", 0)
        assert [len(segment.txn_index) for segment in log.segments] == [3, 2, 4, 1, 1]
        assert broker_dirs.rows(log, Isolation.READ_COMMITTED) == broker_dirs.expected_rows(aborted["records"])
    assert "00000000000000000163.log: offsets" in caplog.text
    assert "split" in caplog.text


def test_the_roll_before_an_offset_that_does_not_fit_leaves_nothing_to_split(tmp_path: Path) -> None:
    directory = broker_dirs.copy_to(tmp_path / "log", "rolls/overflow-before")
    (directory / file_names.CLEANER_OFFSET_CHECKPOINT).write_text(
        "0\n1\nroll-overflow 0 0\n"
    )  # as if compacted: a hole
    kafka = broker_dirs.consumed("rolls/overflow-after")["roll-overflow-0"]["read_uncommitted"]["records"]
    with broker_dirs.open_manager(directory) as manager:
        log = manager.open_log("roll-overflow", 0)
        held_before = broker_dirs.rows(log)
        assert held_before == broker_dirs.expected_rows(kafka)[: len(held_before)]
        for n in range(len(kafka) - len(held_before)):
            log.append(v2.encode(records([b"%d" % n], keys=[b"k"]), v2.BatchFields()), origin=Origin.CLIENT)
        assert [row[0] for row in broker_dirs.rows(log)] == [record[0] for record in kafka]
        assert log.segments.base_offsets == [0, 2**31]
