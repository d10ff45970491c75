"""Spark's micro-batch execution without Spark, as far as a checkpoint is concerned: source, plans, commits, replays.

What it writes, and in which order, is what Spark 4.2 writes (MicroBatchExecution, FileStreamSource, HDFSMetadataLog):
each entry under another name first, and nothing is ever synced. So the disk in memory can lose power under both a
checkpoint and a log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Self
from unittest import mock

import pyarrow as pa

from pyspark_commitlog.pipeline.write import classic_session
from pyspark_commitlog.pipeline.write.exactly_once import checkpoint as checkpoints
from pyspark_commitlog.pipeline.write.exactly_once.checkpoint import LocalCheckpoint
from pyspark_commitlog.pipeline.write.foreach_batch import CommitLogSink
from pyspark_commitlog.pipeline.write.kept_writers import release_run
from pyspark_commitlog.storage import FileSystem
from tests.pipeline.inline_spark import Driver, InlineFrame

ROWS_A_FILE = 3
SOURCE = "sources/0"
Function = Callable[[CommitLogSink, InlineFrame, int], object]
BeforeBatch = Callable[[int], None]


class SparkError(Exception):
    """Raised by Spark itself for a checkpoint that it cannot read, before any sink is called."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"Failed to read log file {path}. Incomplete log file")


def rows_of(files: Sequence[int]) -> list[str]:
    """Returns the rows of input files, sorted."""
    return sorted(f"{file}-{row}" for file in files for row in range(ROWS_A_FILE))


class Entries:
    """One of Spark's logs of numbered files below a checkpoint."""

    def __init__(self, disk: FileSystem, folder: str) -> None:
        self.disk = disk
        self.folder = folder

    def numbers(self) -> list[int]:
        if self.disk.status(self.folder) is None:
            return []
        return sorted(int(name) for name in self.disk.list(self.folder) if name.isdecimal())

    def read(self, number: int) -> list[Any]:
        """Returns the lines after the version."""
        return read_entry(self.disk, f"{self.folder}/{number}")

    def add(self, number: int, *lines: Any) -> None:
        self.disk.make_directory(self.folder)
        write_entry(self.disk, f"{self.folder}/{number}", *lines)

    def remove(self, number: int) -> None:
        for name in (str(number), f".{number}.crc"):
            self.disk.remove(f"{self.folder}/{name}")


def read_entry(disk: FileSystem, path: str) -> list[Any]:
    try:
        with disk.open(path, "read") as file:
            text = bytes(file.read(0, 1 << 20)).decode()
        version, *lines = text.splitlines()
        if version != "v1" or not lines:
            raise ValueError
        return [json.loads(line) for line in lines]
    except (FileNotFoundError, ValueError) as error:
        raise SparkError(path) from error


def write_entry(disk: FileSystem, path: str, *lines: Any) -> None:
    """Writes an entry and Hadoop's checksum beside it."""
    folder, _, name = path.rpartition("/")
    text = "\n".join(["v1", *map(json.dumps, lines)])
    for target, content in ((path, text), (f"{folder}/.{name}.crc", "crc")):
        with disk.open(f"{target}.tmp", "create") as file:
            file.truncate(0)
            file.write(0, content.encode())
        disk.rename(f"{target}.tmp", target)


