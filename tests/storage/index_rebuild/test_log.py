"""Indexes and snapshots rebuilt from logs: equal to Kafka's, old or new after a crash, and nothing else is changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.errors import CorruptRecordError, LogDirLockedError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import checkpoints, file_names, index_entries
from pyspark_commitlog.storage.format.tables import HEADERS, BatchHeaders
from pyspark_commitlog.storage.index_rebuild.log import plan_rebuild, rebuild_log
from pyspark_commitlog.storage.index_rebuild.segment import IndexEntries, difference, rebuild_segment
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.producer_state import Marker
from pyspark_commitlog.storage.recovery.producer_state_manager import ProducerStateManager, rows_for_replay
from pyspark_commitlog.storage.segment.reader import SegmentReader
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.verify.log import verify_log
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.kafka import broker_dirs
from tests.support.logs.building import (
    NOW_MS,
    append,
    batch,
    committed,
    end_transaction,
    open_log,
    rows,
    write_transactional,
)

NEVER_EXPIRED_MS = 0
INDEX_KINDS = (file_names.INDEX, file_names.TIME_INDEX)

# In compacted logs the cleaner counts the interval for what it writes; after a restart a broker restarts the count.
# These directories (compaction, leader-epochs, retention) have valid indexes that a rebuild would write differently.
EQUAL = ("plain", "transactions", "codecs", "idempotent", "times", "rolls")


def context(directory: Path, configs: dict[str, str] | None = None, *, writable: bool = False) -> LogContext:
    config = LogConfig.from_mapping({**broker_dirs.BROKER_CONFIGS, **(configs or {})})
    return LogContext(str(directory), config, ManualClock(NEVER_EXPIRED_MS), LocalFileSystem(), writable=writable)


def partitions(scenario: str) -> list[tuple[Path, dict[str, str]]]:
    topics = broker_dirs.settings(scenario)["topics"]
    found = []
    for path in sorted((broker_dirs.stage(f"{scenario}/final") / "log").iterdir()):
        topic = path.name.rpartition("-")[0]
        if path.is_dir() and topic in topics:
            found.append((path, topics[topic]["configs"]))
    assert found
    return found


@pytest.mark.parametrize("scenario", EQUAL)
def test_rebuilt_files_are_those_of_the_broker(tmp_path: Path, scenario: str) -> None:
    """Deletes all sidecars; compares snapshots, which are in the order of a hash map, by their entries."""
    for path, configs in partitions(scenario):
        copy = tmp_path / path.name
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("*index", "*.snapshot"))
        for log in copy.glob("*.log"):
            rebuild_segment(context(copy, configs, writable=True), int(log.stem))
            for kind in INDEX_KINDS:
                expected = path / (log.stem + kind)
                rebuilt = (copy / (log.stem + kind)).read_bytes()
                assert rebuilt == (expected.read_bytes() if expected.exists() else b""), expected
        plan = {Path(name).name for name, _ in plan_rebuild(reader(copy, configs)).changes}
        wanted = {each.name for each in path.glob("*.txnindex") if each.stat().st_size}
        assert {name for name in plan if name.endswith(file_names.TXN_INDEX)} == wanted
        assert plan_rebuild(reader(path, configs)).changes == ()


def reader(directory: Path, configs: dict[str, str]) -> LogReader:
    return LogReader(context(directory, configs), KeptInMemory())


@pytest.mark.parametrize("scenario", ["transactions", "idempotent"])
def test_transaction_indexes_and_snapshots_are_those_of_the_broker(tmp_path: Path, scenario: str) -> None:
    for path, configs in partitions(scenario):
        copy = tmp_path / path.name
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("*.txnindex", "*.snapshot"))
        settings: dict[str, Any] = {
            name.replace(".", "_"): value for name, value in (broker_dirs.BROKER_CONFIGS | configs).items()
        }
        with open_log(copy, clock=ManualClock(NEVER_EXPIRED_MS), **settings) as log:
            rebuild_log(log)
        for expected in path.glob("*.txnindex"):
            rebuilt = copy / expected.name
            assert (rebuilt.read_bytes() if rebuilt.exists() else b"") == expected.read_bytes(), expected
        for expected in path.glob("*.snapshot"):
            entries = checkpoints.decode_snapshot(expected.read_bytes())
            assert sorted(checkpoints.decode_snapshot((copy / expected.name).read_bytes())) == sorted(entries), expected


# A small log made here


def write_small(directory: object, marks: KeptInMemory, filesystem: MemoryFileSystem | None = None) -> None:
    with open_log(directory, marks, segment_bytes=900, index_interval_bytes=64, filesystem=filesystem) as log:
        for n in range(4):
            append(log, b"plain %d" % n)
            write_transactional(log, 7, 2 * n, b"open %d" % n, b"x")
            end_transaction(log, 7, commit=n % 2 == 0)
            log.append(batch(b"idempotent", producer_id=9, base_sequence=n))
        log.checkpoint()


SETTINGS: dict[str, Any] = {"segment_bytes": 900, "index_interval_bytes": 64}
CONFIGS = {"segment.bytes": "900", "index.interval.bytes": "64"}
DAMAGES = {
    ".index": b"\0\0\0\1\0\0\0\7",
    ".timeindex": b"\0" * 11 + b"\1",
    ".txnindex": b"",
    ".snapshot": b"not a snapshot",
}


def files(directory: Path) -> dict[str, bytes]:
    """All files except the locks, which contain the last holder."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix not in ("", ".lock")}


