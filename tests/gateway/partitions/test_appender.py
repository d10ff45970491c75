"""Appender: which appends wait for a sync, and that each is answered once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any
from unittest.mock import Mock

import pytest

from pyspark_commitlog.gateway.partitions import appender as appender_module
from pyspark_commitlog.gateway.partitions.appender import AT_ONCE_BYTES, Appender
from pyspark_commitlog.gateway.partitions.appending import Append, Done, Soon
from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import RequestError
from pyspark_commitlog.storage import (
    AppendInfo,
    Isolation,
    LogManager,
    Producer,
    StorageError,
    check_batch,
    write_marker,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.writing.locks import APPEND_LOCK_FILE
from tests.support.disk.faulty_filesystem import FaultyFileSystem, tear
from tests.support.logs import building
from tests.support.waiting import soon

TIMEOUT_S = 30


class Appending:
    """A partition, an appender, and what it answered; ``syncs`` has an entry for each sync."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.led = FilePartition("t", 0, building.open_log(directory / "t-0", **settings))
        self.syncs: list[float] = []
        self.appender = Appender(2, self.syncs.append)
        self._answers: SimpleQueue[AppendInfo | Exception] = SimpleQueue()

    def append(self, value: bytes, soon: Soon | None = None, done: Done | None = None) -> None:
        batch = check_batch(building.batch(value).tobytes(), self.led.config)
        self.appender.append(Append(self.led, batch, done or self._answers.put, soon=soon))

    @property
    def is_answered(self) -> bool:
        return not self._answers.empty()

    def first_offset(self) -> int:
        """Of the next answer."""
        answer = self._answers.get(timeout=TIMEOUT_S)
        assert isinstance(answer, AppendInfo)
        return answer.first_offset

    def catch_up(self) -> None:
        caught_up: SimpleQueue[Exception | None] = SimpleQueue()
        self.appender.catch_up(self.led, caught_up.put)
        assert caught_up.get(timeout=TIMEOUT_S) is None


@contextmanager
def appending(directory: Path, **settings: Any) -> Iterator[Appending]:
    started = Appending(directory, **settings)
    started.appender.start()
    try:
        yield started
    finally:
        started.appender.stop()


def test_an_append_is_answered_after_its_sync(tmp_path: Path) -> None:
    with appending(tmp_path) as partition:
        for offset in range(3):
            partition.append(b"value")
            assert partition.first_offset() == offset
            assert len(partition.syncs) == offset + 1
        assert partition.led.high_watermark == 3


def test_appends_that_a_topic_lets_wait_are_answered_without_a_syncer(tmp_path: Path) -> None:
    with appending(tmp_path, flush_messages=1000) as partition:
        for offset in range(3):
            partition.append(b"value")
            assert partition.first_offset() == offset
            assert partition.led.high_watermark == offset + 1
        assert partition.syncs == []


def test_a_reader_that_waits_is_woken_by_an_append_that_may_wait_for_its_sync(tmp_path: Path) -> None:
    with appending(tmp_path, flush_messages=1000) as partition:
        woken: SimpleQueue[bool] = SimpleQueue()
        assert partition.led.wait((0,), lambda: woken.put(True))
        partition.append(b"value")
        assert woken.get(timeout=TIMEOUT_S)


@pytest.mark.parametrize("messages", [1000, None], ids=["unsynced", "synced"])
def test_an_append_is_answered_before_readers_that_wait_are_woken(tmp_path: Path, messages: int | None) -> None:
    with appending(tmp_path, **({"flush_messages": messages} if messages else {})) as partition:
        answered: SimpleQueue[bool] = SimpleQueue()
        assert partition.led.wait((0,), lambda: answered.put(partition.is_answered))
        partition.append(b"value")
        assert answered.get(timeout=TIMEOUT_S)


def test_what_others_appended_is_synced_whatever_a_topic_lets_wait(tmp_path: Path) -> None:
    with appending(tmp_path, flush_messages=1000) as partition:
        building.open_log(tmp_path / "t-0").append_records(building.records([b"by another"]), sync=False)
        partition.catch_up()
        assert len(partition.syncs) == 1
        assert partition.led.high_watermark == 1


def test_all_that_was_given_is_answered_before_a_stop_ends(tmp_path: Path) -> None:
    with appending(tmp_path, flush_messages=1000) as partition:
        for _ in range(100):
            partition.append(b"value")
    assert [partition.first_offset() for _ in range(100)] == list(range(100))


