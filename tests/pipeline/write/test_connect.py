"""Queries of Spark Connect, whose functions do not know their query, on a directory and on an object store.

Without Spark: a process for a foreachBatch function is a driver with a memory of its own, and the session's queries are
given. ``tests/pipeline/test_deployments.py`` has the same with a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol
from unittest import mock

import pytest

from pyspark_commitlog.pipeline.write import foreach_batch as sink_module
from pyspark_commitlog.pipeline.write.exactly_once import connect_queries
from pyspark_commitlog.storage import InvalidConfigError, ProgressMismatchError
from tests.pipeline.inline_bucket import BucketDriver, content_of
from tests.pipeline.inline_spark import PARTITIONS, TOPIC, Driver, InlineFrame, batch_of, expected
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.directories import memory_disk_with_topics
from tests.support.stores.memory_store import MemoryStore


class AnyDriver(Protocol):
    def running(self) -> AbstractContextManager[Any]: ...


class Medium:
    """A directory or an object store, both in memory."""

    def __init__(self, kind: str) -> None:
        self._disk: MemoryFileSystem | None = None
        self._store = MemoryStore()
        if kind == "directory":
            self._disk = memory_disk_with_topics("/log", TOPIC, PARTITIONS)

    def driver(self) -> AnyDriver:
        return BucketDriver(self._store) if self._disk is None else Driver("/log", self._disk)

    def content(self) -> list[str]:
        return content_of(self._store) if self._disk is None else Driver("/log", self._disk).content()


@pytest.fixture(params=["directory", "bucket"])
def medium(request: pytest.FixtureRequest) -> Medium:
    return Medium(request.param)


@contextmanager
def process(medium: Medium, *queries: str) -> Iterator[Callable[[int], Any]]:
    """A process of Spark Connect while ``queries`` are active; yields a function that writes a micro-batch."""
    with (
        mock.patch.object(connect_queries, "is_here", return_value=True),
        mock.patch.object(connect_queries, "caller", connect_queries.Caller()),
        mock.patch.object(connect_queries, "_active", return_value={f"run of {each}": each for each in queries}),
        mock.patch.object(sink_module, "is_remote", return_value=True),
        medium.driver().running() as sink,
    ):
        yield lambda number: sink(InlineFrame(batch_of(number)), number)
        sink.close()


def test_batch_that_spark_repeats_after_a_crash_is_skipped(medium: Medium) -> None:
    for first in (0, 1, 1):
        with process(medium, "query") as write:
            write(first)
            write(first + 1)
    assert medium.content() == expected(3)


def test_new_checkpoint_under_a_used_name_is_refused_in_each_batch(medium: Medium) -> None:
    with process(medium, "first") as write:
        write(0)
        write(1)
    for number in range(4):
        with process(medium, "second") as write, pytest.raises(InvalidConfigError, match="wrote 2 batches to topic"):
            write(number)
    assert medium.content() == expected(2)


def test_batch_is_refused_if_one_of_several_queries_wrote_it(medium: Medium) -> None:
    with process(medium, "first", "other") as write:
        write(0)
    for queries in (["first"], ["first", "other"], ["other", "third"], []):
        with process(medium, *queries) as write, pytest.raises(ProgressMismatchError, match="cannot be told"):
            write(0)
    with process(medium, "first") as write:
        write(1)
    with process(medium, "first") as write:
        assert write(1) == []
    assert medium.content() == expected(2)


def test_second_write_of_a_batch_is_refused_in_this_run_and_in_the_next(medium: Medium) -> None:
    for _ in range(2):
        with process(medium, "query") as write:
            write(0)
            with pytest.raises(InvalidConfigError, match="batch 0 was already written to topic"):
                write(0)
    assert medium.content() == expected(1)
