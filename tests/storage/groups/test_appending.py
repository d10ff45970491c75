"""SyncThreads: several logs are synced at once, each failure in its place; and batches that a coordinator encoded."""

from __future__ import annotations

from pathlib import Path
from threading import current_thread
from unittest import mock

import pytest

from pyspark_commitlog.storage import Log, LogConfig, StorageError
from pyspark_commitlog.storage.errors import RecordTooLargeError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.groups.appending import SyncThreads
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch, encoded_batch
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


@pytest.mark.parametrize(
    "entries", [[(b"key", b"value")], [(b"key", None), (b"", b"")], [(b"k%d" % n, b"v" * n) for n in range(300)]]
)
def test_a_batch_that_this_process_encoded_is_taken_for_what_its_check_finds(
    entries: list[tuple[bytes, bytes | None]],
) -> None:
    config = LogConfig.from_mapping({"cleanup.policy": "compact"})
    batch = v2.encode_small(entries, 7)
    assert encoded_batch(batch, config) == check_batch(batch, config)
    assert check_batch(batch, config).is_plain


@pytest.mark.parametrize("settings", [{"message.timestamp.type": "LogAppendTime"}, {"compression.type": "lz4"}])
def test_a_batch_that_its_log_changes_is_checked_as_any_other(settings: dict[str, str]) -> None:
    config, batch = LogConfig.from_mapping(settings), v2.encode_small([(b"key", b"value")], 7)
    assert not encoded_batch(batch, config).is_plain


def test_a_batch_that_is_too_large_is_refused(tmp_path: Path) -> None:
    config = LogConfig.from_mapping({"max.message.bytes": "100"})
    with pytest.raises(RecordTooLargeError):
        encoded_batch(v2.encode_small([(b"key", b"v" * 200)], 7), config)
