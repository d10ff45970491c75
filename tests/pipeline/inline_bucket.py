"""The foreachBatch sink on an object store in memory, without Spark: ``inline_spark`` for the other end of the port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any
from unittest import mock

from pyspark import TaskContext

from pyspark_commitlog.pipeline.write import classic_session, kept_writers, task as writer
from pyspark_commitlog.pipeline.write.answers import Written
from pyspark_commitlog.pipeline.write.foreach_batch import CommitLogSink, commitlog_sink
from pyspark_commitlog.pipeline.write.publication import bucket
from pyspark_commitlog.storage.bucket import staging
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.files import filesystem as bucket_files
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.stores.patience import Patience
from pyspark_commitlog.storage.bucket.stores.port import ObjectFacts, ObjectStore
from pyspark_commitlog.storage.verdicts import Finding
from tests.pipeline.inline_spark import PARTITIONS, TOPIC, InlineFrame, batch_of
from tests.support.clock import ManualClock
from tests.support.stores import content
from tests.support.stores.memory_store import MemoryStore

URL = "s3://bucket/log"
_attempts = count()  # of tasks; all drivers of a test are one application, so that names could meet


def unchecked(_: str) -> Sequence[Finding]:
    return []


@dataclass
class BucketDriver:
    """The memory of one driver's process and of its workers; another one is what follows when it is killed."""

    store: ObjectStore
    seed: int = 0
    app_id: str = "app"
    kept: dict[Any, Any] = field(default_factory=dict)
    logs: dict[str, BucketFileSystem] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random, self.clock = Random(self.seed), ManualClock()

    def open_root(self, url: str, *, create: bool = False, store: ObjectStore | None = None) -> CommitLog:
        return open_root(
            url,
            create=create,
            store=store or self.store,
            check=unchecked,
            clock=self.clock,
            random=self.random,
            patience=Patience(20_000),
        )

    def task(self) -> mock.Mock:
        return mock.Mock(partitionId=lambda: 0, attemptNumber=lambda: 0, taskAttemptId=lambda: next(_attempts))

    @contextmanager
    def running(self, **arguments: Any) -> Iterator[CommitLogSink]:
        """Yields the driver's sink; does not close anything at the end."""
        with (
            mock.patch.object(bucket_files, "open_root", self.open_root),
            mock.patch.object(bucket_files, "open_store", return_value=self.store),
            mock.patch.object(bucket, "open_store", return_value=self.store),
            mock.patch.object(bucket_files, "_of_this_process", self.logs),
            mock.patch.object(staging, "SystemClock", return_value=self.clock),
            mock.patch.object(kept_writers, "_slots", self.kept),
            mock.patch.object(writer, "table_bytes", return_value=(1, 1)),
            mock.patch.object(classic_session, "watch"),
            mock.patch.object(TaskContext, "get", self.task),
        ):
            where = {"topic": TOPIC} if "topics" not in arguments else {}
            yield commitlog_sink(log_dir=URL, txnAppId=self.app_id, **{"partitions": PARTITIONS, **where, **arguments})

    def write(self, number: int, *, arguments: dict[str, Any] | None = None, **more: Any) -> list[Written]:
        """Writes one micro-batch."""
        with self.running(**(arguments or {})) as write:
            return write(InlineFrame(batch_of(number), **more), number)  # type: ignore[arg-type]


def reader(store: MemoryStore) -> CommitLog:
    """Returns the log as a reader finds it."""
    return BucketDriver(store).open_root(URL)


def content_of(store: MemoryStore, topic: str = TOPIC) -> list[str]:
    """Returns all values of a topic, sorted."""
    found = content.values(reader(store), topic)
    return sorted((value or b"").decode() for values in found.values() for value in values)


class KilledError(BaseException):
    """Ends the code of a driver that was killed."""


class DeadlyStore:
    """Passes requests on, and kills the driver at the ``nth`` put of an object whose name begins with ``prefix``.

    The put is done ``before`` that, or not, or ``later``: when :meth:`land` is called.
    """

    def __init__(self, inner: MemoryStore, prefix: str, nth: int, put: str) -> None:
        self.inner, self.prefix, self.nth, self.put_is = inner, prefix, nth, put
        self.late: list[tuple[str, bytes]] = []
        self.is_dead = False

    @property
    def url(self) -> str:
        return self.inner.url

    def put_new(self, key: str, data: bytes) -> None:
        self._check_alive()
        if key.startswith(self.prefix):
            self.nth -= 1
            if self.nth == 0:
                self.is_dead = True
                if self.put_is == "before":
                    self.inner.put_new(key, data)
                elif self.put_is == "later":
                    self.late.append((key, data))
                raise KilledError
        self.inner.put_new(key, data)

    def land(self) -> None:
        """Lets the put of a dead driver arrive."""
        while self.late:
            key, data = self.late.pop()
            if key not in self.inner.objects:
                self.inner.put_new(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._check_alive()
        self.inner.put(key, data)

    def get(self, key: str, *, limit: int) -> bytes:
        self._check_alive()
        return self.inner.get(key, limit=limit)

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        return self.inner.get_range(key, start, length)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return self.inner.get_ranges(key, ranges)

    def head(self, key: str) -> ObjectFacts | None:
        self._check_alive()
        return self.inner.head(key)

    def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
        return self.inner.list(folder, after)

    def delete(self, keys: Sequence[str]) -> None:
        raise AssertionError(f"a writer deletes {keys}")

    def _check_alive(self) -> None:
        if self.is_dead:
            raise KilledError
