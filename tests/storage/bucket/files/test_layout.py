"""How a partition's slices are shown as files: a file with other bytes at its positions is another file."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.transactions import EMPTY_BYTES
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.filesystem.port import FileStatus
from tests.support.stores.commits import commit_log
from tests.support.stores.filling import make_topic
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.transactional import PRODUCER, Client


@pytest.fixture
def log() -> CommitLog:
    log = commit_log(MemoryStore())
    make_topic(log, "t", 2)
    return log


def status_of_the_log(log: CommitLog) -> FileStatus:
    files = BucketFileSystem(log)
    found = files.status(f"{files.root}/t-0/{0:020}.log")
    assert found is not None
    return found


def size_of(value: bytes) -> int:
    """The size of a batch with one value."""
    log = commit_log(MemoryStore())
    make_topic(log, "t", 2)
    Client(log).append(value)
    return status_of_the_log(log).size


def test_a_log_with_an_aborted_transaction_is_another_file_also_if_it_has_grown_to_its_old_size(log: CommitLog) -> None:
    """A reader that knows positions in it would read other batches there."""
    kept, lost = Client(log), Client(log, "lost", PRODUCER + 1)
    kept.append(b"first")
    lost.append(b"x" * 100)
    before, shrinks_by = status_of_the_log(log), size_of(b"x" * 100) - EMPTY_BYTES
    lost.end(commit=False)
    aborted = status_of_the_log(log)
    assert aborted.size == before.size - shrinks_by
    kept.append(b"y" * (shrinks_by - size_of(b"")))
    grown = status_of_the_log(log)
    assert grown.size == before.size
    assert grown.inode == aborted.inode != before.inode


def test_a_log_that_grows_or_whose_transactions_are_committed_stays_the_same_file(log: CommitLog) -> None:
    client = Client(log)
    client.append(b"a")
    before = status_of_the_log(log)
    client.append(b"b")
    client.end(commit=True)
    after = status_of_the_log(log)
    assert after.size > before.size
    assert after.inode == before.inode
