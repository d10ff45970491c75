"""Two copies of one topic to an object store at once: both end well, and the log has the source's records once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage.bucket import BucketFileSystem, delete_topic, open_root
from pyspark_commitlog.storage.directory import LogManager
from pyspark_commitlog.storage.errors import StorageError, UnknownTopicOrPartitionError
from pyspark_commitlog.storage.transfer import copy_to_bucket
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
