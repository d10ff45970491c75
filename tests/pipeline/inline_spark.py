"""Spark's part of a foreachBatch sink without Spark: a DataFrame whose tasks run one by one in this process.

So a test can stop the driver and its tasks at any operation on the disk.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal
from unittest import mock

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_commitlog.pipeline.write import classic_session, kept_writers, targets, task as writer
from pyspark_commitlog.pipeline.write.answers import Written
from pyspark_commitlog.pipeline.write.foreach_batch import CommitLogSink, commitlog_sink
from pyspark_commitlog.storage import BinaryColumn, FileSystem, Isolation, LocalFileSystem, LogManager, partitions_of
from pyspark_commitlog.storage.transactions import background_sync
from tests.support.disk.faulty_filesystem import FaultyFile, FaultyFileSystem

TOPIC = "t"
PARTITIONS = 2
TASKS = 2
ROWS = 6  # of a task in a batch
Task = list[pa.RecordBatch]
Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Run = Callable[[], list[Any]]
Around = Callable[[Run, Function], list[Any]]


class InlineFrame:
    """The part of a DataFrame that the sink uses. ``around`` may wrap the sink's tasks."""

    def __init__(
        self,
        tasks: list[Task],
        around: Callable[[Callable[[], list[Any]], Function], list[Any]] | None = None,
        master: str = "local[1]",
    ):
        self.tasks = tasks
        self.schema = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
        self.sparkSession = mock.Mock()  # the name is Spark's
        self.sparkSession.conf.get.return_value = "false"
        self.sparkSession.sparkContext.getLocalProperty.return_value = None
        self.sparkSession.sparkContext.master = master
        self._around = around

    def mapInArrow(self, function: Function, _schema: object) -> mock.Mock:  # noqa: N802  Spark's name
        def run() -> list[Any]:
            return [row for task in self.tasks for row in answers_of(function, task)]

        around = self._around
        return mock.Mock(collect=run if around is None else lambda: around(run, function))


def answers_of(function: Function, task: Task) -> list[Any]:
    """Returns the rows that a task returns."""
    return [tuple(row.values()) for batch in function(iter(task)) for row in batch.to_pylist()]


def batch_of(number: int) -> list[Task]:
    """Returns the tasks of a micro-batch: two tables each, with unique values, in both partitions."""
    return [
        [table([f"{number}-{task}-{row}" for row in range(first, ROWS, 2)]) for first in (0, 1)]
        for task in range(TASKS)
    ]


def table(values: list[str]) -> pa.RecordBatch:
    keys = pa.array([str(i).encode() for i in range(len(values))], pa.binary())
    return pa.RecordBatch.from_arrays(
        [keys, pa.array([v.encode() for v in values], pa.binary())], names=["key", "value"]
    )


