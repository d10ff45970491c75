"""Each row of the input is in the topic once after failures of any kind at any step.

The sink and its tasks run without Spark (``inline_spark``), so that every step can be interrupted. For killed workers
of Spark, see ``test_arrow_messages``; for random kills of the whole job, tests/torture.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException

from pyspark_commitlog import Destination
from pyspark_commitlog.pipeline.write.answers import Answer
from pyspark_commitlog.storage import (
    CorruptRecordError,
    GroupOffsets,
    LocalFileSystem,
    LogDirLockedError,
    LogManager,
    StorageError,
    TransactionAbortedError,
    TransactionError,
    TransactionRefusedError,
)
from tests.pipeline.inline_spark import (
    PARTITIONS,
    TOPIC,
    Driver,
    Function,
    InlineFrame,
    Point,
    Run,
    answers_of,
    batch_of,
    expected,
    write_until_killed,
)
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail, tear
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.logs.directories import directory_with_internal_topics, memory_disk_with_topics

STATES, OFFSETS, DATA = "*/__transaction_state-*/*.log", "*/__consumer_offsets-*/*.log", "*/t-[01]/*.log"
# The steps of a micro-batch of two tasks, which write two tables each to two partitions.
POINTS = {
    "before Ongoing is written": Point("write", STATES, 1, "before"),
    "in the middle of Ongoing": Point("write", STATES, 1, "midway"),
    "Ongoing is written and not synced": Point("write", STATES, 1),
    "Ongoing is synced": Point("sync", STATES, 1),
    "in the middle of the first records": Point("write", DATA, 1, "midway"),
    "one task has written, the other has not": Point("sync", DATA, 2),
    "all tasks have written, nothing of the last one is synced": Point("sync", DATA, 3, "before"),
    "all is synced": Point("sync", DATA, 4),
    "offsets are written and not synced": Point("write", OFFSETS, 1),
    "before the decision": Point("write", STATES, 2, "before"),
    "in the middle of the decision": Point("write", STATES, 2, "midway"),
    "the decision is written and not synced": Point("write", STATES, 2),
    "the decision is synced": Point("sync", STATES, 2),
    "in the middle of a marker": Point("write", DATA, 9, "midway"),
    "between two markers": Point("write", DATA, 9),
    "markers are written and not synced": Point("write", DATA, 10),
    "markers are synced, Complete is not written": Point("write", STATES, 3, "before"),
    "Complete is written": Point("write", STATES, 3),
    "before the recovery points": Point("rename", "*/recovery-point-offset-checkpoint", 1, "before"),
    "recovery points are written": Point("rename", "*/recovery-point-offset-checkpoint", 1),
}


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A log directory whose internal topics have one partition each."""
    return directory_with_internal_topics(tmp_path / "log")


def in_a_process(log_dir: str, batches: range, point: Point | None) -> int | None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.pipeline.inline_spark_warm"])
    process = context.Process(target=write_until_killed, args=(log_dir, batches, point))
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("name", POINTS)
def test_driver_killed_at_a_step_resumes_when_started_again(log_dir: str, name: str) -> None:
    assert in_a_process(log_dir, range(2), POINTS[name]) == -signal.SIGKILL
    reader = Driver(log_dir)
    check_before_restart(reader, 2, name)
    assert in_a_process(log_dir, range(3), None) == 0
    assert reader.content() == expected(3)


def check_before_restart(driver: Driver, batches: int, where: str) -> None:
    """Checks the state before a restart: all acknowledged batches, and per partition all or nothing of the last one."""
    by_partition = driver.content_by_partition()
    for partition, found in by_partition.items():
        assert found in [expected(n, partition) for n in range(1, batches + 1)], where


def memory_disk() -> MemoryFileSystem:
    disk = memory_disk_with_topics("/log", TOPIC, PARTITIONS)
    Driver("/log", disk).write(0)
    return disk.copy()  # nobody holds a lock any more


def run_two(disk: MemoryFileSystem, master: str = "local[1]") -> None:
    driver = Driver("/log", disk)
    for number in range(3):
        driver.write(number, master=master)


