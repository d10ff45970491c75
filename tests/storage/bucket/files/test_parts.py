"""Parts of objects: read ahead, kept within bounds, asked for again after a failure, and on a store with faults."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from random import Random
from threading import Event

import pytest

from pyspark_commitlog.storage.bucket.files import parts
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.files.parts import AHEAD_BYTES, Part, Parts, Progress
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.stores.patience import PatientStore
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import ObjectMissingError, StoreAccessError
from tests.support.clock import ManualClock
from tests.support.logs.building import records
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.filling import attempts, make_topic, write
from tests.support.stores.memory_store import MemoryStore

ROOT = "memory://bucket"


def part(number: int, length: int = 10) -> Part:
    return Part("a", number * length, length, 1000)


class WaitingStore(MemoryStore):
    """Answers reads once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = Event()
        self.objects["a"] = bytes(range(250)) * 4

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        assert self.go.wait(60)
        return super().get_range(key, start, length)


def test_what_is_read_ahead_is_not_waited_for_and_not_asked_for_again() -> None:
    store = WaitingStore()
    found = Parts(PatientStore(store, attempts))
    assert found.get([], ahead=[part(0), part(1)]) == []
    store.go.set()
    assert found.get([part(0), part(1)]) == [bytes(range(10)), bytes(range(10, 20))]
    assert store.requests == {"get_range": 2}


def test_a_process_that_was_forked_during_a_read_reads_by_itself() -> None:
    store = WaitingStore()
    found = Parts(PatientStore(store, attempts))
    found.get([], ahead=[part(0)])
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that waits for its parent's threads
        store.go.set()
        os._exit(found.get([part(0)]) != [bytes(range(10))])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.go.set()


def test_parts_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "KEPT_BYTES", 35)
    store = WaitingStore()
    store.go.set()
    found = Parts(PatientStore(store, attempts))
    for number in range(10):
        found.get([part(number)])
    assert len(found._kept) == 3
    found.get([part(7), part(8), part(9)])
    assert store.requests == {"get_range": 10}
    found.get([part(0)])
    assert store.requests == {"get_range": 11}


def test_a_part_that_failed_is_asked_for_again() -> None:
    store = WaitingStore()
    store.go.set()
    data = store.objects.pop("a")
    found = Parts(PatientStore(store, attempts))
    with pytest.raises(ObjectMissingError):
        found.get([part(0)])
    store.objects["a"] = data
    assert found.get([part(0)]) == [data[:10]]


def test_an_error_while_reading_ahead_is_not_that_of_a_later_read() -> None:
    store = WaitingStore()
    data = store.objects.pop("a")
    found = Parts(PatientStore(store, attempts))
    found.get([], ahead=[part(0)])
    (ahead,) = found._kept.values()
    store.go.set()
    assert isinstance(ahead.exception(), ObjectMissingError)
    store.objects["a"] = data
    assert found.get([part(0)]) == [data[:10]]
    assert found._bytes == 10


def test_a_reader_that_begins_again_at_the_batch_that_its_read_cut_is_read_ahead_of() -> None:
    progress = Progress()
    assert progress.ahead_of(0, 1000) == 0
    assert progress.ahead_of(900, 1000) == 1000
    assert progress.ahead_of(1800, 12) == 0  # the header of the batch that was cut
    assert progress.ahead_of(1800, 1000) == 1000
    assert progress.ahead_of(2800, 1000) == 1000


def test_a_read_that_is_repeated_with_more_bytes_is_read_ahead_of() -> None:
    progress = Progress()
    assert progress.ahead_of(500, 64) == 0
    assert progress.ahead_of(500, 2 * AHEAD_BYTES) == AHEAD_BYTES


def test_nothing_is_read_ahead_of_a_reader_that_jumps() -> None:
    progress = Progress()
    assert [progress.ahead_of(position, 100) for position in (0, 5000, 1000, 4000, 2000)] == [0] * 5


@pytest.mark.parametrize("seed", range(5))
def test_a_store_that_fails_at_random_gives_the_same_records(seed: int) -> None:
    store = MemoryStore()
    log = open_root(ROOT, create=True, store=store, check=lambda _: [])
    make_topic(log, "t")
    for first in range(0, 60, 6):
        values: list[bytes | None] = [b"%d" % number for number in range(first, first + 6)]
        write(log, "t", {0: [records(values)]}, batch_bytes_max=90)
    faulty = FaultyStore(store, Random(seed), rate=0.2)
    done = 0
    while done < 3:  # a refused right is an error at once: try again
        with suppress(StoreAccessError):
            files = BucketFileSystem(open_root(ROOT, store=faulty, clock=ManualClock(), random=Random(seed)))
            with LogManager.open(ROOT, filesystem=files) as manager, manager.open_reader("t", 0) as reader:
                tables = [*reader.records(0, 60)]
            found = [row for table in tables if table.values is not None for row in table.values.to_list()]
            assert found == [b"%d" % number for number in range(60)]
            done += 1
