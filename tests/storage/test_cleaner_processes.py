"""Compaction and retention in a process of their own, while others append and read: nothing lost, nobody disturbed."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Iterator
from multiprocessing.managers import ValueProxy
from multiprocessing.synchronize import Event
from typing import NamedTuple

import pytest

from pyspark_commitlog.storage.cleaner import Cleaner
from pyspark_commitlog.storage.errors import LogDirLockedError, OffsetOutOfRangeError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.manager import LogManager
from pyspark_commitlog.storage.reader import LogReader
from pyspark_commitlog.storage.retention import retain
from tests.support.logs import records

SPAWN = multiprocessing.get_context("spawn")  # as Spark's workers: nothing is inherited
BATCHES = 150  # of each writer
COUNTERS = 7  # keys that each writer uses again and again
PLAIN, IDEMPOTENT = b"plain", b"idempotent"
WRITERS = (PLAIN, IDEMPOTENT)
PRODUCER_ID = 2**40
SMALL = {"segment.bytes": "3000", "index.interval.bytes": "300", "flush.messages": "50"}
TOPICS = {
    # Removed at once, so that readers meet files that are gone.
    "compacted": {**SMALL, "cleanup.policy": "compact", "file.delete.delay.ms": "0"},
    "deleted": {**SMALL, "retention.bytes": "6000", "file.delete.delay.ms": "0"},
}


class Row(NamedTuple):
    offset: int
    key: bytes
    value: int  # the number of the batch


def write(directory: str, writer: bytes, done: Event) -> None:
    """Each batch has a key that is its own and one of a few; some of an idempotent producer are sent twice."""
    try:
        write_all(directory, writer)
    finally:
        done.set()


def write_all(directory: str, writer: bytes) -> None:
    with LogManager.open(directory) as manager:
        logs = [manager.open_log(topic, 0) for topic in TOPICS]
        for n in range(BATCHES):
            keys: list[bytes | None] = [b"%s own %d" % (writer, n), b"%s counter %d" % (writer, n % COUNTERS)]
            batch = records([b"%d" % n] * 2, keys=keys, timestamps=manager.clock.now_ms())  # old ones are forgotten
            fields = v2.BatchFields()
            if writer == IDEMPOTENT:
                fields = v2.BatchFields(producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=2 * n)
            for log in logs:
                log.append_records(batch, fields)
                if writer == IDEMPOTENT and n % 5 == 0:
                    assert log.append_records(batch, fields).duplicate


def maintain(directory: str, done: list[Event], replaced: ValueProxy[int], removed: ValueProxy[int]) -> None:
    """Round after round until the writers are done, and a last one of each."""
    with LogManager.open(directory) as manager:
        compacted, deleted = (manager.open_log(topic, 0) for topic in TOPICS)
        is_last = False
        while not is_last:
            is_last = all(event.is_set() for event in done)
            result = Cleaner().clean(compacted, None, manager.clock.now_ms())
            replaced.value += result.segments_before
            removed.value += len(retain(deleted).plan.removed)
            manager.clock.sleep_ms(10)  # who asks for a lock again at once may starve the others


def rows_of(reader: LogReader, start: int, end: int) -> Iterator[Row]:
    for part in reader.records(start, end, fetch_bytes=4000):
        assert part.keys is not None
        assert part.values is not None
        columns = zip(part.offsets.tolist(), part.keys.to_list(), part.values.to_list(), strict=True)
        for offset, key, value in columns:
            assert key is not None
            assert value is not None
            yield Row(offset, key, int(value))


class Compacted:
    """Reads a compacted topic from its beginning again and again."""

    def __init__(self, directory: str) -> None:
        self.reader = LogManager.open(directory).open_reader("compacted", 0)
        self.found: list[Row] = []
        self.own = dict.fromkeys(WRITERS, 0)  # batches seen, by writer
        self._reads = 0

    def look(self) -> None:
        """Also from what was known two reads ago, whose files may be gone."""
        self._reads += 1
        if self._reads % 3 == 0:
            self.reader.refresh()
        self.found = [*rows_of(self.reader, 0, self.reader.log_end_offset)]
        offsets = [row.offset for row in self.found]
        assert offsets == sorted(set(offsets))
        for writer in WRITERS:
            own = [row.value for row in self.found if row.key.startswith(b"%s own " % writer)]
            assert own == list(range(len(own)))
            assert len(own) >= self.own[writer]
            counters = [row.value for row in self.found if row.key.startswith(b"%s counter " % writer)]
            assert counters == sorted(set(counters))
            self.own[writer] = len(own)


class Following:
    """Reads on where it stopped in a topic of which the beginning is deleted."""

    def __init__(self, directory: str) -> None:
        self.reader = LogManager.open(directory).open_reader("deleted", 0)
        self.position = 0
        self.passed_over = 0
        self.found: list[Row] = []

    def look(self) -> None:
        """A log start that overtook it is told; nothing else is left out."""
        self.reader.refresh()
        try:
            for row in rows_of(self.reader, self.position, self.reader.log_end_offset):
                assert row.offset == self.position
                self.position += 1
                self.found.append(row)
        except OffsetOutOfRangeError:
            self.reader.refresh()
            assert self.reader.log_start_offset > self.position
            self.passed_over += self.reader.log_start_offset - self.position
            self.position = self.reader.log_start_offset


class Life(NamedTuple):
    """What was, when all were done."""

    compacted: Compacted
    looks: int
    following: Following
    replaced: int
    removed: int
    exit_codes: list[int | None]
    directory: str


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    directory = str(tmp_path_factory.mktemp("life") / "logs")
    with LogManager.open(directory, create=True) as manager:
        for topic, configs in TOPICS.items():
            manager.create_topic(topic, partitions=1, configs=configs)
            manager.open_log(topic, 0)
    with SPAWN.Manager() as shared:
        replaced, removed = shared.Value("i", 0), shared.Value("i", 0)
        done = [SPAWN.Event() for _ in WRITERS]
        processes = [
            SPAWN.Process(target=maintain, args=(directory, done, replaced, removed)),
            *(SPAWN.Process(target=write, args=(directory, *each)) for each in zip(WRITERS, done, strict=True)),
        ]
        for process in processes:
            process.start()
        compacted, following, looks = Compacted(directory), Following(directory), 0
        while any(process.is_alive() for process in processes):
            compacted.look()
            following.look()
            looks += 1
            time.sleep(0.01)
        for process in processes:
            process.join()
        compacted.reader.refresh()
        compacted.look()
        following.look()
        exit_codes = [process.exitcode for process in processes]
        return Life(compacted, looks, following, replaced.value, removed.value, exit_codes, directory)


def test_all_came_to_their_end_and_there_was_something_to_do_meanwhile(life: Life) -> None:
    assert life.exit_codes == [0, 0, 0]
    assert life.looks > 3
    assert life.replaced > 3
    assert life.removed > 3


def test_compaction_beside_writers_loses_no_newest_record_and_keeps_the_order(life: Life) -> None:
    newest = {row.key: row.value for row in life.compacted.found}
    last = range(BATCHES - COUNTERS, BATCHES)
    own = {b"%s own %d" % (writer, n): n for writer in WRITERS for n in range(BATCHES)}
    counters = {b"%s counter %d" % (writer, n % COUNTERS): n for writer in WRITERS for n in last}
    assert newest == {**own, **counters}
    assert len(life.compacted.found) < 4 * BATCHES


def test_a_reader_that_follows_beside_retention_misses_nothing_that_it_was_not_told_of(life: Life) -> None:
    written = 4 * BATCHES
    assert life.following.position == written
    assert len(life.following.found) + life.following.passed_over == written
    for writer in WRITERS:
        own = [row.value for row in life.following.found if row.key.startswith(b"%s own " % writer)]
        assert own == sorted(set(own))
        assert own


def hold(directory: str, is_held: Event, may_end: Event) -> None:
    """Compact, and wait in the middle of it."""

    def check() -> None:
        is_held.set()
        may_end.wait()

    with LogManager.open(directory) as manager:
        log = manager.open_log("compacted", 0)
        log.roll()
        Cleaner().clean(log, None, manager.clock.now_ms(), check=check)


def test_a_second_maintenance_is_told_who_works_on_the_partition(life: Life) -> None:
    is_held, may_end = SPAWN.Event(), SPAWN.Event()
    process = SPAWN.Process(target=hold, args=(life.directory, is_held, may_end))
    process.start()
    assert is_held.wait(60)
    with LogManager.open(life.directory) as manager:
        log = manager.open_log("compacted", 0)
        assert_refused(log)
        may_end.set()
        process.join()
        assert process.exitcode == 0
        Cleaner().clean(log, None, manager.clock.now_ms())
        retain(log)


def assert_refused(log: Log) -> None:
    for work in (lambda: Cleaner().clean(log, None, 0), lambda: retain(log)):
        with pytest.raises(LogDirLockedError) as refused:
            work()
        pattern = r"compacted-0/\.maintenance\.lock: another process works on the partition: compaction since \d{4}-"
        assert re.search(pattern, str(refused.value))