@pytest.mark.parametrize("master", ["local[1]", "spark://a"], ids=["in this process", "on a cluster"])
@pytest.mark.parametrize("unsynced", ["lost", "kept", "chance"])
def test_power_cut_at_any_change_of_driver_or_task_leaves_each_row_once(unsynced: str, master: str) -> None:
    """With tasks in this process, the driver syncs for them."""
    tried = 0
    for operation, disk in crash_points(partial(run_two, master=master), memory_disk(), every=7):
        after_crash = disk.copy() if unsynced == "kept" else disk.crash(tried, unsynced=unsynced)  # type: ignore[arg-type]
        # With a hole before a later batch a reader cannot tell a power cut from damage, so it refuses both.
        with suppress(*[CorruptRecordError] * (unsynced == "chance")):
            check_before_restart(Driver("/log", after_crash), 3, str(operation))
        run_two(after_crash)
        assert Driver("/log", after_crash).content() == expected(3), operation
        assert Driver("/log", after_crash.crash(0, unsynced="lost")).content() == expected(3), operation
        tried += 1
    assert tried > 10


class TestDisk:
    """A disk that fails, and works again afterwards."""

    @pytest.mark.parametrize("path", [DATA, OFFSETS, STATES])
    @pytest.mark.parametrize("operation", ["write", "sync"])
    def test_once_and_each_row_is_there_once(self, log_dir: str, operation: str, path: str) -> None:
        disk = FaultyFileSystem(LocalFileSystem())
        driver = Driver(log_dir, disk)
        driver.write(0)
        for call in range(1, 5):
            rule = fail(operation, path, call=call, error=errno.EIO)  # type: ignore[arg-type]
            disk.rules[:] = [rule]
            with suppress(StorageError, TransactionError, OSError):  # or the next attempt went well
                driver.write(call)
            disk.rules.clear()
            driver.write(call)
            assert driver.content() == expected(call + 1)

    def test_full_for_good_fails_the_query_and_shows_nothing_of_the_batch(self, log_dir: str) -> None:
        disk = FaultyFileSystem(LocalFileSystem())
        driver = Driver(log_dir, disk)
        driver.write(0)
        disk.rules.append(tear(DATA, after=10, error=errno.ENOSPC, lasting=True))
        with pytest.raises((StorageError, TransactionError, OSError)):
            driver.write(1)
        assert Driver(log_dir).content() == expected(1)
        disk.rules.clear()
        driver.write(1)
        assert driver.content() == expected(2)


class EachTimeElsewhere:
    """A partitioner that places all rows where the test says."""

    partition = 0

    def place(self, rows: pa.RecordBatch, _destination: Destination) -> list[int]:
        return [self.partition] * rows.num_rows


class Gone(BaseException):
    """Ends the code of a driver that died."""


