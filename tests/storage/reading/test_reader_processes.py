"""Reading while other processes append and roll: never a torn or a repeated record."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.logs.building import config, open_log, records, rows

SETTINGS: dict[str, Any] = {"segment_bytes": 2000, "index_interval_bytes": 300, "segment_index_bytes": 1000}
RECORDS = 300
SPAWN = multiprocessing.get_context("spawn")  # as Spark's workers: nothing is inherited


def value(writer: int, n: int) -> bytes:
    return b"%d:%d:" % (writer, n) + b"x" * (n % 90)


def write(directory: str, writer: int, done: Event) -> None:
    """Batches of one to three records of mixed sizes."""
    with Log.open(directory, config(**SETTINGS)) as log:
        n = 0
        while n < RECORDS:
            count = min(1 + n % 3, RECORDS - n)
            log.append_records(records([value(writer, each) for each in range(n, n + count)]), sync=n % 50 == 0)
            n += count
    done.set()


def of_writer(found: list[tuple[int, bytes | None]], writer: int) -> list[bytes | None]:
    return [each for _, each in found if each is not None and each.startswith(b"%d:" % writer)]


def test_readers_see_a_growing_prefix_of_what_two_processes_write(tmp_path: Path) -> None:
    directory = str(tmp_path)
    Log.open(directory, config(**SETTINGS)).close()
    events = [SPAWN.Event(), SPAWN.Event()]
    writers = [SPAWN.Process(target=write, args=(directory, n, event)) for n, event in enumerate(events)]
    for process in writers:
        process.start()
    expected = [[value(writer, n) for n in range(RECORDS)] for writer in range(2)]
    before, rounds = 0, 0
    is_done = False
    while not is_done:
        is_done = all(event.is_set() for event in events) or not any(process.is_alive() for process in writers)
        with LogReader.open(directory, config(**SETTINGS)) as reader:
            found = rows(reader)
        assert [offset for offset, _ in found] == list(range(len(found)))
        assert len(found) >= before
        for writer in range(2):
            mine = of_writer(found, writer)
            assert mine == expected[writer][: len(mine)]
        before, rounds = len(found), rounds + 1
    for process in writers:
        process.join()
        assert process.exitcode == 0
    assert len(found) == 2 * RECORDS
    assert rounds > 2


def commit_marks(directory: str, partition: int) -> None:
    with LogManager.open(directory) as manager:
        log = manager.open_log("t", partition)
        for n in range(30):
            log.append_records(records([b"%d" % n]))
            log.checkpoint()


def test_checkpoints_written_by_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    directory = str(tmp_path / "logs")
    with LogManager.open(directory, create=True) as manager:
        manager.create_topic("t", partitions=2)
    processes = [SPAWN.Process(target=commit_marks, args=(directory, partition)) for partition in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    manager = LogManager.open(directory)
    assert [manager.marks(("t", partition)).recovery_point for partition in range(2)] == [30, 30]


def changed_ms(directory: Path) -> int:
    return directory.stat().st_mtime_ns // 1_000_000


class Listings(LocalFileSystem):
    """Gives the listings that were set first, and the real content from then on."""

    def __init__(self, *told: list[str]) -> None:
        self.told = list(told)
        self.count = 0

    def list(self, directory: str) -> list[str]:
        self.count += 1
        return self.told.pop(0) if self.told else super().list(directory)


def listed(directory: Path, filesystem: Listings, age_ms: int) -> tuple[int, int]:
    """The number of listings, and the ms waited, until a reader opened a log whose directory changed ``age_ms`` ago."""
    clock = ManualClock(changed_ms(directory) + age_ms)
    with LogReader.open(str(directory), clock=clock, filesystem=filesystem) as reader:
        assert reader.log_end_offset == 1
    return filesystem.count, clock.now_ms() - changed_ms(directory) - age_ms


@pytest.fixture
def one_record(tmp_path: Path) -> Path:
    with open_log(tmp_path) as log:
        log.append_records(records([b"a"]))
    return tmp_path


def test_a_directory_that_has_rested_is_listed_once(one_record: Path) -> None:
    assert listed(one_record, Listings(), 20) == (1, 0)
    assert listed(one_record, Listings(), 10**6) == (1, 0)


def test_a_directory_that_changed_just_now_is_listed_twice_without_a_wait(one_record: Path) -> None:
    assert listed(one_record, Listings(), 0) == (2, 0)
    assert listed(one_record, Listings(), 19) == (2, 0)


def test_a_name_that_one_of_two_listings_missed_is_waited_for(one_record: Path) -> None:
    """As when a segment is created or renamed while the directory is read."""
    assert listed(one_record, Listings([]), 0) == (3, 20)
    names = LocalFileSystem().list(str(one_record))
    assert listed(one_record, Listings(names, []), 0) == (3, 20)


def test_names_that_change_and_change_back_are_noticed_by_the_directorys_time(one_record: Path) -> None:
    """Two listings that both missed a segment, since it was renamed during each of them."""

    class Renaming(Listings):
        def list(self, directory: str) -> list[str]:
            found = super().list(directory)
            if self.count <= 2:
                stat = one_record.stat()
                os.utime(directory, ns=(stat.st_atime_ns, stat.st_mtime_ns + 5_000_000))
            return found

    clock = ManualClock(changed_ms(one_record))
    with LogReader.open(str(one_record), clock=clock, filesystem=Renaming([], [])) as reader:
        assert reader.log_end_offset == 1


def test_a_directory_that_never_rests_is_given_up(one_record: Path) -> None:
    class NeverTheSame(Listings):
        def list(self, directory: str) -> list[str]:
            return [*super().list(directory), str(self.count)]

    class AlwaysNow(ManualClock):
        def now_ms(self) -> int:
            return changed_ms(one_record)

    with pytest.raises(StorageError, match="without a pause"):
        LogReader.open(str(one_record), clock=AlwaysNow(), filesystem=NeverTheSame())
