"""When a segment ends and how the next begins: over a view of the log, without the log."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.storage.errors import LockHeldError, StorageError
from pyspark_commitlog.storage.format.constants import INT32_MAX
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from tests.support.disk.faulty_filesystem import fail
from tests.support.logs.building import NOW_MS, batch
from tests.support.logs.parts import DIRECTORY, Parts


def snapshots(parts: Parts) -> list[int]:
    names = [name for name in parts.disk.list(DIRECTORY) if name.endswith(file_names.SNAPSHOT)]
    return sorted(int(name.removesuffix(file_names.SNAPSHOT)) for name in names)


@pytest.mark.parametrize(
    ("size", "timestamp", "last_offset", "bases"),
    [
        (100, NOW_MS, 2, [0]),
        (900, NOW_MS, 2, [0, 2]),
        (100, NOW_MS + 1001, 2, [0, 2]),
        (100, NOW_MS, 5 + INT32_MAX, [0, 2, 5]),
    ],
    ids=["room", "too large", "too late", "too far"],
)
def test_a_batch_that_does_not_fit_gets_a_segment(
    size: int, timestamp: int, last_offset: int, bases: list[int]
) -> None:
    parts = Parts(b"0", b"1", segment_bytes=1000, segment_ms=1000)
    parts.rolling.make_room(size, timestamp, 5, last_offset)
    assert parts.bases == bases


def test_as_many_batches_as_fit_are_counted_and_one_after_a_roll() -> None:
    parts = Parts(b"0", segment_bytes=300)
    headers = parts.check(batch(b"x" * 50)).window.headers
    assert parts.rolling.make_room_for(headers) == 1
    assert parts.bases == [0]
    parts.end.write(parts.check(batch(b"x" * 100)))
    assert parts.rolling.make_room_for(headers) == 1
    assert parts.bases == [0, 2]


def test_a_roll_ends_with_the_recovery_point() -> None:
    parts = Parts(b"0", b"1")
    parts.rolling.roll()
    assert parts.marks.read().recovery_point == parts.durability.recovery_point == 2
    parts.rolling.roll()  # nothing to close
    assert parts.bases == [0, 2]
    assert parts.fail_stop.failure is None


def test_a_roll_that_cannot_write_the_recovery_point_leaves_that_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts(b"0")

    def held(*_: Any) -> None:
        raise LockHeldError("another process holds it")

    monkeypatch.setattr(KeptInMemory, "write", held)
    parts.rolling.roll()
    assert parts.bases == [0, 1]
    assert parts.fail_stop.failure is None


def test_a_roll_that_fails_stops_what_follows() -> None:
    parts = Parts(b"0")
    parts.faulty.rules.append(fail("sync_directory", DIRECTORY))
    with pytest.raises(StorageError), parts.fail_stop:
        parts.rolling.roll()
    assert parts.fail_stop.failure is not None


def test_a_snapshot_is_written_once_the_last_one_lags() -> None:
    parts = Parts(b"0")
    assert snapshots(parts) == [1]  # by closing the log
    size = parts.append(batch(b"1")).size
    parts.rolling.write_snapshot(lag_bytes=size)
    assert snapshots(parts) == [1]
    parts.rolling.write_snapshot(lag_bytes=size - 1)
    assert snapshots(parts) == [2]


def test_a_snapshot_at_the_base_of_a_segment_is_kept() -> None:
    parts = Parts(b"0")
    parts.append(batch(b"1"))
    parts.rolling.write_snapshot(lag_bytes=0)
    parts.rolling.roll()
    parts.append(batch(b"2"))
    parts.rolling.write_snapshot(lag_bytes=0)
    assert snapshots(parts) == [2, 3]


def test_a_log_without_records_has_no_snapshot() -> None:
    parts = Parts()
    parts.rolling.write_snapshot(lag_bytes=-1)
    parts.rolling.complete()
    assert snapshots(parts) == []
