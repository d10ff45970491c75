"""Copies to an object store, two at once or killed: all end well, and the log has the source's records once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.topics import delete_topic
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import MissingSegmentError, StorageError, UnknownTopicOrPartitionError
from pyspark_commitlog.storage.format.files.file_names import unfinished_directory
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from tests.support.clock import ManualClock
from tests.support.logs.building import records, rows
from tests.support.stores.memory_store import MemoryStore

ROOT = "memory://bucket"
LIMIT = 1000  # bytes of an object: several pieces


class InterruptedStore(MemoryStore):
    """Calls a function before the put of a number."""

    def __init__(self, other: MemoryStore, number: int, interrupt: Callable[[], object]) -> None:
        super().__init__()
        self.objects, self.modified = other.objects, other.modified
        self.number, self.interrupt, self.puts = number, interrupt, 0

    def put_new(self, key: str, data: bytes) -> None:
        self.puts += 1
        if self.puts == self.number:
            self.interrupt()
        super().put_new(key, data)


@pytest.fixture(params=["with topic ids", "without"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogManager]:
    with LogManager.open(str(tmp_path / "log"), create=True, clock=ManualClock()) as manager:
        manager.create_topic("t", partitions=2, configs={"segment.bytes": "1000"})
        for partition in (0, 1):
            log = manager.open_log("t", partition)
            for number in range(12):
                log.append_records(records([b"%d-%02d" % (partition, number) * 30]))
    if request.param == "without":
        for path in tmp_path.glob("log/*/partition.metadata"):
            path.unlink()
        (tmp_path / "log" / "topics.json").unlink()
    with LogManager.open(str(tmp_path / "log"), clock=ManualClock()) as manager:
        yield manager


def copied(source: LogManager, store: MemoryStore) -> None:
    list(copy_to_bucket(source, open_root(ROOT, store=store), limit=LIMIT))


def content(manager: LogManager) -> list[list[tuple[int, bytes | None]]]:
    found = []
    for partition in (0, 1):
        with manager.open_reader("t", partition) as reader:
            found.append(rows(reader))
    return found


def test_a_copy_takes_what_another_one_committed_at_any_of_its_writes(source: LogManager) -> None:
    store, number = MemoryStore(), -1
    open_root(ROOT, create=True, store=store, check=lambda _: [])
    empty, wanted, is_interrupted = dict(store.objects), content(source), True
    while is_interrupted:
        store.objects, number = dict(empty), number + 2
        store.modified = dict.fromkeys(store.objects, 0)
        interrupted = InterruptedStore(store, number, lambda: copied(source, store))
        copied(source, interrupted)
        is_interrupted = interrupted.puts >= number
        with LogManager.open(ROOT, filesystem=BucketFileSystem(open_root(ROOT, store=store))) as shown:
            assert content(shown) == wanted, number
    assert number > 20


def test_a_copy_that_is_killed_at_any_of_its_writes_is_visibly_unfinished_and_goes_on(source: LogManager) -> None:
    def kill() -> None:
        raise KeyboardInterrupt

    store, number, whole = MemoryStore(), 0, content(source)
    open_root(ROOT, create=True, store=store, check=lambda _: [])
    empty, seen, was_killed = dict(store.objects), set[int](), True
    while was_killed:
        store.objects, number = dict(empty), number + 1
        store.modified = dict.fromkeys(store.objects, 0)
        with suppress(KeyboardInterrupt):
            copied(source, InterruptedStore(store, number, kill))
        finished = complete(store)
        was_killed = finished.keys() != {0, 1}
        assert all(rows == whole[partition] for partition, rows in finished.items()), number
        seen.add(len(finished))
        copied(source, store)
        assert complete(store) == dict(enumerate(whole))
    assert (seen, number > 20) == ({0, 1, 2}, True)


def test_an_unfinished_copy_of_the_longest_name_is_told_and_goes_on(tmp_path: Path) -> None:
    def kill() -> None:
        raise KeyboardInterrupt

    longest, store = "t" * 249, MemoryStore()
    open_root(ROOT, create=True, store=store, check=lambda _: [])
    with LogManager.open(str(tmp_path / "log"), create=True, clock=ManualClock()) as source:
        source.create_topic(longest, partitions=1)
        source.open_log(longest, 0).append_records(records([b"a"]))
        with suppress(KeyboardInterrupt):
            copied(source, InterruptedStore(store, 2, kill))
        with LogManager.open(ROOT, filesystem=BucketFileSystem(open_root(ROOT, store=store))) as shown:
            (name,) = (each for each in shown.filesystem.list(ROOT) if each.startswith("ttt"))
            assert name == unfinished_directory(longest, 0)
            assert "partition.metadata" in shown.filesystem.list(shown.path(name))
            with pytest.raises(MissingSegmentError, match="~"):
                shown.open_reader(longest, 0)
        copied(source, store)
    shown = LogManager.open(ROOT, filesystem=BucketFileSystem(open_root(ROOT, store=store)))
    with shown, shown.open_reader(longest, 0) as reader:
        assert rows(reader) == [(0, b"a")]


def complete(store: MemoryStore) -> dict[int, list[tuple[int, bytes | None]]]:
    """Returns the rows of each partition of the topic that readers can open."""
    found = {}
    with LogManager.open(ROOT, filesystem=BucketFileSystem(open_root(ROOT, store=store))) as shown:
        for partition in shown.topic("t").partitions if "t" in shown.topics() else ():
            with suppress(MissingSegmentError), shown.open_reader("t", partition) as reader:
                found[partition] = rows(reader)
    return found


def test_a_copy_is_refused_if_another_source_was_copied_in_between(source: LogManager, tmp_path: Path) -> None:
    """It has as many records of the same sizes."""
    with LogManager.open(str(tmp_path / "other"), create=True, clock=ManualClock()) as other:
        other.create_topic("t", partitions=2, configs={"segment.bytes": "1000"})
        for partition in (0, 1):
            log = other.open_log("t", partition)
            for number in range(12):
                log.append_records(records([b"%d+%02d" % (partition, number) * 30]))
        store = MemoryStore()
        open_root(ROOT, create=True, store=store, check=lambda _: [])
        copied(other, store)
        state = open_root(ROOT, store=store).state
        for path in tmp_path.glob("log/*/partition.metadata"):
            path.unlink()
        (tmp_path / "log" / "topics.json").unlink(missing_ok=True)
        with (
            LogManager.open(source.directory, clock=ManualClock()) as without_ids,
            pytest.raises(StorageError, match=r"other records between offsets .* run this one again; otherwise delete"),
        ):
            copied(without_ids, store)
        assert open_root(ROOT, store=store).state.named_objects() == state.named_objects()


def test_a_topic_that_is_deleted_while_it_is_copied_is_named(source: LogManager) -> None:
    store = MemoryStore()
    log = open_root(ROOT, create=True, store=store, check=lambda _: [])

    def delete() -> None:
        log.catch_up()
        log.commit(lambda state: delete_topic(state, "t"))

    with pytest.raises(UnknownTopicOrPartitionError, match="t-0: the topic was deleted while it was copied"):
        copied(source, InterruptedStore(store, 2, delete))
