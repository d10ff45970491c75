"""The append lock that a log keeps: who had it in between, and which file is locked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.filesystem.port import FileSystem
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.writing.locks import APPEND_LOCK_FILE, KeptLock, wait_for_lock
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import append, open_log, rows


@pytest.fixture(params=["local", "memory"])
def context(request: pytest.FixtureRequest, tmp_path: Path) -> LogContext:
    disk: FileSystem = LocalFileSystem() if request.param == "local" else MemoryFileSystem()
    directory = str(tmp_path / "t-0")
    disk.make_directory(directory)
    return LogContext(directory, LogConfig(), ManualClock(), disk, True)


def always() -> bool:
    return True


def kept(context: LogContext) -> KeptLock:
    """A lock that was held and marked once, and is free."""
    lock = KeptLock(context)
    assert not lock.take(always)
    lock.mark()
    lock.unlock()
    return lock


def is_locked(context: LogContext) -> bool:
    lock = context.filesystem.lock(f"{context.directory}/{APPEND_LOCK_FILE}", wait=False)
    if lock is not None:
        lock.release()
    return lock is None


def test_nobody_had_the_lock_in_between(context: LogContext) -> None:
    lock = kept(context)
    for _ in range(3):
        assert lock.take(always)
        assert is_locked(context)
        lock.unlock()
        assert not is_locked(context)


def test_without_a_mark_nothing_is_known(context: LogContext) -> None:
    lock = KeptLock(context)
    for _ in range(2):
        assert not lock.take(always)
        lock.unlock()


@pytest.mark.parametrize(
    "between",
    [lambda context: wait_for_lock(context, APPEND_LOCK_FILE).release(), kept],
    ids=["by its name", "another log"],
)
def test_somebody_had_the_lock_in_between(context: LogContext, between: Callable[[LogContext], object]) -> None:
    lock = kept(context)
    between(context)
    assert not lock.take(always)
    assert is_locked(context)
    lock.mark()
    lock.unlock()
    assert lock.take(always)


def test_a_log_that_looks_otherwise_is_locked_by_its_name(context: LogContext) -> None:
    lock = kept(context)
    assert not lock.take(lambda: False)
    assert is_locked(context)


def test_a_lock_file_that_was_removed_is_not_relied_on(context: LogContext) -> None:
    lock = kept(context)
    context.filesystem.remove(f"{context.directory}/{APPEND_LOCK_FILE}")
    assert not lock.take(always)
    assert is_locked(context)


def test_a_closed_lock_is_free_and_can_be_taken_again(context: LogContext) -> None:
    lock = kept(context)
    assert lock.take(always)
    lock.close()
    assert not is_locked(context)
    assert not lock.take(always)


def test_a_forked_process_does_not_use_its_parents_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = LogContext(str(tmp_path), LogConfig(), ManualClock(), LocalFileSystem(), True)
    lock = kept(context)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert not lock.take(always)


def test_two_logs_of_a_directory_that_was_replaced(tmp_path: Path) -> None:
    """A topic is deleted and created again: its new log is locked, not the old one that is still open."""
    directory, old = tmp_path / "t-0", tmp_path / "old"
    log = open_log(directory)
    append(log, b"before")
    directory.rename(old)
    with open_log(directory) as new:
        append(new, b"new")
        append(log, b"late")  # to the log of that name
        assert rows(log) == [(0, b"new"), (1, b"late")]
        append(new, b"newer")
        assert [value for _, value in rows(new)] == [b"new", b"late", b"newer"]
    shutil.rmtree(old)


def test_a_log_that_is_alone_reads_nothing_before_an_append() -> None:
    disk = MemoryFileSystem()
    log = open_log("/t-0", filesystem=disk, index_interval_bytes=0)
    for _ in range(2):
        append(log, b"x")
    disk.operations.clear()
    append(log, b"y")
    assert [each.kind for each in disk.operations] == ["lock", "read", "status", *["write"] * 2, "sync"]
