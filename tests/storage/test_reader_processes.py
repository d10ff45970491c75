"""Reading while other processes append and roll: never a torn or a repeated record."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.manager import LogManager
from pyspark_commitlog.storage.reader import LogReader
from tests.support.clock import ManualClock
from tests.support.logs import config, open_log, records, rows

SETTINGS: dict[str, Any] = {"segment_bytes": 2000, "index_interval_bytes": 300, "segment_index_bytes": 1000}
RECORDS = 300
SPAWN = multiprocessing.get_context("spawn")  # as Spark's workers: nothing is inherited


def value(writer: int, n: int) -> bytes:
    return b"%d:%d:" % (writer, n) + b"x" * (n % 90)


def write(directory: str, writer: int, done: Event) -> None:
    """Batches of one to three records, sizes mixed."""
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


def test_a_listing_counts_only_once_the_directory_has_rested(tmp_path: Path) -> None:
    """A name made during the listing may be missed by it; a directory that changed just now is listed again."""
    open_log(tmp_path).close()
    for age_ms, waited_ms in ((0, 20), (5, 20), (19, 20), (20, 0), (10**6, 0)):
        clock = ManualClock(changed_ms(tmp_path) + age_ms)
        LogReader.open(str(tmp_path), clock=clock).close()
        assert clock.now_ms() == changed_ms(tmp_path) + age_ms + waited_ms


def test_a_directory_that_never_rests_is_given_up(tmp_path: Path) -> None:
    open_log(tmp_path).close()

    class AlwaysNow(ManualClock):
        def now_ms(self) -> int:
            return changed_ms(tmp_path)

    with pytest.raises(StorageError, match="without a pause"):
        LogReader.open(str(tmp_path), clock=AlwaysNow())
