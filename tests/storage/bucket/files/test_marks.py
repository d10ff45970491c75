"""The marks of a reader's partition are those of its files, whatever is committed between the reads of both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import RetainChange, SwapChange
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.files.marks import StateMarks
from pyspark_commitlog.storage.bucket.files.pinned import PinnedFiles
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.topics import find_topic
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.segment.joining import Holes
from tests.storage.bucket.files.test_filesystem import ROOT, fill, numbered, numbers
from tests.support.stores.commits import segment
from tests.support.stores.filling import write
from tests.support.stores.memory_store import MemoryStore

Change = Callable[[CommitLog], None]
Between = Callable[[Change], None]


@pytest.fixture
def log() -> CommitLog:
    log = open_root(ROOT, create=True, store=MemoryStore(), check=lambda _: [])
    assert fill(log, [4, 4]) == 8
    return log


def append(log: CommitLog) -> None:
    end = log.state.partitions[find_topic(log.state, "t").topic_id, 0].end
    write(log, "t", {0: [numbered(end, 4)]})


def retain(log: CommitLog) -> None:
    log.commit(lambda state: RetainChange(find_topic(state, "t").topic_id, 0, 6))


@pytest.fixture
def between(log: CommitLog, monkeypatch: pytest.MonkeyPatch) -> Between:
    """Lets something be committed just after a reader has pinned its files the next time."""
    pin = PinnedFiles.pin

    def set_next(change: Change) -> None:
        def moving(self: PinnedFiles) -> None:
            pin(self)
            monkeypatch.setattr(PinnedFiles, "pin", pin)
            change(log)

        monkeypatch.setattr(PinnedFiles, "pin", moving)

    return set_next


@pytest.mark.parametrize("change", [append, retain])
@pytest.mark.parametrize("is_open", [False, True], ids=["when it opens", "when it catches up"])
def test_a_reader_does_not_take_a_later_commit_for_a_loss(
    log: CommitLog, change: Change, is_open: bool, between: Between
) -> None:
    """The commit is of the thread that appends, or follows others, while another one reads."""
    with LogManager.open(ROOT, filesystem=BucketFileSystem(log)) as manager:
        if not is_open:
            between(change)
        with manager.open_watcher("t", 0) as watcher:
            if is_open:
                append(log)
                between(change)
                watcher.catch_up()
            end = watcher.log_end_offset
            assert numbers(watcher, 6) == list(range(6, end))
            watcher.catch_up()
            after = log.state.partitions[find_topic(log.state, "t").topic_id, 0]
            assert (watcher.log_start_offset, watcher.log_end_offset) == (after.log_start, after.end)
            assert end == after.end - (4 if change is append else 0)


def test_a_compacted_partition_has_holes_for_the_readers_who_still_have_its_segment(log: CommitLog) -> None:
    topic_id = find_topic(log.state, "t").topic_id
    log.commit(lambda _: SwapChange(topic_id, 0, segment(0, 4)._replace(records=1, is_compacted=True)))
    files = PinnedFiles(BucketFileSystem(log), f"{ROOT}/t-0")
    files.pin()
    marks = StateMarks(files)
    retain(log)
    assert marks.holes() is Holes.ANYWHERE
    files.pin()
    assert marks.holes() is Holes.NOWHERE
