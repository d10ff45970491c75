"""The log moves on between two reads of files by one reader, which gets the files of one moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_commitlog.storage.bucket.collecting import CollectLimits, collect
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import RetainChange
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.topics import find_topic
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.segment.joining import Holes
from tests.storage.bucket.files.test_filesystem import ROOT, fill, numbered, numbers
from tests.support.clock import ManualClock
from tests.support.stores.filled import place_of
from tests.support.stores.filling import write
from tests.support.stores.memory_store import MemoryStore

COUNT = 60
Moving = Callable[[CommitLog], object]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(store: MemoryStore) -> CommitLog:
    log = open_root(ROOT, create=True, store=store, check=lambda _: [])
    assert fill(log, [20, 20, 20]) == COUNT
    return log


@pytest.fixture
def manager(store: MemoryStore, log: CommitLog) -> LogManager:
    return LogManager.open(ROOT, filesystem=BucketFileSystem(open_root(ROOT, store=store)))


def append(log: CommitLog) -> None:
    write(log, "t", {0: [numbered(log.catch_up().partitions[find_topic(log.state, "t").topic_id, 0].end, 10)]})


def consolidate_the_first(log: CommitLog) -> None:
    size = place_of(log).parts[0].size
    consolidate(place_of(log), LogConfig(segment_bytes=size), ManualClock(), 0)


def consolidate_all(log: CommitLog) -> None:
    consolidate(place_of(log), LogConfig(segment_ms=1), ManualClock(), 10**15)


def retain(log: CommitLog) -> None:
    log.catch_up()
    log.commit(lambda state: RetainChange(find_topic(state, "t").topic_id, 0, 30))


def move_all(log: CommitLog) -> None:
    """Moves, and then deletes what the log does not need any more."""
    append(log)
    consolidate_the_first(log)
    retain(log)
    append(log)
    consolidate_all(log)
    collect(log, CollectLimits(-1, -1))


MOVES: list[Moving] = [append, consolidate_the_first, consolidate_all, retain, move_all]


@pytest.mark.parametrize("holes", [Holes.NOWHERE, Holes.ANYWHERE])  # the second as in a compacted topic
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("start", [30, 45, 59])
def test_a_reader_finds_all_records_though_the_log_moves_on(
    manager: LogManager, log: CommitLog, move: Moving, start: int, holes: Holes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogReader, "_find_holes", lambda _: holes)
    with manager, manager.open_reader("t", 0) as reader:
        move(log)
        manager.catch_up()  # for another reader of this process
        assert numbers(reader, start, COUNT) == list(range(start, COUNT))


@pytest.mark.parametrize("move", MOVES)
def test_a_watcher_finds_all_records_though_the_log_moves_on_between_its_reads(
    manager: LogManager, log: CommitLog, move: Moving
) -> None:
    with manager, manager.open_watcher("t", 0) as watcher:
        found = watcher.read(0, max_bytes=300)
        assert found is not None
        watcher.rest(0, COUNT)
        move(log)
        manager.catch_up()
        assert numbers(watcher, 40, COUNT) == list(range(40, COUNT))
        end = log.state.partitions[find_topic(log.state, "t").topic_id, 0].end
        watcher.catch_up()
        assert numbers(watcher, 40) == list(range(40, end))


def test_a_log_that_moves_on_while_it_is_loaded_is_shown_as_of_one_moment(
    manager: LogManager, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway appends while another of its threads opens the partition."""
    consolidate_the_first(log)
    manager.catch_up()
    read = BucketFileSystem._put_file

    def moving(self: BucketFileSystem, *arguments: object) -> bytes | None:
        monkeypatch.setattr(BucketFileSystem, "_put_file", read)
        move_all(log)
        manager.catch_up()
        return read(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(BucketFileSystem, "_put_file", moving)
    with manager, manager.open_watcher("t", 0) as watcher:
        assert numbers(watcher, 30, COUNT) == list(range(30, COUNT))
    assert BucketFileSystem._put_file is read
