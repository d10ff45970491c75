"""Backups under load, and of processes that are killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager
from pyspark_commitlog.storage.backup.checking import verify_backup
from pyspark_commitlog.storage.backup.cuts import find_cut, list_cuts
from pyspark_commitlog.storage.backup.restoring import restore_backup
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.directory.admin import delete_topic
from pyspark_commitlog.storage.format import v2
from tests.storage.backup.logs import ORDERS, back_up, folder, tree
from tests.support.logs.building import NOW_MS, records, rows
from tests.support.logs.directories import directory_with_internal_topics

PROGRAM = """
import sys
from pathlib import Path
from tests.storage.backup.logs import back_up, folder
print("ready", flush=True)
sys.stdin.readline()
back_up(Path(sys.argv[1]), folder(Path(sys.argv[2])))
"""
SMALL = {"segment.index.bytes": "1000"}


def made(path: Path) -> Path:
    with LogManager.open(directory_with_internal_topics(path)) as manager:
        manager.create_topic("orders", partitions=1, configs={"retention.ms": "-1", **SMALL})
        manager.create_topic("prices", partitions=1, configs={"cleanup.policy": "compact", **SMALL})
    return path


def write_more(manager: LogManager, n: int) -> None:
    """Records with their offset as value, a group that has read them all, and whatever else changes files."""
    orders, prices = manager.open_log("orders", 0), manager.open_log("prices", 0)
    end = orders.log_end_offset
    orders.append_records(records([b"%d" % (end + each) for each in range(50)]))
    GroupOffsets(manager).commit("readers", {ORDERS: CommittedOffset(end + 50)})
    prices.append(v2.encode(records([b"%d" % n], keys=[b"k%d" % (n % 3)]), v2.BatchFields()))
    if n % 3 == 0:
        orders.roll()
        prices.roll()
    if n % 7 == 0:
        Cleaner().clean(prices, None, NOW_MS)
        orders.delete_records(max(0, end - 500))
    if n % 23 == 0:
        name = f"passing-{n}"
        manager.create_topic(name, partitions=1, configs=SMALL)
        delete_topic(manager, name)


@contextmanager
def load(directory: Path) -> Iterator[None]:
    over, errors = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            with LogManager.open(str(directory)) as manager:
                n = 0
                while not over.is_set():
                    write_more(manager, n)
                    n += 1
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not errors


def check_moment(directory: Path) -> None:
    """Each record is there with its value, from log start to end, and the group is at the end or 50 below."""
    with LogManager.open(str(directory)) as manager:
        with manager.open_reader("orders", 0) as reader:
            found = rows(reader)
            end = reader.log_end_offset
            assert found == [(offset, b"%d" % offset) for offset in range(reader.log_start_offset, end)]
        committed = GroupOffsets(manager).fetch("readers").get(ORDERS)
        assert (0 if committed is None else committed.offset) in (end - 50, end)
        assert all(len(topic.partitions) == 1 for topic in manager.topics().values())


@pytest.mark.parametrize("count", [4, pytest.param(25, marks=pytest.mark.only_all)])
def test_every_moment_under_load_is_consistent_and_no_group_is_ahead_of_its_data(count: int, tmp_path: Path) -> None:
    directory, place = made(tmp_path / "log"), folder(tmp_path / "backup")
    with load(directory):
        for _ in range(count):
            time.sleep(0.05)
            back_up(directory, place)
    assert not [*verify_backup(place)]
    for n, each in enumerate(list_cuts(place)):
        restore_backup(place, find_cut(place, each.name), str(tmp_path / f"restored-{n}"))
        check_moment(tmp_path / f"restored-{n}")


@pytest.mark.only_all
def test_a_process_that_is_killed_loses_no_earlier_backup(tmp_path: Path) -> None:
    directory, place = made(tmp_path / "log"), folder(tmp_path / "backup")
    chance, completed = random.Random(1), 0
    for n in range(12):
        with LogManager.open(str(directory)) as manager:
            for each in range(20):
                write_more(manager, each)
        earlier = list_cuts(place)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(directory), str(place.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.write(b"\n")
        process.stdin.flush()
        time.sleep(chance.random() * 0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        cuts = list_cuts(place)
        assert cuts[: len(earlier)] == earlier, n
        completed += len(cuts) - len(earlier)
        assert not [*verify_backup(place)], n
    back_up(directory, place)
    restore_backup(place, find_cut(place), str(tmp_path / "restored"))
    assert tree(tmp_path / "restored") == {
        path: data for path, data in tree(directory).items() if not path.endswith(".deleted")
    }
    check_moment(tmp_path / "restored")
    assert completed < 12