@pytest.mark.parametrize("suffix", DAMAGES)
def test_any_damaged_file_is_rebuilt_as_before(tmp_path: Path, suffix: str) -> None:
    marks = KeptInMemory()
    write_small(tmp_path, marks)
    expected = files(tmp_path)
    with open_log(tmp_path, marks, **SETTINGS) as log:
        seen = rows(log), committed(log)
        hurt = sorted(tmp_path.glob(f"*{suffix}"))[0]
        if suffix == ".snapshot":
            hurt = tmp_path / file_names.segment_file(log.segments.active.base_offset, suffix)
        right = hurt.read_bytes()
        hurt.write_bytes(DAMAGES[suffix])
        log.refresh()
        planned = plan_rebuild(log)
        assert [Path(name) for name, _ in planned.changes] == [hurt]
        assert hurt.read_bytes() == DAMAGES[suffix], "a plan changes nothing"
        assert rebuild_log(log).changes == planned.changes
        assert hurt.read_bytes() == right
        assert (rows(log), committed(log)) == seen
        assert rebuild_log(log).changes == ()
    assert files(tmp_path) == expected
    assert verify_log(context(tmp_path, CONFIGS)).findings == ()


def test_indexes_with_other_entries_that_are_right_are_kept(tmp_path: Path) -> None:
    """A log written in several runs: each begins to count the interval again, and closing adds a time entry."""
    marks = KeptInMemory()
    for run in range(9):
        with open_log(tmp_path, marks, index_interval_bytes=200) as log:
            for n in range(3):
                append(log, b"value", timestamps=NOW_MS + 10 * run + n)
            log.checkpoint()
    with open_log(tmp_path, marks, index_interval_bytes=200) as log:
        log.roll()
    before = files(tmp_path)
    looked_at = context(tmp_path, {"index.interval.bytes": "200"})
    rebuilt = IndexEntries(0, 200)
    for window in SegmentReader(looked_at, 0).batches():
        rebuilt.add(window)
    assert before[file_names.segment_file(0, file_names.TIME_INDEX)] != rebuilt.time_index()
    assert verify_log(looked_at).findings == ()
    with open_log(tmp_path, marks, index_interval_bytes=200) as log:
        assert plan_rebuild(log).changes == rebuild_log(log).changes == ()
    assert files(tmp_path) == before


def test_an_index_that_lost_most_of_its_entries_is_rebuilt(tmp_path: Path) -> None:
    marks = KeptInMemory()
    write_small(tmp_path, marks)
    index = tmp_path / file_names.segment_file(0, file_names.INDEX)
    right = index.read_bytes()
    index.write_bytes(right[:8])
    with open_log(tmp_path, marks, **SETTINGS) as log:
        assert rebuild_log(log).changes == ((str(index), f"1 right entry of {len(right) // 8}"),)
    assert index.read_bytes() == right


def an_abort_more(index: bytes) -> bytes:
    *_, last = entries = index_entries.decode_aborted(index)
    return index_entries.encode_aborted([*entries, replace(last, producer_id=8, last_offset=last.last_offset + 1)])


def an_epoch_more(snapshot: bytes) -> bytes:
    entries = checkpoints.decode_snapshot(snapshot)
    return checkpoints.encode_snapshot([each._replace(producer_epoch=each.producer_epoch + 1) for each in entries])


@pytest.mark.parametrize(("suffix", "saying_more"), [(".txnindex", an_abort_more), (".snapshot", an_epoch_more)])
def test_entries_beyond_a_complete_log_are_dropped(
    tmp_path: Path, suffix: str, saying_more: Callable[[bytes], bytes]
) -> None:
    marks = KeptInMemory()
    write_small(tmp_path, marks)
    with open_log(tmp_path, marks, **SETTINGS) as log:
        changed = next(path for path in sorted(tmp_path.glob(f"*{suffix}")) if path.stat().st_size)
        right = changed.read_bytes()
        changed.write_bytes(saying_more(right))
        assert [Path(name) for name, _ in rebuild_log(log).changes] == [changed]
        assert changed.read_bytes() == right


def test_an_active_segment_with_a_wrong_index_is_rolled_so_that_other_writers_look_again(tmp_path: Path) -> None:
    marks = KeptInMemory()
    with (
        open_log(tmp_path, marks, index_interval_bytes=64) as log,
        open_log(tmp_path, marks, index_interval_bytes=64) as other,
    ):
        for n in range(10):
            append(log, b"value %d" % n)
        log.checkpoint()
        index = tmp_path / file_names.segment_file(0, file_names.INDEX)
        padded = index.read_bytes()
        right = padded.rstrip(b"\0")
        index.write_bytes(padded[:7] + bytes([padded[7] + 1]) + padded[8:])  # a wrong position that opening overlooks
        assert [Path(name) for name, _ in rebuild_log(log).changes] == [index]
        assert index.read_bytes() == right
        assert append(other, b"next").first_offset == 10
        assert other.segments.active.base_offset == 10
        log.refresh()
        assert len(rows(log)) == 11
        other.checkpoint()
    assert verify_log(context(tmp_path, {"index.interval.bytes": "64"})).findings == ()


