"""FilePartition: what is shown when, on a disk that forgets what was not synced."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import RequestError
from pyspark_commitlog.storage import AppendInfo, Isolation, Log, OffsetOutOfRangeError, check_batch
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs import building

DIRECTORY = "/log/t-0"


def opened(disk: MemoryFileSystem | Path, **settings: Any) -> FilePartition:
    if isinstance(disk, Path):
        return FilePartition("t", 0, building.open_log(disk / "t-0", **settings))
    return FilePartition("t", 0, building.open_log(DIRECTORY, filesystem=disk, **settings))


def after_power_cut(disk: MemoryFileSystem) -> MemoryFileSystem:
    return disk.crash(1, unsynced="lost")


def append(led: FilePartition, *values: bytes, **more: Any) -> list[int]:
    """The first offset of a batch of each value."""
    batches = [check_batch(building.batch(value, **more).tobytes(), led.config) for value in values]
    results = led.append(batches)
    assert all(isinstance(each, AppendInfo) for each in results)
    return [each.first_offset for each in results if isinstance(each, AppendInfo)]


def shown(led: FilePartition, offset: int = 0, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> int:
    """How many bytes a fetch gets."""
    records = led.slice(offset, 1 << 20, isolation, min_one_batch=True).records
    if records is None:
        return 0
    records.release()
    return len(records)


def test_what_is_not_synced_is_not_shown_and_may_be_lost() -> None:
    disk = MemoryFileSystem()
    led = opened(disk)
    assert append(led, b"one") == [0]
    led.sync()
    assert append(led, b"two", b"three") == [1, 2]
    assert led.high_watermark == 1
    assert opened(after_power_cut(disk)).high_watermark == 1


def test_what_is_shown_survives_a_power_cut() -> None:
    disk = MemoryFileSystem()
    led = opened(disk)
    append(led, b"one", b"two")
    led.sync()
    append(led, b"three")
    assert opened(after_power_cut(disk)).high_watermark == 2


def test_a_fetch_between_append_and_sync_ends_at_the_high_watermark(tmp_path: Path) -> None:
    led = opened(tmp_path)
    append(led, b"one")
    led.sync()
    one = shown(led)
    append(led, b"two")
    assert shown(led) == one
    found = led.slice(1, 1 << 20, Isolation.READ_UNCOMMITTED, min_one_batch=True)
    assert (found.high_watermark, found.records) == (1, None)
    with pytest.raises(OffsetOutOfRangeError):
        led.slice(3, 1 << 20, Isolation.READ_UNCOMMITTED, min_one_batch=True)


def test_a_topic_with_relaxed_flush_settings_shows_what_it_acknowledges(tmp_path: Path) -> None:
    led = opened(tmp_path, flush_messages=1000)
    append(led, b"one")
    led.sync()
    assert led.high_watermark == 1
    assert shown(led)


def test_what_another_log_appended_is_shown_once_it_is_synced_here() -> None:
    disk = MemoryFileSystem()
    led, other = opened(disk), building.open_log(DIRECTORY, filesystem=disk)
    other.append_records(building.records([b"by another"]), sync=False)
    assert led.is_behind
    assert led.change([lambda _: None]) == [None]
    assert led.high_watermark == 0
    led.sync()
    assert (led.high_watermark, led.is_behind) == (1, False)
    assert opened(after_power_cut(disk)).high_watermark == 1


def test_what_another_log_appended_is_shown_though_the_append_that_read_it_was_refused() -> None:
    disk = MemoryFileSystem()
    led, other = opened(disk, flush_messages=1000), building.open_log(DIRECTORY, filesystem=disk)
    other.append_records(building.records([b"by another"]), sync=False)

    def refuse() -> None:
        raise RequestError(ErrorCode.invalid_txn_state)

    (refusal,) = led.append([check_batch(building.batch(b"refused").tobytes(), led.config)], [refuse])
    assert isinstance(refusal, RequestError)
    assert not led.is_behind  # so nobody reads it again
    assert led.waits_for_sync
    led.sync()
    assert (led.high_watermark, opened(after_power_cut(disk)).high_watermark) == (1, 1)
    append(led, b"mine")
    assert not led.waits_for_sync


def test_what_a_change_appends_after_a_sync_in_between_is_synced_too() -> None:
    disk = MemoryFileSystem()
    led = opened(disk, flush_messages=1000)

    def change(log: Log) -> None:
        led.sync()  # by its thread, for an earlier change
        log.append_records(building.records([b"marker"]), sync=False)

    assert led.change([change]) == [None]
    assert led.waits_for_sync
    led.sync()
    assert (led.high_watermark, opened(after_power_cut(disk)).high_watermark) == (1, 1)


def test_those_who_wait_are_woken_once_when_more_is_shown() -> None:
    led = opened(MemoryFileSystem())
    woken: list[str] = []
    assert led.wait((0,), lambda: woken.append("one"))
    assert not led.wait((7,), lambda: woken.append("behind"))
    append(led, b"one")
    assert not woken
    led.sync()
    assert not led.wait((0,), lambda: woken.append("late"))
    led.wake()
    led.wake()
    assert woken == ["one"]


def test_those_who_wait_are_woken_when_the_partition_goes() -> None:
    led = opened(MemoryFileSystem())
    woken: list[str] = []
    assert led.wait((0,), lambda: woken.append("waiter"))
    led.leave()
    assert woken == ["waiter"]
    assert not led.wait((0,), lambda: woken.append("late"))


def test_those_who_wait_sleep_on_through_a_change_that_moves_nothing() -> None:
    led = opened(MemoryFileSystem())
    append(led, b"one")
    led.sync()
    woken: list[str] = []
    assert led.wait((1,), lambda: woken.append("waiter"))
    led.change([lambda log: None])
    led.sync()
    led.wake_if_moved()
    assert not woken
    led.change([lambda log: log.delete_records(1)])  # moves the log start alone
    led.wake_if_moved()
    assert woken == ["waiter"]


def test_what_was_appended_before_the_partition_was_left_is_acknowledged() -> None:
    led = opened(MemoryFileSystem())
    append(led, b"one")
    log: Log = led.ask(lambda log: log)
    led.leave()
    log.close()
    led.sync()
    with pytest.raises(Exception, match="no longer exists"):
        append(led, b"two")


def test_open_transactions_are_hidden_from_readers_of_committed_records(tmp_path: Path) -> None:
    led = opened(tmp_path)
    append(led, b"plain")
    append(led, b"open", producer_id=1, base_sequence=0, transactional=True)
    led.sync()
    assert shown(led, isolation=Isolation.READ_COMMITTED) < shown(led)
    assert [led.end_offset(each) for each in (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)] == [1, 2]


def test_readers_go_on_while_a_deletion_waits_for_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    led = opened(tmp_path)
    append(led, b"one", b"two")
    led.sync()
    found: list[int] = []
    monkeypatch.setattr(Log, "wait_for_append_lock", lambda _: found.append(0 if led.is_busy else shown(led, 1)))
    assert led.delete_records(1) == 1
    assert found == [shown(led, 1)]


def test_a_segment_that_another_process_replaced_is_seen_though_it_is_as_long(tmp_path: Path) -> None:
    """As by a compaction after others had rolled the log: the segment that follows may have another name by then."""
    led = opened(tmp_path)
    append(led, b"one")
    led.sync()
    assert not led.is_behind
    (segment,) = (tmp_path / "t-0").glob("*.log")
    shutil.copy(segment, tmp_path / "copy")
    (tmp_path / "copy").replace(segment)
    assert led.is_behind