def expected(batches: int, partition: int | None = None) -> list[str]:
    """Returns all values of the first batches, or those of one partition, sorted."""
    wanted = range(PARTITIONS) if partition is None else [partition]
    places = {
        row: int(partitions_of(BinaryColumn.from_list([str(row // 2).encode()]), PARTITIONS)[0]) for row in range(ROWS)
    }
    rows = [row for row, place in places.items() if place in wanted]
    return sorted(f"{b}-{t}-{r}" for b in range(batches) for t in range(TASKS) for r in rows)


@dataclass
class Driver:
    """The memory of one driver's process and of its workers."""

    log_dir: str
    filesystem: FileSystem = field(default_factory=LocalFileSystem)
    kept: dict[Any, Any] = field(default_factory=dict)
    managers: dict[Any, LogManager] = field(default_factory=dict)
    app_id: str = "app"
    producer: dict[str, str] | None = None

    @contextmanager
    def running(self) -> Iterator[CommitLogSink]:
        """Yields the driver's sink; does not close anything at the end."""
        opening = LogManager.open.__func__  # type: ignore[attr-defined]

        def opened(kind: type[LogManager], directory: str, **more: Any) -> LogManager:
            found: LogManager = opening(kind, directory, **{"filesystem": self.filesystem, **more})
            return found

        def manager_for(directory: str, _topics: object) -> LogManager:
            return self.managers.setdefault(directory, LogManager.open(directory))

        with (
            mock.patch.object(LogManager, "open", classmethod(opened)),
            mock.patch.object(kept_writers, "_slots", self.kept),
            # Each batch by itself: more steps to fail at.
            mock.patch.object(writer, "table_bytes", return_value=(1, 1)),
            # In this thread, so that a disk which fails, fails at the same step each time.
            mock.patch.object(kept_writers._Slot, "checkpoint_later", kept_writers._Slot._checkpoint),
            mock.patch.object(background_sync, "PAUSE_S", 3600),
            mock.patch.object(targets, "_shared_manager", manager_for),
            mock.patch.object(classic_session, "watch"),
        ):
            yield commitlog_sink(
                topic=TOPIC,
                log_dir=self.log_dir,
                txnAppId=self.app_id,
                partitions=PARTITIONS,
                producer=self.producer,
            )

    def write(self, number: int, **more: Any) -> list[Written]:
        """Writes one micro-batch."""
        with self.running() as write:
            return write(InlineFrame(batch_of(number), **more), number)  # type: ignore[arg-type]

    def content(self) -> list[str]:
        """Returns the values that readers of committed records see, sorted."""
        return sorted(value for values in self.content_by_partition().values() for value in values)

    def content_by_partition(self) -> dict[int, list[str]]:
        """Returns the values that readers of committed records see, by partition."""
        with LogManager.open(self.log_dir, filesystem=self.filesystem) as manager:
            topic = manager.topics().get(TOPIC)
            return {} if topic is None else {number: sorted(_values(manager, number)) for number in topic.partitions}


def _values(manager: LogManager, partition: int) -> Iterator[str]:
    with manager.open_reader(TOPIC, partition) as reader:
        end = reader.end_offset(Isolation.READ_COMMITTED)
        for records in reader.records(reader.log_start_offset, end, isolation=Isolation.READ_COMMITTED):
            assert records.values is not None
            yield from ((value or b"").decode() for value in records.values.to_list())


@dataclass(frozen=True)
class Point:
    """Where a process dies: at the ``nth`` operation of a kind on a path, before, after, or in the middle of it."""

    operation: Literal["write", "sync", "rename", "sync_directory"]
    path: str
    nth: int
    when: Literal["before", "after", "midway"] = "after"


class DeadlyFileSystem(FaultyFileSystem):
    """The local file system, on which this process is killed at a point."""

    def __init__(self, point: Point) -> None:
        super().__init__(LocalFileSystem())
        self.point = point
        self.armed = False
        self._seen = 0

    @contextmanager
    def doing(self, operation: str, path: str) -> Iterator[bool]:
        """Kills the process before or after the block, if the point is there; yields whether to kill it midway."""
        due = self.armed and operation == self.point.operation and fnmatchcase(path, self.point.path)
        self._seen += due
        due = due and self._seen == self.point.nth
        if due and self.point.when == "before":
            die()
        yield due and self.point.when == "midway"
        if due:
            die()

    def open(self, path: str, mode: Any) -> FaultyFile:
        return _DeadlyFile(self.inner.open(path, mode), self)

    def rename(self, source: str, target: str) -> None:
        with self.doing("rename", target):
            super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        with self.doing("sync_directory", path):
            super().sync_directory(path)


class _DeadlyFile(FaultyFile):
    _filesystem: DeadlyFileSystem

    def write(self, position: int, *data: Any) -> None:
        with self._filesystem.doing("write", self.path) as midway:
            whole = b"".join(data)
            super().write(position, whole[: len(whole) // 2] if midway else whole)

    def sync(self) -> None:
        with self._filesystem.doing("sync", self.path):
            super().sync()


def die() -> None:
    """Ends the process as a kill by the kernel does: nothing is closed, nothing is printed."""
    os.kill(os.getpid(), signal.SIGKILL)


def write_until_killed(log_dir: str, batches: range, point: Point | None) -> None:
    """Runs a driver in a separate process; the point counts from the last batch on."""
    deadly = None if point is None else DeadlyFileSystem(point)
    driver = Driver(log_dir, deadly or LocalFileSystem())
    for number in batches:
        if deadly is not None:
            deadly.armed = number == batches[-1]
        driver.write(number)
