"""A reader used repeatedly sees what a new reader would, for the cost of what was appended."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pyspark_commitlog.storage.errors import CorruptRecordError, StorageError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.filesystem.port import FileStatus
from pyspark_commitlog.storage.groups.lag import log_figures
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory, Marks
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.reading.watcher import LogWatcher
from pyspark_commitlog.storage.writing.log import Log
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.logs.building import append, config, end_transaction, open_log, rows, write_transactional

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


def watch(directory: Path, checkpoints: KeptInMemory | None = None, **settings: object) -> LogWatcher:
    return LogWatcher.open(str(directory), config(**settings), checkpoints=checkpoints or KeptInMemory())


def seen(reader: LogReader) -> tuple[object, ...]:
    return (
        reader.log_start_offset,
        reader.log_end_offset,
        reader.last_stable_offset,
        rows(reader, UNCOMMITTED),
        rows(reader, COMMITTED),
    )


def end_of_data(reader: LogReader, isolation: Isolation) -> int:
    """The slow twin of ``stable_end``: after the last batch with data, by a walk over the whole log."""
    bound, found = reader.end_offset(isolation), reader.log_start_offset
    for segment in reader.segments:
        found = max(found, min(segment.base_offset, bound))
        for window in segment.batches():
            table = window.headers.table
            data = table["last_offset"][~window.headers.is_control & (table["base_offset"] < bound)]
            found = max(found, int(data.max(initial=found - 1)) + 1)
    return found


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 40)),
        st.tuples(st.just("write"), st.integers(0, 2)),
        st.tuples(st.just("commit"), st.integers(0, 2)),
        st.tuples(st.just("abort"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["roll", "look", "delete", "reopen"]), st.just(0)),
    ),
    max_size=25,
)


class World:
    """A log being written, and its open transactions."""

    def __init__(self, directory: Path, index_interval_bytes: int) -> None:
        self.directory, self.index_interval_bytes = directory, index_interval_bytes
        self.marks = KeptInMemory()
        self.log = open_log(directory, self.marks, index_interval_bytes=index_interval_bytes)
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()

    def do(self, step: str, number: int) -> None:
        getattr(self, step)(number)

    def append(self, number: int) -> None:
        append(self.log, *[b"x" * number] * number)

    def write(self, number: int) -> None:
        write_transactional(self.log, number, self.sequences.get(number, 0), b"a", b"b")
        self.sequences[number] = self.sequences.get(number, 0) + 2
        self.open.add(number)

    def commit(self, number: int) -> None:
        self._end(number, commit=True)

    def abort(self, number: int) -> None:
        self._end(number, commit=False)

    def _end(self, number: int, *, commit: bool) -> None:
        if number in self.open:
            end_transaction(self.log, number, commit=commit)
            self.open.discard(number)

    def roll(self, _number: int) -> None:
        self.log.roll()

    def delete(self, _number: int) -> None:
        """Deletes half of the readable records."""
        start = (self.log.log_start_offset + self.log.last_stable_offset) // 2
        self.marks.write(Marks(self.marks.read().recovery_point, start))

    def reopen(self, _number: int) -> None:
        self.log.close()
        self.log = open_log(self.directory, self.marks, index_interval_bytes=self.index_interval_bytes)

    def look(self, _number: int) -> None:
        """Does nothing: the watcher catches up after every step, or only here."""


@settings(max_examples=25)
@given(steps=steps, each=st.booleans(), index_interval_bytes=st.sampled_from([0, 200, 4096]))
def test_a_watcher_sees_what_a_new_reader_sees(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], each: bool, index_interval_bytes: int
) -> None:
    world = World(tmp_path_factory.mktemp("log"), index_interval_bytes)
    watcher = watch(world.directory, world.marks)
    for step, number in [*steps, ("look", 0)]:
        world.do(step, number)
        if each or step == "look":
            watcher.catch_up()
            fresh = watch(world.directory, world.marks)
            assert seen(watcher) == seen(fresh)
            for isolation in Isolation:
                synced = min(world.marks.read().recovery_point or 0, fresh.end_offset(isolation))
                assert watcher.stable_end(isolation) == max(end_of_data(fresh, isolation), synced)


def two_batches_a_look(log: Log, watcher: LogWatcher) -> None:
    append(log, b"a", b"b")
    append(log, b"c")
    watcher.catch_up()


def test_known_batches_are_not_read_again(tmp_path: Path) -> None:
    """Rules that never apply count opened files and reads."""
    opened, read, listed = fail("open", call=-1), fail("read", call=-1), fail("list", call=-1)
    filesystem = FaultyFileSystem(LocalFileSystem(), [opened, read, listed])
    log = open_log(tmp_path)
    for _ in range(50):
        append(log, b"x" * 1000)
    watcher = LogWatcher.open(str(tmp_path), filesystem=filesystem)
    before = (opened.seen, listed.seen, read.seen)
    append(log, b"y")
    watcher.catch_up()
    assert watcher.log_end_offset == 51
    assert (opened.seen, listed.seen, read.seen) == (before[0], before[1], before[2] + 1)


def test_an_incomplete_batch_is_not_seen_until_it_is_complete(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    watcher = watch(tmp_path)
    whole = log.segments.active.size
    append(log, b"b" * 100)
    path = tmp_path / "00000000000000000000.log"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    watcher.catch_up()
    assert (watcher.log_end_offset, watcher.segments.active.size) == (1, whole)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))  # its length is there, not all of its bytes
    watcher.catch_up()
    assert watcher.log_end_offset == 1
    path.write_bytes(data)
    watcher.catch_up()
    assert rows(watcher) == [(0, b"a"), (1, b"b" * 100)]


def test_a_truncated_log_is_read_again_completely(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    two_batches_a_look(log, watcher := watch(tmp_path))
    log.truncate_to(2)
    watcher.catch_up()
    assert watcher.log_end_offset == 2
    append(log, b"d")
    watcher.catch_up()
    assert rows(watcher) == [(0, b"a"), (1, b"b"), (2, b"d")]


class OneTimeForAllChanges(LocalFileSystem):
    """A file system on which a directory looks the same after each change, as after two within a millisecond."""

    def status(self, path: str) -> FileStatus | None:
        found = super().status(path)
        return found._replace(size=0, modified_ms=0) if found is not None and found.is_directory else found


def test_a_roll_is_seen_though_the_time_of_the_directory_stays(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    watcher = LogWatcher.open(str(tmp_path), filesystem=OneTimeForAllChanges())
    log.roll()
    watcher.catch_up()
    append(log, b"b")
    watcher.catch_up()
    assert rows(watcher) == [(0, b"a"), (1, b"b")]


def test_a_deleted_partition_is_reported(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory)
    watcher = watch(directory)
    log.close()
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    with pytest.raises(StorageError, match=r"t-0: no such directory"):
        watcher.catch_up()


def test_a_log_that_ends_below_its_recovery_point_is_reported_every_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    watcher = watch(tmp_path, checkpoints := KeptInMemory())
    log.roll()
    append(log, b"b")
    log.close()
    checkpoints.write(Marks(recovery_point=2, log_start_offset=0))
    (tmp_path / "00000000000000000001.log").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=r"0+1\.log, position 0"):
            watcher.catch_up()


def test_a_stable_end_leaves_out_markers_that_may_not_be_synced(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write_transactional(log, 1, 0, b"a", b"b")
    watcher = watch(tmp_path)
    assert (watcher.stable_end(COMMITTED), watcher.stable_end(UNCOMMITTED)) == (0, 2)
    end_transaction(log, 1, commit=True)
    write_transactional(log, 2, 0, b"c")
    end_transaction(log, 2, commit=False)
    watcher.catch_up()
    assert watcher.log_end_offset == 5
    assert (watcher.stable_end(COMMITTED), watcher.stable_end(UNCOMMITTED)) == (4, 4)
    log.roll()
    watcher.catch_up()
    assert watcher.stable_end(COMMITTED) == 5, "what a roll closes is synced"


def test_a_marker_below_the_recovery_point_is_synced(tmp_path: Path) -> None:
    marks = KeptInMemory()
    log = open_log(tmp_path, marks)
    write_transactional(log, 1, 0, b"a")
    end_transaction(log, 1, commit=True)
    log.checkpoint()
    assert watch(tmp_path, marks).stable_end(COMMITTED) == 2


@pytest.mark.parametrize("index_interval_bytes", [0, 500, 1 << 20])
@pytest.mark.parametrize("max_bytes", [1, 99, 300, 1000, 5000])
@pytest.mark.parametrize("start", [0, 7, 31])
def test_a_range_limited_in_bytes_ends_after_a_batch(
    tmp_path: Path, index_interval_bytes: int, max_bytes: int, start: int
) -> None:
    log = open_log(tmp_path, index_interval_bytes=index_interval_bytes)
    for n in range(20):
        append(log, b"x" * (n * 7 % 50), b"y")
        if n in (8, 9):
            log.roll()
    watcher = watch(tmp_path)
    headers = [window.headers.table for segment in watcher.segments for window in segment.batches()]
    table = np.concatenate(headers)
    table = table[table["last_offset"] >= start]
    fitting = max(int((np.cumsum(table["size"]) <= max_bytes).sum()), 1)
    expected = int(table["last_offset"][fitting - 1]) + 1
    assert watcher.offset_within(start, 40, max_bytes) == expected
    assert watcher.offset_within(start, expected - 1, max_bytes) == max(expected - 1, start)


def test_bytes_between_two_offsets_are_those_of_whole_segments_and_a_share_of_others(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, *[b"x" * 10] * 10)
        log.roll()
    watcher = watch(tmp_path)
    size = watcher.segments.first.size
    assert watcher.bytes_between(0, 30) == 3 * size
    assert watcher.bytes_between(5, 20) == size // 2 + size
    assert watcher.bytes_between(12, 12) == 0


def test_a_segment_that_leaves_the_log_between_two_looks_is_not_missed(tmp_path: Path) -> None:
    """Its size was requested, and only a vanished open file was searched for again: streams failed."""
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, *[b"x" * 10] * 10)
        log.roll()
    watchers = [watch(tmp_path) for _ in range(3)]
    size = watchers[0].segments.first.size
    for file in tmp_path.glob("*00.*"):
        file.unlink()
    assert watchers[0].bytes_between(0, 30) == 2 * size
    assert watchers[1].file_bytes() == 2 * size
    assert log_figures(("t", 0), watchers[2]).size == 2 * size


def test_files_of_segments_that_were_read_are_given_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for n in range(4):
        append(log, b"%d" % n)
        log.roll()
    append(log, b"4")
    watcher = watch(tmp_path)
    assert [int(part.offsets[0]) for part in watcher.records(0, 3)] == [0, 1, 2]
    assert ["_file" in vars(segment) for segment in watcher.segments] == [False, False, True, False, True]
    watcher.rest(1, 3)
    assert ["_file" in vars(segment) for segment in watcher.segments] == [False, False, False, False, True]
    assert watcher.offset_within(0, 5, 250) == 3
    assert ["_file" in vars(segment) for segment in watcher.segments][:2] == [False, False]
    assert [offset for offset, _ in rows(watcher)] == [0, 1, 2, 3, 4]
