"""Maintenance of a log on an object store as the commands and jobs run it: outcomes, reports, and what readers see."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from pyspark_commitlog.storage.bucket.clients.appends import ClientBatch, append_batches
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import GroupOffset, OffsetsChange, Segment, TopicChange
from pyspark_commitlog.storage.bucket.commits.state import Slice
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.directory.admin import delete_records
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import InvalidConfigError, OffsetOutOfRangeError, PolicyViolationError
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.maintenance.bucket import retain
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus, PartitionOutcome
from pyspark_commitlog.storage.maintenance.partitions import (
    Operation,
    compact_partitions,
    in_this_process,
    rebuild_partitions,
    retain_partitions,
    verify_partitions,
)
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from tests.support.clock import ManualClock
from tests.support.logs.building import batch, config
from tests.support.stores.commits import TOPIC_ID, commit_log
from tests.support.stores.filled import place_of, read_rows, write_pairs
from tests.support.stores.memory_store import MemoryStore

NOW_MS = 1_700_000_000_000  # also the store's
DAY_MS = 86_400_000
ROWS = 3  # of a write


def made(store: MemoryStore, ages_ms: tuple[int, ...] = (), **configs: str) -> CommitLog:
    """A log with topic t, of which each write is so old."""
    log = commit_log(store)
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    log.commit(lambda _: TopicChange("create", "t", TOPIC_ID, 1, settings))
    for number, age_ms in enumerate(ages_ms):
        pairs = [(b"k%d" % row, b"%d-%d" % (number, row)) for row in range(ROWS)]
        write_pairs(log, *pairs, time_ms=NOW_MS - age_ms)
    return log


def run_on(log: CommitLog, *config: str, dry_run: bool = False, as_of_ms: int | None = None) -> MaintenanceRun:
    return MaintenanceRun(
        "",
        overrides=ConfigOverrides.parse(config),
        dry_run=dry_run,
        as_of_ms=as_of_ms,
        filesystem=BucketFileSystem(log),
        clock=ManualClock(NOW_MS),
    )


def carry_out(operation: Operation, run: MaintenanceRun, *topics: str) -> list[PartitionOutcome]:
    with run.manager() as manager:
        selection = select_partitions(manager, topics, run.overrides)
    return list(operation(run, selection, in_this_process))


def log_start(log: CommitLog) -> int:
    return log.catch_up().partitions[TOPIC_ID, 0].log_start


@pytest.mark.parametrize(
    ("configs", "start"),
    [
        ({"retention_ms": str(DAY_MS)}, 6),
        ({"retention_ms": "-1", "retention_bytes": "200"}, 3),
        ({"retention_ms": "-1", "retention_bytes": "0"}, 12),
        ({"retention_ms": "-1"}, 0),
        ({"cleanup_policy": "compact", "retention_ms": "1"}, 0),
    ],
    ids=["by time", "by size", "all", "no limit", "compacted"],
)
def test_retention_is_planned_from_commits(configs: Mapping[str, str], start: int) -> None:
    store = MemoryStore()
    log = made(store, (3 * DAY_MS, 2 * DAY_MS, 1000, 1000), **configs)
    run = run_on(log)
    with run.manager() as manager:
        selection = select_partitions(manager, (), run.overrides)
    store.requests.clear()
    outcome, collected = retain_partitions(run, selection, in_this_process)
    assert outcome.status is OutcomeStatus.DONE
    assert log_start(log) == start
    assert store.requests.get("get_range", 0) == 0
    assert (outcome.facts["log_start_offset"], outcome.facts["log_end_offset"]) == (start, 12)
    assert collected.facts["objects"] == 0
    assert collected.facts["waiting"] == sum(
        facts.size for facts in store.list("staged") if start and facts.key.split("/")[1] in log.state.dropped
    )


def test_readers_begin_where_retention_says() -> None:
    log = made(MemoryStore(), (3 * DAY_MS, 1000), retention_ms=str(DAY_MS))
    outcome, _ = carry_out(retain_partitions, run_on(log))
    assert "their objects are deleted 1 d later" in str(outcome)
    assert ".deleted" not in str(outcome)
    with LogManager.open("", filesystem=BucketFileSystem(log)) as manager, manager.open_reader("t", 0) as reader:
        assert (reader.log_start_offset, reader.log_end_offset) == (3, 6)


def test_a_dry_run_changes_nothing_and_says_what_would_be() -> None:
    store = MemoryStore()
    log = made(store, (3 * DAY_MS, 1000), retention_ms=str(DAY_MS), segment_bytes="100")
    number = log.state.number
    outcome, collected = carry_out(retain_partitions, run_on(log, dry_run=True))
    assert "deleting 1 of 2 segments" in str(outcome)
    assert "would be deleted" in str(collected)
    (consolidated,) = carry_out(compact_partitions, run_on(log, dry_run=True))
    assert consolidated.facts["slices"] == 1
    assert log.catch_up().number == number


def test_what_a_group_has_not_read_is_kept() -> None:
    log = made(MemoryStore(), (3 * DAY_MS, 2 * DAY_MS, 1000), retention_ms=str(DAY_MS))
    log.commit(lambda _: OffsetsChange({"g": {"t-0": GroupOffset(4, "")}}))
    outcome, _ = carry_out(partial(retain_partitions, keep_for_groups=["g"]), run_on(log), "t")
    assert log_start(log) == 3
    assert "group g" in str(outcome)


def test_records_without_a_time_are_as_old_as_their_object() -> None:
    store = MemoryStore()
    log = made(store, retention_ms=str(DAY_MS))
    write_pairs(log, (None, b"a"), time_ms=-1)
    carry_out(retain_partitions, run_on(log))
    assert log_start(log) == 0
    for key in store.modified:
        store.modified[key] = NOW_MS - 2 * DAY_MS
    carry_out(retain_partitions, run_on(log))
    assert log_start(log) == 1


def test_a_partition_of_many_slices_is_planned_in_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retain, "SEGMENTS_MAX", 3)
    log = made(MemoryStore(), (*[3 * DAY_MS] * 5, 1000, 1000), retention_ms=str(DAY_MS))
    facts = retain.survey(place_of(log))
    assert [segment.base_offset for segment in facts.segments] == [0, 9, 18]
    carry_out(retain_partitions, run_on(log))
    assert log_start(log) == 9


def test_what_retention_dropped_is_deleted_after_the_grace() -> None:
    store = MemoryStore()
    log = made(store, (3 * DAY_MS, 1000), retention_ms=str(DAY_MS))
    carry_out(retain_partitions, run_on(log))
    store.now_ms += 1000
    _, collected = carry_out(retain_partitions, run_on(log, "delete.grace.ms=1001"))
    assert collected.facts["objects"] == 0
    _, collected = carry_out(retain_partitions, run_on(log, "delete.grace.ms=1000"))
    assert collected.facts["objects"] == 1
    assert [row[0] for row in read_rows(log)] == [3, 4, 5]


@pytest.mark.parametrize("wrong", ["staged.retention.ms=-1", "delete.grace.ms=a day", "delete.grace=1"])
def test_a_wrong_limit_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidConfigError, match=wrong.split("=", maxsplit=1)[0]):
        ConfigOverrides.parse([wrong])


@pytest.mark.parametrize("key", ["staged.retention.ms", "delete.grace.ms"])
@pytest.mark.parametrize(("log_dir", "warns"), [("s3://bucket/log", False), ("/data/log", True)])
def test_the_limits_have_an_effect_on_an_object_store_only(
    key: str, log_dir: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    overrides = ConfigOverrides.parse([f"{key}=0"], log_dir=log_dir)
    assert overrides.broker[key] == "0"
    assert (f"--config {key}: has no effect here" in caplog.messages) is warns


# --- delete-records


def deleted(log: CommitLog, offset: int, *, dry_run: bool = False) -> Any:
    with LogManager.open("", filesystem=BucketFileSystem(log)) as manager:
        (result,) = delete_records(manager, {TopicPartition("t", 0): offset}, dry_run=dry_run)
        return result


def test_records_are_deleted_up_to_an_offset() -> None:
    log = made(MemoryStore(), (1000, 1000))
    assert deleted(log, 2, dry_run=True).log_start_offset == 2
    assert log_start(log) == 0
    assert deleted(log, 2).log_start_offset == 2
    assert deleted(log, 1).log_start_offset == 2
    assert log_start(log) == 2
    assert deleted(log, -1).log_start_offset == 6
    assert isinstance(deleted(log, 7).error, OffsetOutOfRangeError)
    assert isinstance(deleted(made(MemoryStore(), (1,), cleanup_policy="compact"), 1).error, PolicyViolationError)


# --- compaction, consolidation, indexes


@pytest.fixture
def compacted() -> tuple[MemoryStore, CommitLog]:
    store = MemoryStore()
    return store, made(store, (5000, 4000, 3000), cleanup_policy="compact", segment_bytes="200")


def sound(log: CommitLog) -> None:
    for outcome in carry_out(verify_partitions, run_on(log)):
        assert outcome.status is OutcomeStatus.DONE, str(outcome)
        assert "sound" in str(outcome)


def test_compacted_topics_are_compacted_and_others_consolidated(compacted: tuple[MemoryStore, CommitLog]) -> None:
    _, log = compacted
    log.commit(lambda _: TopicChange("create", "u", "u" * 22, 1, {"segment.bytes": "300"}))
    log.commit(lambda _: OffsetsChange({"g": {"t-0": GroupOffset(4, "")}}))
    for number in range(5):
        write_pairs(log, (None, b"%d" % number * 40), time_ms=NOW_MS, topic="u")
    found = {outcome.topic: outcome for outcome in carry_out(compact_partitions, run_on(log))}
    assert set(found) == {"t", "u"}
    assert "3 of 9 records kept" in str(found["t"])
    assert "4 slices" in str(found["u"])
    assert {key: value for _, key, value in read_rows(log)} == {b"k%d" % row: b"2-%d" % row for row in range(ROWS)}
    assert [type(part) for part in place_of(log, "u").parts[:-1]] == [Segment] * 2
    sound(log)
    again = {outcome.topic: str(outcome) for outcome in carry_out(compact_partitions, run_on(log))}
    assert "not compacted: all is clean up to offset 9" in again["t"]
    assert "nothing to consolidate" in again["u"]


def test_a_clean_part_is_read_as_clean_by_the_next_run(compacted: tuple[MemoryStore, CommitLog]) -> None:
    _, log = compacted
    carry_out(compact_partitions, run_on(log))
    write_pairs(log, (b"k0", b"new"))
    (outcome,) = carry_out(compact_partitions, run_on(log, "min.cleanable.dirty.ratio=0.9"))
    assert outcome.facts["first_dirty_offset_before"] == 9
    assert "dirty" in str(outcome)
    carry_out(compact_partitions, run_on(log, "min.cleanable.dirty.ratio=0.1"))
    assert {key: value for _, key, value in read_rows(log)}[b"k0"] == b"new"
    sound(log)


def test_indexes_that_are_wrong_or_missing_are_put_again(compacted: tuple[MemoryStore, CommitLog]) -> None:
    store, log = compacted
    carry_out(compact_partitions, run_on(log))
    before, place = read_rows(log), place_of(log)
    (outcome,) = carry_out(rebuild_partitions, run_on(log))
    assert "nothing to rebuild" in str(outcome)
    last = place.parts[-1]
    assert isinstance(last, Segment)
    name = last.key(TOPIC_ID, 0)
    store.objects[f"{name}.timeindex"] = b"x" * 12
    del store.objects[f"{name}.index"]
    (outcome,) = carry_out(rebuild_partitions, run_on(log, dry_run=True))
    assert f"{name}.timeindex: " in str(outcome)
    assert f"{name}.index: missing" in str(outcome)
    carry_out(rebuild_partitions, run_on(log))
    again = place_of(log).parts[-1]
    assert isinstance(again, Segment)
    assert again == last._replace(uuid=again.uuid)
    assert again.uuid != last.uuid
    assert read_rows(log) == before
    sound(log)


def test_a_log_of_idempotent_clients_is_sound_before_and_after_a_consolidation() -> None:
    log = made(MemoryStore(), (), segment_bytes="300")
    sequences = dict.fromkeys((7, 8), 0)

    def send(producer: int) -> None:
        sent = batch(b"x" * 60, producer_id=producer, base_sequence=sequences[producer]).data
        append_batches(log, [ClientBatch(log.state.topic_ids["t"], 0, check_batch(sent, config()))])
        sequences[producer] += 1

    for producers in ([7] * 3, [8, 7, 8, 8, 7], [8]):
        for producer in producers:
            send(producer)
        sound(log)
        carry_out(compact_partitions, run_on(log))
        sound(log)
    assert any(isinstance(part, Segment) for part in place_of(log).parts)
    assert isinstance(place_of(log).parts[-1], Slice)  # of a producer that the last segment does not know


def test_damage_is_an_outcome_of_its_partition(compacted: tuple[MemoryStore, CommitLog]) -> None:
    store, log = compacted
    key = place_of(log).key(place_of(log).parts[1])
    broken = bytearray(store.objects[key])
    broken[70] ^= 1
    store.objects[key] = bytes(broken)
    (outcome,) = carry_out(compact_partitions, run_on(log))
    assert outcome.status is OutcomeStatus.DAMAGED
    assert key in str(outcome)