@contextmanager
def locked(partition: Appending) -> Iterator[None]:
    """Another process holds the partition's append lock."""
    path = f"{partition.led._log.context.directory}/{APPEND_LOCK_FILE}"
    lock = LocalFileSystem().lock(path)
    assert lock is not None
    with lock:
        yield


def test_a_partition_whose_lock_another_process_holds_stops_no_other(tmp_path: Path) -> None:
    with appending(tmp_path) as partition:
        other = FilePartition("t", 1, building.open_log(tmp_path / "t-1"))
        answers: SimpleQueue[AppendInfo | Exception] = SimpleQueue()
        with locked(partition):
            for _ in range(2):
                partition.append(b"waits")
            batch = check_batch(building.batch(b"goes on").tobytes(), other.config)
            partition.appender.append(Append(other, batch, answers.put))
            assert isinstance(answers.get(timeout=TIMEOUT_S), AppendInfo)
            partition.append(b"waits too")
            assert partition.led.end_offset(Isolation.READ_COMMITTED) == 0  # readers go on
        assert [partition.first_offset() for _ in range(3)] == [0, 1, 2]


def test_what_waits_for_another_process_is_refused_at_the_end(tmp_path: Path) -> None:
    partition = Appending(tmp_path)
    partition.appender.start()
    with locked(partition):
        partition.append(b"waits")
        partition.appender.stop()
        error = partition._answers.get(timeout=TIMEOUT_S)
        assert isinstance(error, RequestError)
        assert "t-0: another process holds the partition's lock" in str(error)


def test_what_waits_for_long_is_refused_until_the_lock_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender_module, "HELD_S", 0.05)
    with appending(tmp_path) as partition:
        with locked(partition):
            for _ in range(2):  # the second one is refused at once
                partition.append(b"waits")
                error = partition._answers.get(timeout=TIMEOUT_S)
                assert isinstance(error, RequestError)
                assert error.code is ErrorCode.request_timed_out

        def is_appended() -> bool:
            partition.append(b"goes on")
            return isinstance(partition._answers.get(timeout=TIMEOUT_S), AppendInfo)

        soon(is_appended)
        assert partition.led.high_watermark == 1


def test_a_lock_that_becomes_free_when_the_time_is_over_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[Mock] = []
    monkeypatch.setattr(appender_module, "Timer", lambda _, ring: timers.append(Mock(ring=ring)) or timers[-1])
    with appending(tmp_path) as partition:
        other, is_over = FilePartition("t", 1, building.open_log(tmp_path / "t-1")), Event()
        queue = partition.appender._queue
        with locked(partition):
            partition.append(b"waits")
            soon(lambda: timers)
            partition.appender.change(other, lambda _: is_over.wait(TIMEOUT_S), lambda _: None)
            soon(lambda: other.is_busy)  # and with it the appender's thread
            timers[0].ring()
        soon(lambda: queue.qsize() == 2)  # the time is over, and the lock is free
        is_over.set()
        assert isinstance(partition._answers.get(timeout=TIMEOUT_S), RequestError)  # it waited for too long
        partition.append(b"goes on")
        assert partition.first_offset() == 0


def test_a_thread_that_must_not_wait_appends_in_its_turn_what_needs_no_sync(tmp_path: Path) -> None:
    with appending(tmp_path, flush_messages=1000) as partition:
        partition.led.append([])  # has had the lock, and nobody since
        turn: list[Callable[[], None]] = []
        for _ in range(3):
            partition.append(b"value", turn.append)
        assert not partition.is_answered
        assert len(turn) == 1  # one for all three
        turn.pop()()
        assert partition.is_answered
        assert [partition.first_offset() for _ in range(3)] == [0, 1, 2]
        partition.append(b"next turn", turn.append)
        turn.pop()()
        assert partition.first_offset() == 3


