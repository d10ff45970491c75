"""Like a broker's, producers expire by the clock while a log is open, in its snapshots and in compaction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.format.files.checkpoints import decode_snapshot
from pyspark_commitlog.storage.format.v2 import BatchFields
from pyspark_commitlog.storage.maintenance.partitions import compact_partitions, in_this_process
from pyspark_commitlog.storage.maintenance.run import MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.reading.watcher import LogWatcher
from pyspark_commitlog.storage.recovery.producer_state import (
    EXPIRATION_CHECK_INTERVAL_MS as INTERVAL_MS,
    PRODUCER_ID_EXPIRATION_MS as DAY_MS,
    Producer,
)
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS, append, config, end_transaction, open_log, records, write_transactional

IDEMPOTENT, OPEN, ENDED = 1, 2, 3  # producer ids


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


def write(log: Log, producer_id: int, *, sequence: int = 0, key: bytes = b"k", timestamp: int = NOW_MS) -> None:
    fields = BatchFields(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    log.append_records(records([b"v"], keys=[key], timestamps=timestamp), fields)


def write_all(log: Log) -> None:
    """One producer of each kind."""
    write(log, IDEMPOTENT)
    write_transactional(log, OPEN, 0, b"open")
    write_transactional(log, ENDED, 0, b"ended")
    end_transaction(log, ENDED, commit=True)


def snapshot(directory: Path) -> set[int]:
    """The producers in the newest snapshot."""
    return {each.producer_id for each in decode_snapshot(max(directory.glob("*.snapshot")).read_bytes())}


def test_idle_producers_are_forgotten_while_the_log_is_open_but_no_open_transaction(
    tmp_path: Path, clock: ManualClock
) -> None:
    log = open_log(tmp_path, clock=clock)
    write_all(log)
    clock.advance(DAY_MS - 1)
    append(log, b"plain")
    assert set(log.producers.producers) == {IDEMPOTENT, OPEN, ENDED}
    clock.advance(INTERVAL_MS - 1)  # a broker looks every ten minutes
    append(log, b"plain")
    assert set(log.producers.producers) == {IDEMPOTENT, OPEN, ENDED}
    clock.advance(1)
    append(log, b"plain")
    assert set(log.producers.producers) == {OPEN}
    assert log.last_stable_offset == 1
    end_transaction(log, OPEN, commit=True)
    assert log.last_stable_offset == log.log_end_offset
    write(log, IDEMPOTENT, sequence=77, timestamp=clock.now_ms())  # whom nobody knows may begin anywhere


def test_a_marker_of_now_keeps_a_producer_that_loads_history(tmp_path: Path, clock: ManualClock) -> None:
    log = open_log(tmp_path, clock=clock)
    write(log, IDEMPOTENT, timestamp=NOW_MS - 365 * DAY_MS)
    write_transactional(log, ENDED, 0, b"x")
    log.end_transaction(Producer(ENDED, 0), commit=True, now_ms=NOW_MS + INTERVAL_MS)
    clock.advance(INTERVAL_MS)
    append(log, b"plain")
    assert set(log.producers.producers) == {ENDED}


@pytest.mark.parametrize("how", ["roll", "close"])
def test_snapshots_do_not_hold_them(how: str, tmp_path: Path, clock: ManualClock) -> None:
    log = open_log(tmp_path, clock=clock)
    write_all(log)
    clock.advance(DAY_MS)
    log.roll() if how == "roll" else log.close()
    assert snapshot(tmp_path) == {OPEN}


def test_they_are_not_loaded(tmp_path: Path, clock: ManualClock) -> None:
    checkpoints = KeptInMemory()
    with open_log(tmp_path, checkpoints, clock=clock) as log:
        write_all(log)
    assert snapshot(tmp_path) == {IDEMPOTENT, OPEN, ENDED}
    later = ManualClock(NOW_MS + DAY_MS)
    with open_log(tmp_path, checkpoints, clock=later) as log:
        assert set(log.producers.producers) == {OPEN}
    reader = LogReader.open(str(tmp_path), config(), clock=later, checkpoints=checkpoints)
    assert set(reader.producers.producers) == {OPEN}


def test_a_reader_that_follows_a_log_forgets_them_too(tmp_path: Path, clock: ManualClock) -> None:
    log = open_log(tmp_path, clock=clock)
    write_all(log)
    context = LogContext(str(tmp_path), config(), clock, log.context.filesystem, writable=False)
    watcher = LogWatcher(context, KeptInMemory())
    assert set(watcher.producers.producers) == {IDEMPOTENT, OPEN, ENDED}
    clock.advance(DAY_MS)
    watcher.catch_up()
    assert set(watcher.producers.producers) == {OPEN}


# Compaction: the last batch of an active producer is kept, without records


def superseded(directory: Path, clock: ManualClock) -> Log:
    """A producer's only record, superseded by another one; compacted topic."""
    log = open_log(directory, clock=clock, cleanup_policy="compact")
    write(log, IDEMPOTENT)
    append_keyed(log)
    log.roll()
    return log


def append_keyed(log: Log) -> None:
    log.append_records(records([b"newer"], keys=[b"k"]))


def batches_left(log: LogReader) -> list[int]:
    """Producer ids."""
    return [
        int(each)
        for segment in log.segments
        for window in segment.batches()
        for each in window.headers.table["producer_id"]
    ]


@pytest.mark.parametrize(("after_ms", "left"), [(DAY_MS - 1, [IDEMPOTENT, -1]), (DAY_MS, [-1])])
def test_compaction_keeps_the_last_batch_of_a_producer_until_it_expires_by_the_time_of_the_run(
    after_ms: int, left: list[int], tmp_path: Path, clock: ManualClock
) -> None:
    log = superseded(tmp_path, clock)
    Cleaner().clean(log, None, NOW_MS + after_ms)
    assert batches_left(log) == left


@pytest.mark.parametrize(("as_of_ms", "left"), [(None, [-1]), (NOW_MS + DAY_MS - 1, [IDEMPOTENT, -1])])
def test_a_run_as_of_a_time_that_is_past_keeps_whom_that_time_knew(
    as_of_ms: int | None, left: list[int], tmp_path: Path, clock: ManualClock
) -> None:
    directory = tmp_path / "log"
    with LogManager.open(str(directory), create=True, clock=clock) as manager:
        manager.create_topic("t", partitions=1, configs={"cleanup.policy": "compact"})
        log = manager.open_log("t", 0)
        write(log, IDEMPOTENT)
        append_keyed(log)
        log.roll()
    later = ManualClock(NOW_MS + 2 * DAY_MS)
    run = MaintenanceRun(str(directory), clock=later, as_of_ms=as_of_ms)
    with run.manager() as manager:
        selection = select_partitions(manager, ["t"], run.overrides)
    previewed = list(compact_partitions(replace(run, dry_run=True), selection, in_this_process))
    [outcome] = compact_partitions(run, selection, in_this_process)
    assert outcome.facts["compacted"]
    assert previewed[0].facts["bytes_after"] == outcome.facts["bytes_after"]
    with run.manager() as manager:
        assert batches_left(manager.open_reader("t", 0)) == left