def test_a_damaged_log_is_named_and_the_others_are_rebuilt(tmp_path: Path) -> None:
    marks = KeptInMemory()
    write_small(tmp_path, marks)
    first, second = sorted(tmp_path.glob("*.log"))[:2]
    data = bytearray(first.read_bytes())
    data[70] ^= 1
    first.write_bytes(data)
    indexes = [path.with_suffix(file_names.INDEX) for path in (first, second)]
    right = indexes[1].read_bytes()
    with open_log(tmp_path, marks, **SETTINGS) as log:
        for index in indexes:
            index.write_bytes(b"\0\0\0\1\0\0\0\7")
        report = rebuild_log(log)
    assert [(error.path, error.position) for error in report.refused] == [(str(first), 0)]
    assert indexes[0].read_bytes() == b"\0\0\0\1\0\0\0\7"
    assert indexes[1].read_bytes() == right
    with pytest.raises(CorruptRecordError, match="checksum"):
        rebuild_segment(context(tmp_path, CONFIGS), 0, dry_run=True)


def test_nothing_is_rebuilt_while_another_works_on_the_partition(tmp_path: Path) -> None:
    with open_log(tmp_path) as log, open_log(tmp_path) as other, other.maintaining(), pytest.raises(LogDirLockedError):
        rebuild_log(log)


def test_a_power_cut_leaves_every_index_old_or_new() -> None:
    """At every step of rebuilding one segment, for some of the possible disks."""
    disk, marks = MemoryFileSystem(), KeptInMemory()
    write_small("/log", marks, disk)
    paths = [file_names.join("/log", file_names.segment_file(0, kind)) for kind in INDEX_KINDS]
    new = [content(disk, path) for path in paths]
    for path in paths:
        with disk.open(path, "create") as file:
            file.truncate(0)
            file.write(0, b"old")
            file.sync()
    disk.sync_directory("/log")
    config = LogConfig.from_mapping(CONFIGS)

    def program(filesystem: MemoryFileSystem) -> None:
        rebuild_segment(LogContext("/log", config, ManualClock(), filesystem), 0)

    steps = 0
    for operation, cut in crash_points(program, disk):
        steps += 1
        for seed in range(5):
            crashed = cut.crash(seed)
            for path, right in zip(paths, new, strict=True):
                assert content(crashed, path) in (b"old", right), operation
    assert steps > 6
    program(disk)
    assert [content(disk, path) for path in paths] == new


def content(disk: MemoryFileSystem, path: str) -> bytes:
    with disk.open(path, "read") as file:
        return bytes(file.read(0, 1 << 20))


PLAIN, OPEN, MARKER = 0, 0x10, 0x30  # attributes of a batch
RUNS = st.tuples(st.integers(-1, 2), st.integers(0, 2), st.sampled_from([PLAIN, OPEN, OPEN, MARKER]), st.integers(1, 8))


@given(st.lists(RUNS, max_size=12))
def test_batches_that_leave_no_trace_do_not_change_the_state(runs: list[tuple[int, int, int, int]]) -> None:
    """Replayed batch by batch, at once, and in windows of seven like a walk through a segment."""
    rows = [(producer_id, epoch, attributes) for producer_id, epoch, attributes, count in runs for _ in range(count)]
    table = np.zeros(len(rows), HEADERS)
    table["magic"], table["count"] = 2, 1
    table["base_offset"] = table["last_offset"] = table["max_timestamp"] = table["base_sequence"] = np.arange(len(rows))
    table["producer_id"], table["producer_epoch"], table["attributes"] = np.array(rows, np.int64).reshape(-1, 3).T
    headers = BatchHeaders(table)
    markers = {offset: Marker(offset % 2 == 0, 0, offset) for offset in np.flatnonzero(headers.is_control).tolist()}
    windows = [headers[at : at + 7] for at in range(0, len(rows), 7)]
    traces = [window[rows_for_replay(window)].table for window in windows]
    singly, whole, without = ProducerStateManager(), ProducerStateManager(), ProducerStateManager()
    completed = [txn for n in range(len(rows)) for txn in singly.replay(headers[n : n + 1], markers)]
    assert list(whole.replay(headers, markers)) == completed
    assert list(without.replay(BatchHeaders(np.concatenate([np.empty(0, HEADERS), *traces])), markers)) == completed
    for shortened in (whole, without):
        assert list(shortened.producers.items()) == list(singly.producers.items())
        assert shortened.ongoing == singly.ongoing


def test_a_file_with_other_bytes_is_not_called_wrong_since_it_may_be_valid() -> None:
    assert difference(b"abc", b"axc") == "3 bytes, which differ from the rebuilt ones from position 1 on"
    assert difference(None, b"a") == "missing"