def test_what_is_appended_in_a_turn_is_answered_after_its_sync(tmp_path: Path) -> None:
    with appending(tmp_path) as partition:
        partition.led.append([])
        partition.append(b"value", lambda task: task())
        assert partition.first_offset() == 0
        assert len(partition.syncs) == 1
        assert partition.led.high_watermark == 1


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"flush_messages": 1}, b"due to be synced"),
        ({"flush_messages": 1000, "segment_bytes": 300}, bytes(200)),  # the second one needs a new segment
        ({"flush_messages": 1000}, bytes(AT_ONCE_BYTES)),
    ],
)
def test_what_takes_long_is_not_done_by_a_thread_that_must_not_wait(
    tmp_path: Path, settings: dict[str, int], value: bytes
) -> None:
    partition = Appending(tmp_path, **settings)
    partition.led.append([])
    for _ in range(2):
        partition.append(value, lambda task: task())
    assert partition.led._log.log_end_offset < 2  # the appender's thread does not run yet
    partition.appender.start()
    assert [partition.first_offset() for _ in range(2)] == [0, 1]
    partition.appender.stop()


def test_a_large_batch_needs_no_look_at_the_lock_by_its_name_while_nobody_else_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[FilePartition] = []
    monkeypatch.setattr(FilePartition, "is_locked_elsewhere", property(lambda led: bool(looks.append(led))))
    with appending(tmp_path, flush_messages=1000) as partition:
        partition.led.append([])
        partition.append(bytes(AT_ONCE_BYTES), lambda task: task())
        assert partition.first_offset() == 0
        assert looks == []
        building.open_log(tmp_path / "t-0").append_records(building.records([b"by another"]), sync=False)
        partition.append(bytes(AT_ONCE_BYTES), lambda task: task())
        assert partition.first_offset() == 2
        assert looks == [partition.led]


def test_a_turn_waits_for_no_other_process_and_leaves_the_order(tmp_path: Path) -> None:
    with appending(tmp_path, flush_messages=1000) as partition:
        with locked(partition):
            partition.append(b"waits", lambda task: task())
            partition.append(b"waits too")
            partition.append(b"waits as well", lambda task: task())
        assert [partition.first_offset() for _ in range(3)] == [0, 1, 2]


def test_a_turn_leaves_what_others_appended_to_the_thread(tmp_path: Path) -> None:
    with appending(tmp_path, flush_messages=1000) as partition:
        partition.append(b"ours", lambda task: task())
        assert partition.first_offset() == 0
        building.open_log(tmp_path / "t-0").append_records(building.records([b"by another"]), sync=False)
        partition.append(b"ours", lambda task: task())
        assert partition.first_offset() == 2


def test_a_turn_waits_for_no_other_thread(tmp_path: Path) -> None:
    with appending(tmp_path, flush_messages=1000) as partition:
        partition.led.append([])
        turn = Thread(target=lambda: partition.append(b"value", lambda task: task()), daemon=True)
        with partition.led._lock:  # as a thread has it that deletes records
            turn.start()
            turn.join(TIMEOUT_S)
            assert not turn.is_alive()
            assert not partition.is_answered
        assert partition.first_offset() == 0


def test_a_batch_whose_check_may_wait_is_not_appended_in_a_turn(tmp_path: Path) -> None:
    partition = Appending(tmp_path, flush_messages=1000)
    partition.led.append([])
    turn: list[Callable[[], None]] = []
    partition.append(b"small", turn.append)
    partition.append(b"its check may wait")
    turn.pop()()
    assert not partition.is_answered
    partition.appender.start()
    assert [partition.first_offset() for _ in range(2)] == [0, 1]
    partition.appender.stop()


def fail(_: object) -> None:
    raise AssertionError("an error of ours")


@pytest.mark.parametrize("soon", [None, lambda task: task()], ids=["its thread", "a turn"])
def test_an_answer_that_fails_keeps_no_other_from_its_client(tmp_path: Path, soon: Soon | None) -> None:
    partition = Appending(tmp_path)
    partition.led._log._fail_stop.failure = "a write failed"
    partition.appender.start()
    turn: list[Callable[[], None]] = []
    for done in (fail, None):
        partition.append(b"refused", turn.append, done)
    for task in turn if soon else ():
        task()
    partition.append(b"refused", soon)
    for _ in range(2):
        assert isinstance(partition._answers.get(timeout=TIMEOUT_S), StorageError)
    partition.appender.stop()


def test_a_failing_disk_is_answered_from_a_turn_too(tmp_path: Path) -> None:
    with appending(tmp_path, flush_messages=1000) as partition:
        partition.append(b"ours", lambda task: task())
        assert partition.first_offset() == 0
        partition.led._log._fail_stop.failure = "a write failed"
        partition.append(b"ours", lambda task: task())
        assert isinstance(partition._answers.get(timeout=TIMEOUT_S), StorageError)


