"""Partitions: what is opened while other processes hold the locks of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyspark_commitlog.gateway.partitions import open_partitions
from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.partitions.led_partition import LedPartition
from pyspark_commitlog.gateway.partitions.open_partitions import Partitions, open_file_partition
from pyspark_commitlog.gateway.partitions.topics import Topics
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import RequestError
from pyspark_commitlog.storage import APPEND_LOCK_FILE, LocalFileSystem, Log, LogManager, TopicPartition

TIMEOUT_S = 30
HELD = [TopicPartition("t", number) for number in range(6)]
FREE = TopicPartition("t", 6)


class Opening:
    """Partitions, some of which other processes hold; ``locks`` frees them."""

    def __init__(self, directory: Path, topics: Topics, locks: ExitStack) -> None:
        self.partitions = Partitions(LogManager.open(str(directory)), topics)
        self.locks = locks
        for topic, number in HELD:
            lock = LocalFileSystem().lock(f"{directory}/{topic}-{number}/{APPEND_LOCK_FILE}")
            assert lock is not None
            locks.callback(lock.release)

    def begin(self, *wanted: TopicPartition) -> Event:
        """Opens partitions; the event is set when they are open, or cannot be."""
        done = Event()
        self.partitions.open_then(wanted, done.set)
        return done

    def look(self, partition: TopicPartition) -> LedPartition | Exception:
        return self.partitions.look(*partition)


@pytest.fixture
def opening(tmp_path: Path) -> Iterator[Opening]:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=len(HELD) + 1)
    with closing(Topics(LogManager.open(str(tmp_path)))) as topics, ExitStack() as locks:
        started = Opening(tmp_path, topics, locks)
        started.partitions.start()
        yield started
        locks.close()
        started.partitions.stop()


def test_a_partition_is_opened_while_other_processes_hold_the_locks_of_many(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_partitions, "LOCK_S", 1000 * TIMEOUT_S)
    waiting = [opening.begin(each) for each in HELD]
    waiting.append(opening.begin(*HELD, FREE))
    assert opening.begin(FREE).wait(TIMEOUT_S)
    assert isinstance(opening.look(FREE), LedPartition)
    assert not any(each.is_set() for each in waiting)
    opening.locks.close()
    assert all(each.wait(TIMEOUT_S) for each in waiting)
    assert all(isinstance(opening.look(each), LedPartition) for each in HELD)


def test_a_partition_whose_lock_is_held_for_long_is_not_waited_for(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_partitions, "LOCK_S", 0.05)
    monkeypatch.setattr(open_partitions, "FAILURE_S", TIMEOUT_S)
    assert opening.begin(*HELD, FREE).wait(TIMEOUT_S)
    for each in HELD:
        error = opening.look(each)
        assert isinstance(error, RequestError)
        assert error.code is ErrorCode.leader_not_available
    assert isinstance(opening.look(FREE), LedPartition)


def test_files_that_another_process_replaces_while_a_log_is_loaded_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0)
    real = LogManager.open_log

    def then_replaced(manager: LogManager, topic: str, partition: int, **more: Any) -> Log:
        log = real(manager, topic, partition, **more)
        (tmp_path / "t-0" / "as-by-a-compaction").touch()
        return log

    with LogManager.open(str(tmp_path)) as manager:
        manager.open_log("t", 0)
        monkeypatch.setattr(LogManager, "open_log", then_replaced)
        led = open_file_partition(manager, TopicPartition("t", 0))
        assert isinstance(led, FilePartition)
        assert led.have_files_changed()
        assert not led.have_files_changed()