class TestTasks:
    """Tasks that run again, are late, or continue when nobody waits for them."""

    def test_stage_that_ran_twice_is_written_once(self, log_dir: str) -> None:
        """An executor is lost with its answer, and the task runs again, with attempts counted from 0."""
        rounds: list[int] = []

        def twice(run: Run, _function: Function) -> list[Any]:
            rounds.append(1)
            return [run(), run()][1] if len(rounds) == 1 else run()

        driver = Driver(log_dir)
        driver.write(0, around=twice)
        assert len(rounds) == 2
        assert driver.content() == expected(1)

    def test_stage_that_ran_twice_and_placed_its_rows_elsewhere_is_written_once(self, log_dir: str) -> None:
        """The second run's answers are right, and do not mention the partition that only the first run wrote to."""
        rounds: list[int] = []

        def twice(run: Run, _function: Function) -> list[Any]:
            rounds.append(1)
            if len(rounds) == 1:
                run()
                EachTimeElsewhere.partition = 1
            return run()

        driver = Driver(log_dir, producer={"partitioner.class": f"{__name__}:EachTimeElsewhere"})
        driver.write(0, around=twice)
        assert len(rounds) == 2
        assert driver.content() == expected(1)

    def test_answer_that_was_lost_is_missed(self, log_dir: str) -> None:
        rounds: list[int] = []

        def forget(run: Run, _function: Function) -> list[Any]:
            rounds.append(1)
            return run()[len(rounds) == 1 :]

        driver = Driver(log_dir)
        driver.write(0, around=forget)
        assert len(rounds) == 2
        assert driver.content() == expected(1)

    def test_further_attempt_writes_nothing_and_the_batch_is_tried_again(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        attempts = iter([1, 1])  # of the first round's tasks; then they are first ones
        context = mock.Mock(partitionId=lambda: 0, attemptNumber=lambda: next(attempts, 0))
        monkeypatch.setattr(TaskContext, "get", lambda: context)
        driver = Driver(log_dir)
        written = driver.write(0)
        assert sum(each.records for each in written) == len(expected(1))
        assert driver.content() == expected(1)

    @pytest.mark.parametrize("said", ["Job 3 cancelled part of cancelled job group", "java.lang.InterruptedException"])
    def test_a_query_that_is_stopped_is_not_written_again(self, log_dir: str, said: str) -> None:
        rounds: list[int] = []

        def stopped(_run: Run, _function: Function) -> list[Any]:
            rounds.append(1)
            raise PySparkException(said)

        driver = Driver(log_dir)
        with pytest.raises(PySparkException, match=said):
            driver.write(0, around=stopped)
        assert len(rounds) == 1
        assert driver.content() == expected(0)

    def test_batch_that_is_refused_again_and_again_fails_the_query(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        context = mock.Mock(partitionId=lambda: 3, attemptNumber=lambda: 1)
        monkeypatch.setattr(TaskContext, "get", lambda: context)
        with pytest.raises(TransactionAbortedError, match="task 3 was started again, attempt 1"):
            Driver(log_dir).write(0)
        assert Driver(log_dir).content() == []

    def test_task_that_continues_after_its_driver_died_is_refused(self, log_dir: str) -> None:
        late: list[Function] = []

        def die(_run: Run, function: Function) -> list[Any]:
            late.append(function)
            raise Gone

        dead, living = Driver(log_dir), Driver(log_dir)
        with pytest.raises(Gone):
            dead.write(0, around=die)
        living.write(0)
        with dead.running():
            (answer,) = answers_of(late[0], batch_of(0)[0])
        assert "is not ongoing" in Answer(*answer).refused
        living.write(1)
        assert living.content() == expected(2)


class TestTwoDrivers:
    def test_second_one_gets_an_error_naming_the_holder(self, log_dir: str) -> None:
        first, second = Driver(log_dir), Driver(log_dir)
        first.write(0)
        with pytest.raises(LogDirLockedError, match=f"'app' is in use.*process {os.getpid()}"):
            second.write(1)
        first.write(1)
        assert first.content() == expected(2)

    def test_one_whose_lock_was_lost_cannot_commit_what_the_other_aborted(self) -> None:
        disk = memory_disk()
        sleeper, other = Driver("/log", disk), Driver("/log", disk)

        def sleep(run: Run, _function: Function) -> list[Any]:
            answers = run()
            disk.lose_locks()
            other.write(1)
            return answers

        with pytest.raises(TransactionRefusedError):
            sleeper.write(1, around=sleep)
        other.write(2)
        assert other.content() == expected(3)

    def test_one_whose_lock_was_lost_between_two_batches_gets_an_error(self) -> None:
        disk = memory_disk()
        sleeper, other = Driver("/log", disk), Driver("/log", disk)
        sleeper.write(1)
        disk.lose_locks()
        other.write(2)
        assert sleeper.write(2) == []  # done, it sees
        with pytest.raises(TransactionRefusedError, match="another coordinator took the id over"):
            sleeper.write(3)
        other.write(3)
        assert other.content() == expected(4)


class TestReplay:
    def test_batches_come_again_in_any_order_and_are_skipped(self, log_dir: str) -> None:
        driver = Driver(log_dir)
        for number in (0, 1, 1, 0, 2, 1):
            driver.write(number)
        assert driver.content() == expected(3)

    def test_empty_batch_moves_the_offset_alone(self, log_dir: str) -> None:
        driver = Driver(log_dir)
        with driver.running() as write:
            assert write(InlineFrame([]), 0) == []  # type: ignore[arg-type]
            assert write(InlineFrame([[], []]), 1) == []  # type: ignore[arg-type]
        driver.write(1)
        assert driver.content() == []
        with LogManager.open(log_dir) as manager:
            assert GroupOffsets(manager).fetch("app")["__sink.t", 0].offset == 2