def test_an_error_in_one_partition_ends_neither_the_thread_nor_the_appends_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with appending(tmp_path) as partition:
        other = FilePartition("t", 1, building.open_log(tmp_path / "t-1"))
        lock = locked(partition)

        def no_descriptor(self: FilePartition) -> bool:
            if self is partition.led:
                raise OSError(24, "Too many open files")
            return False

        with lock, monkeypatch.context() as here:
            here.setattr(FilePartition, "is_locked_elsewhere", property(no_descriptor))
            partition.append(b"fails")
            assert isinstance(partition._answers.get(timeout=TIMEOUT_S), OSError)
            answers: SimpleQueue[AppendInfo | Exception] = SimpleQueue()
            batch = check_batch(building.batch(b"goes on").tobytes(), other.config)
            partition.appender.append(Append(other, batch, answers.put))
            assert isinstance(answers.get(timeout=TIMEOUT_S), AppendInfo)
        partition.append(b"goes on")
        assert partition.first_offset() == 0


def test_a_full_disk_is_reported_once_for_all_tries(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    filesystem = FaultyFileSystem(LocalFileSystem())
    with LogManager.open(str(tmp_path / "log"), create=True, filesystem=filesystem) as manager:
        manager.create_topic("t", partitions=1)
        appender, answers = Appender(1), SimpleQueue[AppendInfo | Exception]()
        appender.start()

        def appended(size: int) -> AppendInfo | Exception:
            led = FilePartition("t", 0, manager.open_log("t", 0))  # again, after each failure
            batch = check_batch(building.batch(b"x" * size).tobytes(), led.config)
            appender.append(Append(led, batch, answers.put))
            return answers.get(timeout=TIMEOUT_S)

        assert isinstance(appended(10), AppendInfo)
        for _ in range(3):
            filesystem.rules.append(tear("*.log", after=40))
            assert isinstance(appended(100), StorageError)
        assert isinstance(appended(100), AppendInfo)
        appender.stop()
    (line,) = caplog.messages
    assert line.endswith("is full (ENOSPC): produce requests get KAFKA_STORAGE_ERROR until there is space")


def marked(partition: Appending, producer: int, turn: Soon | None = None) -> SimpleQueue[Exception | None]:
    """Gives the marker of a transaction; returns where its answer comes."""
    answers: SimpleQueue[Exception | None] = SimpleQueue()
    change = partial(write_marker, producer=Producer(producer, 0), commit=True, coordinator_epoch=0, now_ms=1)
    partition.appender.change(partition.led, change, answers.put, turn)
    return answers


@pytest.mark.parametrize("messages", [1000, None], ids=["unsynced", "synced"])
def test_markers_of_one_turn_are_written_in_it_and_answered_after_one_sync(
    tmp_path: Path, messages: int | None
) -> None:
    partition = Appending(tmp_path, **({"flush_messages": messages} if messages else {}))
    partition.led.append([])
    turn: list[Callable[[], None]] = []
    answers = [marked(partition, producer, turn.append) for producer in range(3)]
    turn.pop()()
    assert not turn
    assert partition.led._log.log_end_offset == 3  # by this thread: no other runs yet
    assert partition.led.high_watermark == 0
    partition.appender.start()
    soon(lambda: bool(turn))
    for task in turn:
        task()
    assert [each.get(timeout=TIMEOUT_S) for each in answers] == [None] * 3
    assert len(partition.syncs) == 1
    assert partition.led.high_watermark == 3
    partition.appender.stop()


def test_a_marker_that_would_wait_for_another_process_keeps_no_turn(tmp_path: Path) -> None:
    with appending(tmp_path) as partition:
        partition.led.append([])
        with locked(partition):
            answers = marked(partition, 1, lambda task: task())
            partition.append(b"behind it", lambda task: task())
            assert answers.empty()
        assert answers.get(timeout=TIMEOUT_S) is None
        assert partition.first_offset() == 1


def test_a_marker_for_which_a_segment_must_begin_is_not_written_in_a_turn(tmp_path: Path) -> None:
    partition = Appending(tmp_path, segment_bytes=130)
    partition.led.append([])
    answers = [marked(partition, producer, lambda task: task()) for producer in range(2)]
    assert partition.led._log.log_end_offset == 1
    partition.appender.start()
    assert [each.get(timeout=TIMEOUT_S) for each in answers] == [None] * 2
    partition.appender.stop()