class InlineQuery:
    """A query from files into the topic of ``inline_spark``, in one driver's process."""

    planned = 0  # all plans of all queries: as the time in Spark's, no two are alike

    def __init__(self, disk: FileSystem, *, log_dir: str = "/log", checkpoint: str = "/cp") -> None:
        self.disk = disk
        self.driver = Driver(log_dir, disk)
        self.checkpoint = checkpoint
        self.batches = 0  # that were given to the sink and came back
        self.offsets, self.commits, self.source = (
            Entries(disk, f"{checkpoint}/{folder}") for folder in ("offsets", "commits", SOURCE)
        )

    def run(
        self,
        files: Sequence[int],
        *,
        per_batch: int = 1,
        function: Function = CommitLogSink.__call__,
        before_batch: BeforeBatch = lambda _: None,
    ) -> None:
        """Runs the query as ``Trigger.AvailableNow`` does: first the unfinished batch, then all new files.

        ``function`` is the foreachBatch function.
        """
        type(self).planned += 1
        run_id = f"run {type(self).planned}"
        with self._spark(run_id) as (sink, frame):
            try:
                self._run_batches(sink, frame, files, per_batch, function, before_batch)
            except Exception:
                release_run(run_id)
                raise
            release_run(run_id)

    def _run_batches(
        self,
        sink: CommitLogSink,
        frame: Callable[[int, list[str]], InlineFrame],
        files: Sequence[int],
        per_batch: int,
        function: Function,
        before_batch: BeforeBatch,
    ) -> None:
        batch = self._start()
        while batch in self.offsets.numbers() or self._plan(batch, files, per_batch):
            given = frame(batch, self._rows(batch))
            before_batch(batch)
            function(sink, given, batch)
            self.batches += 1
            self.commits.add(batch, {"nextBatchWatermarkMs": 0})
            batch += 1

    def content(self) -> list[str]:
        """Returns the values that readers of committed records see, sorted."""
        return self.driver.content()

    def _start(self) -> int:
        """Returns the batch to begin with: the newest one if it is not committed."""
        self.disk.make_directory(self.checkpoint)
        if self.disk.status(f"{self.checkpoint}/metadata") is None:
            type(self).planned += 1
            write_entry(self.disk, f"{self.checkpoint}/metadata", {"id": f"query {self.planned}"})
        self._id()
        offsets, commits = self.offsets.numbers(), self.commits.numbers()
        for log, numbers in ((self.offsets, offsets), (self.commits, commits)):
            if numbers:
                log.read(numbers[-1])
        if not offsets:
            return 0
        return offsets[-1] + (offsets[-1] in commits[-1:])

    def _id(self) -> str:
        found: str = read_entry(self.disk, f"{self.checkpoint}/metadata")[0]["id"]
        return found

    def _plan(self, batch: int, files: Sequence[int], per_batch: int) -> bool:
        """Plans a batch; returns False if there is no new input."""
        numbers = self.source.numbers()
        seen = {file for number in numbers for file in self.source.read(number)}
        new = [file for file in files if file not in seen][:per_batch]
        newest = numbers[-1] if numbers else -1
        if new:
            newest += 1
            self.source.add(newest, *new)
        if newest <= self._end_of(batch - 1):
            return False
        type(self).planned += 1
        self.offsets.add(batch, {"batchTimestampMs": self.planned}, {"logOffset": newest})
        return True

    def _end_of(self, batch: int) -> int:
        if batch < 0:
            return -1
        found: int = self.offsets.read(batch)[1]["logOffset"]
        return found

    def _rows(self, batch: int) -> list[str]:
        entries = range(self._end_of(batch - 1) + 1, self._end_of(batch) + 1)
        return rows_of([file for entry in entries for file in self.source.read(entry)])

    @contextmanager
    def _spark(self, run_id: str) -> Iterator[tuple[CommitLogSink, Callable[[int, list[str]], InlineFrame]]]:
        """Sets up the sink, and the function that passes batches to it."""
        known = LocalCheckpoint(self.checkpoint, self.disk)

        def frame(batch: int, rows: list[str]) -> InlineFrame:
            keys = pa.array([row.rpartition("-")[2].encode() for row in rows], pa.binary())
            values = pa.array([row.encode() for row in rows], pa.binary())
            made = InlineFrame([[pa.RecordBatch.from_arrays([keys, values], names=["key", "value"])]] if rows else [])
            properties = {
                "sql.streaming.queryId": self._id(),
                "spark.jobGroup.id": run_id,
                "streaming.sql.batchId": str(batch),
            }
            made.sparkSession.sparkContext.getLocalProperty.side_effect = properties.get
            return made

        with (
            self.driver.running() as sink,
            mock.patch.object(classic_session, "watch", return_value=known),
            mock.patch.object(checkpoints, "ThreadPoolExecutor", _Here),
        ):
            yield sink, frame


class _Here:
    """An executor that runs in the caller's thread, so that a failing disk fails at the same step each time."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def submit(self, function: Callable[..., None], *arguments: Any) -> Future[None]:
        done = Future[None]()
        try:
            done.set_result(function(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


def put_right(query: InlineQuery) -> None:
    """Deletes entries that Spark cannot read, and the plans that name them, as docs/failures_details.md says."""
    while (path := _unreadable(query)) is not None:
        folder, _, name = path.removeprefix(query.checkpoint + "/").rpartition("/")
        if folder == SOURCE:
            for batch in [each for each in query.offsets.numbers() if query._end_of(each) >= int(name)]:
                query.offsets.remove(batch)
        query.disk.remove(path)
        query.disk.remove(f"{query.checkpoint}/{folder}/.{name}.crc".replace("//", "/"))


def _unreadable(query: InlineQuery) -> str | None:
    """Returns the path of an unreadable entry, which must be the newest: earlier ones were read by Spark, or synced."""
    try:
        query._start()
        for batch in query.offsets.numbers()[-1:]:
            query._rows(batch)
        for number in query.source.numbers()[-1:]:
            query.source.read(number)
    except SparkError as error:
        return error.path
    return None
