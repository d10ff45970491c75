"""A log is copied while maintenance works on it: the copy has what the log had when the copy of the partition began."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.transfer import pieces, to_bucket, to_directory
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from pyspark_commitlog.storage.transfer.to_directory import copy_to_directory
from tests.support.clock import ManualClock
from tests.support.logs.building import records, rows
from tests.support.stores.memory_store import MemoryStore

ROOT = "memory://bucket"
SETTINGS = {"cleanup.policy": "compact,delete", "segment.bytes": "3000"}
Rows = list[tuple[int, bytes | None]]
Copy = Callable[[Callable[[], None]], Rows]
"""Copies topic t, calls a function when the source's batches are found and not yet copied; returns the copy's rows."""


@pytest.fixture
def source(tmp_path: Path) -> Iterator[LogManager]:
    """A topic with several closed segments; most of its records have a later one with their key."""
    with LogManager.open(str(tmp_path / "log"), create=True, clock=ManualClock()) as manager:
        manager.create_topic("t", partitions=1, configs=SETTINGS)
        log = manager.open_log("t", 0)
        for number in range(40):
            log.append_records(records([b"%02d" % number * 150] * 2, keys=[b"k%d" % (number % 3), b"%d" % number]))
        log.roll()
        assert len(log.segments) > 4
        yield manager


@pytest.fixture(params=["to a directory", "to a store"])
def copy(request: pytest.FixtureRequest, source: LogManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    def copied(interrupt: Callable[[], None]) -> Rows:
        def found(reader: LogReader, limit: int, end: int) -> list[pieces.Piece]:
            result = pieces.pieces_of(reader, limit, end)
            interrupt()
            return result

        for module in (to_bucket, to_directory):
            monkeypatch.setattr(module, "pieces_of", found)
        with LogManager.open(source.directory, clock=ManualClock()) as reading:
            if request.param == "to a directory":
                with LogManager.open(str(tmp_path / "copy"), create=True, clock=ManualClock()) as target:
                    list(copy_to_directory(reading, target))
                    return rows_of(target)
            store = MemoryStore()
            list(copy_to_bucket(reading, open_root(ROOT, create=True, store=store, check=lambda _: []), limit=2000))
        shown = BucketFileSystem(open_root(ROOT, store=store))
        with LogManager.open(ROOT, filesystem=shown, clock=ManualClock()) as target:
            return rows_of(target)

    return copied


def rows_of(manager: LogManager) -> Rows:
    with manager.open_reader("t", 0) as reader:
        return rows(reader)


def test_compaction_during_a_copy_does_not_change_the_copy(source: LogManager, copy: Copy) -> None:
    log, before = source.open_log("t", 0), rows_of(source)
    assert copy(lambda: Cleaner().clean(log, None, source.clock.now_ms()) and None) == before
    assert rows_of(source) != before


def test_segments_deleted_during_a_copy_are_in_the_copy(source: LogManager, copy: Copy) -> None:
    before, files = rows_of(source), list((Path(source.directory) / "t-0").glob("*.log"))
    assert copy(lambda: [path.rename(path.with_suffix(".away")) for path in files] and None) == before
    for path in files:
        path.with_suffix(".away").rename(path)


def test_a_file_that_was_cut_during_a_copy_is_refused(source: LogManager, copy: Copy) -> None:
    def cut() -> None:
        path = min((Path(source.directory) / "t-0").glob("*.log"))
        path.write_bytes(path.read_bytes()[:-100])

    with pytest.raises(StorageError, match=r"0{20}\.log: the file was changed or replaced while it was copied"):
        copy(cut)
