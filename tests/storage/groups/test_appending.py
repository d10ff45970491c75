"""SyncThreads: several logs are synced at once, each failure is returned in its place, and the threads are kept."""

from __future__ import annotations

from pathlib import Path
from threading import current_thread
from unittest import mock

import pytest

from pyspark_commitlog.storage import Log, StorageError
from pyspark_commitlog.storage.groups import SyncThreads
from tests.support.logs import building


def appended(directory: Path, count: int) -> list[Log]:
    """Logs with a record that is not synced."""
    logs = [building.open_log(directory / f"t-{number}") for number in range(count)]
    for log in logs:
        log.append_records(building.records([b"value"]), sync=False)
    return logs


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_all_logs_are_synced(tmp_path: Path, count: int) -> None:
    logs = appended(tmp_path, count)
    assert SyncThreads().sync(logs) == [None] * count
    assert [log.recovery_point for log in logs] == [1] * count


def test_a_failure_is_returned_in_the_place_of_its_log(tmp_path: Path) -> None:
    logs = appended(tmp_path, 3)
    with mock.patch.object(logs[1], "sync_appended", side_effect=StorageError("no space")):
        failures = SyncThreads().sync(logs)
    assert [str(each) if each else None for each in failures] == [None, "no space", None]
    assert [log.recovery_point for log in logs] == [1, 0, 1]


def test_the_same_threads_sync_again(tmp_path: Path) -> None:
    logs, threads, seen = appended(tmp_path, 3), SyncThreads(), set()
    with mock.patch.object(Log, "sync_appended", side_effect=lambda: seen.add(current_thread())):
        for _ in range(50):
            threads.sync(logs)
    assert 1 <= len(seen) <= 16
    assert all(thread.is_alive() for thread in seen)
