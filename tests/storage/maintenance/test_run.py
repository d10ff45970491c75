"""Maintenance of whole directories, in this process: what the jobs do, without Spark."""

from __future__ import annotations

import errno
import json
import pickle
import resource
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.directory.admin import delete_topic
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    CorruptRecordError,
    InvalidConfigError,
    NotALogDirError,
    UnknownTopicOrPartitionError,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.format.v2 import BatchFields
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.index_rebuild.segment import SegmentSurvey
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus, PartitionOutcome
from pyspark_commitlog.storage.maintenance.partitions import (
    compact_partitions,
    in_this_process,
    rebuild_partitions,
    recover_partitions,
    retain_partitions,
    verify_partitions,
)
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import Selection, select_partitions
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.states import TransactionStates
from pyspark_commitlog.storage.transactions.writer import TransactionalWriter
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail, tear
from tests.support.kafka import broker_dirs
from tests.support.logs.building import append, records, rows
from tests.support.logs.compaction import Pass, batches
from tests.support.logs.maintenance import (
    DELETED_BELOW,
    EXACT,
    OTHER_BYTES,
    lay_out_directory,
    left_by,
    segment_files,
    topic_of,
    tree,
)
from tests.support.logs.transactions import encoded

GOLDEN = Path(__file__).parents[2] / "golden" / "retention"
EXPECTED: Mapping[str, Any] = json.loads((GOLDEN / "expected.json").read_text())
NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
DAY_MS = 86_400_000
ALL = (retain_partitions, compact_partitions, rebuild_partitions, verify_partitions)

Operation = Callable[..., Iterator[PartitionOutcome]]


def outcomes_of(run: MaintenanceRun, what: Operation, *topics: str, **options: Any) -> list[PartitionOutcome]:
    """The outcomes of an operation over topics, all by default, without Spark."""
    run.check()
    return list(what(run, selected(run, *topics), in_this_process, **options))


def selected(run: MaintenanceRun, *topics: str) -> Selection:
    with run.manager() as manager:
        return select_partitions(manager, topics, run.overrides)


def by_partition(outcomes: Sequence[PartitionOutcome]) -> dict[str, PartitionOutcome]:
    return {f"{each.topic}-{each.partition}": each for each in outcomes}


# Compared with Kafka's cleaner


@dataclass(frozen=True)
class TimedRun(MaintenanceRun):
    """A run whose rounds begin at the given times; the last one is repeated."""

    times_ms: list[int] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.times_ms.pop(0) if len(self.times_ms) > 1 else self.times_ms[0]


@pytest.mark.parametrize("each", EXACT, ids=str)
def test_a_run_over_a_directory_leaves_what_the_real_cleaner_left(each: Pass, tmp_path: Path) -> None:
    lay_out_directory(each, tmp_path / "log")
    overrides = ConfigOverrides(each.configs, {key: str(value) for key, value in each.broker.items()})
    # One reading chooses the log, one begins each round, and one finds that nothing is due any more.
    run = TimedRun(
        str(tmp_path / "log"),
        overrides=overrides,
        clock=ManualClock(each.times_ms[0]),
        times_ms=[each.times_ms[0], *each.times_ms],
    )
    (outcome,) = outcomes_of(run, compact_partitions, topic_of(each)[0])
    assert outcome.status is OutcomeStatus.DONE
    assert outcome.facts["rounds"] == len(each.times_ms)
    expected = left_by(each)
    found = segment_files(tmp_path / "log" / each.partition, DELETED_BELOW.get(str(each), 0))
    assert found.keys() == expected.keys()
    assert batches(found) == batches(expected)
    if each.partition not in OTHER_BYTES:
        assert [name for name in expected if found[name] != expected[name]] == []
    stored = checkpoints.decode_offsets((tmp_path / "log" / file_names.CLEANER_OFFSET_CHECKPOINT).read_bytes())
    assert stored == {topic_of(each): each.next_first_dirty_offset}


def test_both_jobs_leave_a_compacted_and_deleted_topic_as_the_broker_does(tmp_path: Path) -> None:
    (each,) = (one for one in EXACT if str(one) in DELETED_BELOW)
    lay_out_directory(each, tmp_path / "log")
    settings = ConfigOverrides(each.configs, {key: str(value) for key, value in each.broker.items()})
    run = MaintenanceRun(str(tmp_path / "log"), overrides=settings, clock=ManualClock(each.times_ms[0]))
    (retained,) = outcomes_of(run, retain_partitions, topic_of(each)[0])
    assert retained.facts["log_start_offset"] == DELETED_BELOW[str(each)]
    (compacted,) = outcomes_of(run, compact_partitions, topic_of(each)[0])
    assert compacted.facts["first_dirty_offset"] == each.next_first_dirty_offset
    found, expected = segment_files(tmp_path / "log" / each.partition), left_by(each)
    assert {name: content for name, content in found.items() if name in expected} == expected
    assert {name for name in found if name.endswith(file_names.LOG)} == {
        name for name in expected if name.endswith(file_names.LOG)
    }


# A directory made here


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topic ``kept``, compacted, of three partitions, and ``gone``, deleted after two days, of two; five segments each.

    Each partition of ``kept`` has ten keys that are written repeatedly; the segments of ``gone`` are 0 to 4 days old.
    """
    directory = tmp_path_factory.mktemp("written") / "log"
    clock = ManualClock(NOW_MS)
    with LogManager.open(str(directory), create=True, clock=clock) as manager:
        manager.create_topic("kept", partitions=3, configs={"cleanup.policy": "compact"})
        manager.create_topic("gone", partitions=2, configs={"retention.ms": str(2 * DAY_MS)})
        for number in range(3):
            log = manager.open_log("kept", number)
            for n in range(5):
                log.append_records(records([b"%d" % n] * 10, keys=[b"key %d" % key for key in range(10)]))
                log.roll()
        for number in range(2):
            log = manager.open_log("gone", number)
            for age in range(4, -1, -1):
                append(log, b"%d days" % age, timestamps=NOW_MS - age * DAY_MS - 1000)
                log.roll()
    return directory


@pytest.fixture
def log_dir(written: Path, tmp_path: Path) -> Path:
    """A copy that tests may change."""
    return Path(shutil.copytree(written, tmp_path / "log"))


def run_over(log_dir: Path, **settings: Any) -> MaintenanceRun:
    return MaintenanceRun(str(log_dir), holder="the test", **{"clock": ManualClock(NOW_MS), **settings})


def overrides(**settings: object) -> ConfigOverrides:
    return ConfigOverrides.parse(f"{key.replace('_', '.')}={value}" for key, value in settings.items())


def content(log_dir: Path, topic: str, number: int = 0) -> list[tuple[int, bytes | None]]:
    with LogManager.open(str(log_dir)) as manager:
        return rows(manager.open_reader(topic, number))


def damage(log_dir: Path, partition: str, segment: int) -> tuple[Path, int]:
    """Flip a bit of a value in one segment; returns the file, and the position of its batch."""
    path = sorted((log_dir / partition).glob("*.log"))[segment]
    data = bytearray(path.read_bytes())
    data[-2] ^= 4
    path.write_bytes(data)
    return path, 0


@pytest.mark.parametrize("what", ALL)
def test_a_dry_run_changes_no_byte_and_answers_what_the_run_then_does(log_dir: Path, what: Operation) -> None:
    for index in (log_dir / "kept-1").glob("*.index"):
        index.write_bytes(b"\0\0\0\1\0\0\0\7")
    before = tree(log_dir)
    run = run_over(log_dir, dry_run=True)
    planned = outcomes_of(run, what)
    assert tree(log_dir) == before
    done = outcomes_of(replace(run, dry_run=False), what)
    assert [replace_dry(each) for each in planned] == [replace_dry(each) for each in done]
    assert {each.partition for each in done if each.topic == "kept"} == {0, 1, 2}


def replace_dry(outcome: PartitionOutcome) -> Mapping[str, Any]:
    return {key: value for key, value in outcome.to_json().items() if key not in ("dry_run", "held_by")}


# Compaction


def test_the_newest_record_of_each_key_is_kept_and_the_checkpoint_written(log_dir: Path) -> None:
    outcomes = outcomes_of(run_over(log_dir), compact_partitions, "kept")
    assert [each.facts["records_after"] for each in outcomes] == [10, 10, 10]
    assert content(log_dir, "kept") == [(40 + key, b"4") for key in range(10)]
    stored = checkpoints.decode_offsets((log_dir / file_names.CLEANER_OFFSET_CHECKPOINT).read_bytes())
    assert stored == {("kept", number): 50 for number in range(3)}
    assert (
        str(outcomes[0])
        .splitlines()[0]
        .startswith("kept-0, as of 2027-01-15 08:00:00.000 UTC: 10 of 50 records kept, ")
    )


def test_the_checkpoint_keeps_entries_of_other_logs_and_drops_deleted_ones(log_dir: Path) -> None:
    stored = {("kept", 2): 7, ("gone", 0): 3, ("dropped", 0): 12}
    (log_dir / file_names.CLEANER_OFFSET_CHECKPOINT).write_bytes(checkpoints.encode_offsets(stored))
    run = run_over(log_dir)
    selection = selected(run, "kept")
    only = replace(selection, partitions=selection.partitions[:1])
    assert [each.status for each in compact_partitions(run, only, in_this_process)] == [OutcomeStatus.DONE]
    stored = checkpoints.decode_offsets((log_dir / file_names.CLEANER_OFFSET_CHECKPOINT).read_bytes())
    assert stored == {("kept", 0): 50, ("kept", 2): 7, ("gone", 0): 3}


def test_the_dirtiest_log_is_first(log_dir: Path) -> None:
    """Dirty are all of partition 0, a fifth of partition 1, and three fifths of partition 2."""
    stored = {("kept", 1): 40, ("kept", 2): 20}
    (log_dir / file_names.CLEANER_OFFSET_CHECKPOINT).write_bytes(checkpoints.encode_offsets(stored))
    outcomes = outcomes_of(run_over(log_dir), compact_partitions, "kept")
    assert [(each.partition, each.facts["compacted"]) for each in outcomes] == [(1, False), (0, True), (2, True)]
    lower = overrides(min_cleanable_dirty_ratio=0.1)
    assert outcomes_of(run_over(log_dir, overrides=lower), compact_partitions, "kept")[-1].facts["compacted"]


def why(outcome: PartitionOutcome) -> str:
    assert not outcome.facts["compacted"]
    assert outcome.facts["reason"] in str(outcome)
    return str(outcome.facts["reason"])


def test_the_report_says_why_a_log_was_not_compacted(log_dir: Path) -> None:
    def first(topic: str = "kept", **settings: object) -> str:
        return why(outcomes_of(run_over(log_dir, overrides=overrides(**settings)), compact_partitions, topic)[0])

    assert first("gone") == "cleanup.policy = delete has no compact"
    assert first(log_cleaner_enable="false") == "log.cleaner.enable = false"
    assert first(min_compaction_lag_ms=2**40) == (
        "all is clean up to offset 0, and records from there on are younger than min.compaction.lag.ms = "
        "1,099,511,627,776"
    )
    assert first(min_cleanable_dirty_ratio=1) == (
        "955 of 955 bytes are dirty, 1.00, not more than min.cleanable.dirty.ratio = 1.0, and no dirty record is "
        "older than max.compaction.lag.ms = 9,223,372,036,854,775,807"
    )
    with LogManager.open(str(log_dir), clock=ManualClock(NOW_MS)) as manager:
        log = manager.open_log("kept", 0)
        fields = BatchFields(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        log.append_records(records([b"open"], keys=[b"key"]), fields)
        log.roll()
    outcomes_of(run_over(log_dir), compact_partitions, "kept")
    assert first() == "all is clean up to offset 50, and a transaction is open from there on"
    active = outcomes_of(run_over(log_dir), compact_partitions, "kept")[1]
    assert why(active) == (
        "all is clean up to offset 50, and the active segment, which is still written to, begins there"
    )


def test_an_old_dirty_record_triggers_a_compaction_whatever_the_ratio(log_dir: Path) -> None:
    lag = overrides(min_cleanable_dirty_ratio=1, max_compaction_lag_ms=DAY_MS)
    (outcome, *_) = outcomes_of(run_over(log_dir, overrides=lag, as_of_ms=NOW_MS), compact_partitions, "kept")
    assert outcome.facts["compacted"]
    assert "a dirty record is older than max.compaction.lag.ms = 86,400,000" in str(outcome)


@pytest.mark.parametrize("first_dirty", [0, 50], ids=["dirty part", "clean part"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_log_with_a_corrupt_segment_is_reported_and_the_others_are_compacted(
    log_dir: Path, first_dirty: int, dry_run: bool
) -> None:
    """Each segment is a group of its own, so that the first ones could be swapped before the damage is found."""
    small = overrides(segment_bytes=200, min_cleanable_dirty_ratio=0.01)
    with LogManager.open(str(log_dir), clock=ManualClock(NOW_MS)) as manager:
        log = manager.open_log("kept", 1)
        log.append_records(records([b"more"] * 10, keys=[b"key %d" % key for key in range(10)]))
        log.roll()
    (log_dir / file_names.CLEANER_OFFSET_CHECKPOINT).write_bytes(checkpoints.encode_offsets({("kept", 1): first_dirty}))
    path, position = damage(log_dir, "kept-1", 2)
    before = segment_files(log_dir / "kept-1")
    found = by_partition(outcomes_of(run_over(log_dir, overrides=small, dry_run=dry_run), compact_partitions, "kept"))
    assert [found[name].status.value for name in ("kept-0", "kept-1", "kept-2")] == ["done", "damaged", "done"]
    assert f"{path}, position {position}: " in str(found["kept-1"])
    assert segment_files(log_dir / "kept-1") == before
    assert found["kept-2"].facts["records_after"] == 10


@pytest.mark.parametrize("call", [1, 3])
def test_a_full_disk_during_a_compaction_loses_nothing_and_leaves_no_half_made_files(log_dir: Path, call: int) -> None:
    """Each segment is a group of its own: some are replaced before the disk is full."""
    with LogManager.open(str(log_dir), clock=ManualClock(NOW_MS)) as manager:
        log = manager.open_log("kept", 1)
        for n in range(5):
            log.append_records(records([b"once"] * 3, keys=[b"key 0", b"only %d" % n, b"key 1"]))
            log.roll()
    before = content(log_dir, "kept", 1)
    full = FaultyFileSystem(LocalFileSystem(), [tear("*/kept-1/*.cleaned", after=10, call=call, lasting=True)])
    run = run_over(log_dir, filesystem=full, overrides=overrides(segment_bytes=250))
    found = by_partition(outcomes_of(run, compact_partitions, "kept"))
    assert full.rules[0].struck
    assert found["kept-1"].status is OutcomeStatus.FAILED
    assert "No space left on device" in str(found["kept-1"])
    assert [path for path in (log_dir / "kept-1").iterdir() if ".cleaned" in path.name] == []
    newest = [*((40 + key, b"4") for key in range(2, 10)), *((51 + 3 * n, b"once") for n in range(4))]
    newest += [(offset, b"once") for offset in (62, 63, 64)]
    assert set(newest) <= set(content(log_dir, "kept", 1)) <= set(before)
    assert found["kept-2"].status is OutcomeStatus.DONE
    outcomes_of(run_over(log_dir), compact_partitions, "kept")
    assert content(log_dir, "kept", 1) == newest


# Retention


@pytest.fixture(scope="module")
def retained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, PartitionOutcome]]:
    """A copy of the broker's directory before its retention, and our retention's result there at the broker's time."""
    root = tmp_path_factory.mktemp("retained")
    with tarfile.open(GOLDEN / "before.tar.xz") as tar:
        tar.extractall(root, filter="data")
    topics = EXPECTED["topics"]
    broker_dirs.adopt(root, {topic: facts["configs"] for topic, facts in topics.items()})
    clock = ManualClock(EXPECTED["now_ms"])
    with LogManager.open(str(root), clock=clock) as manager:
        for topic, facts in topics.items():
            if "deleteRecords" in facts:
                manager.open_log(topic, 0).delete_records(facts["deleteRecords"])
    run = run_over(root, clock=clock, overrides=overrides(file_delete_delay_ms=600_000))
    return root, {each.topic: each for each in outcomes_of(run, retain_partitions, *topics)}


@pytest.mark.parametrize("topic", EXPECTED["topics"])
def test_the_brokers_deleted_segments_are_deleted_and_its_log_start_stays(
    retained: tuple[Path, dict[str, PartitionOutcome]], topic: str
) -> None:
    root, outcomes = retained
    expected, found = EXPECTED["topics"][topic], outcomes[topic].facts
    gone = [[each["base_offset"], each["size"], each["rule"]] for each in found["segments"] if each["goes"]]
    assert gone == expected["deleted"]
    assert found["log_start_offset"] == expected["beginningOffset"]
    with LogManager.open(str(root)) as manager:
        assert manager.open_reader(topic, 0).log_start_offset == expected["beginningOffset"]


def test_old_segments_are_deleted_and_their_files_removed_by_a_later_run(log_dir: Path) -> None:
    outcomes = outcomes_of(run_over(log_dir), retain_partitions)
    assert [each.facts["log_start_offset"] for each in outcomes] == [3, 3, 0, 0, 0]
    assert content(log_dir, "gone") == [(3, b"1 days"), (4, b"0 days")]
    assert len(list((log_dir / "gone-0").glob("*.log.deleted"))) == 3
    later = outcomes_of(run_over(log_dir, clock=ManualClock(NOW_MS + 2 * MINUTE_MS)), retain_partitions, "gone")
    assert len([name for name in later[0].facts["files_removed"] if name.endswith(".log.deleted")]) == 3
    assert list((log_dir / "gone-0").glob("*.deleted")) == []


def test_a_log_with_nothing_to_delete_is_not_touched(log_dir: Path) -> None:
    before = tree(log_dir)
    outcomes_of(run_over(log_dir, overrides=overrides(retention_ms=-1)), retain_partitions)
    assert tree(log_dir) == before


def test_a_dry_run_for_monday_only_reports(log_dir: Path) -> None:
    run = run_over(log_dir, as_of_ms=NOW_MS + DAY_MS, dry_run=True)
    assert outcomes_of(run, retain_partitions, "gone")[0].facts["log_start_offset"] == 4
    with pytest.raises(InvalidConfigError, match="--as-of is in the future"):
        outcomes_of(replace(run, dry_run=False), retain_partitions, "gone")


def test_nothing_unread_by_a_group_is_deleted(log_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    with LogManager.open(str(log_dir), clock=ManualClock(NOW_MS)) as manager:
        GroupOffsets(manager).commit("billing", {("gone", 0): CommittedOffset(1), ("gone", 1): CommittedOffset(5)})
    found = outcomes_of(run_over(log_dir), retain_partitions, "gone", keep_for_groups=["billing"])
    assert [each.facts["log_start_offset"] for each in found] == [1, 3]
    assert found[0].facts["warnings"][0].startswith("2 segments with ")
    assert "would be deleted if not kept for group billing, 4 offsets behind the log end" in str(found[0])
    caplog.clear()
    outcomes_of(run_over(log_dir), retain_partitions, "gone", keep_for_groups=["bilking"])
    assert "group 'bilking' has no committed offsets" in caplog.text
    with pytest.raises(InvalidConfigError, match="--keep-for-groups is empty"):
        outcomes_of(run_over(log_dir), retain_partitions, "gone", keep_for_groups=[""])


def test_nothing_that_a_table_does_not_have_is_deleted(log_dir: Path) -> None:
    """A table of another topic holds nothing, and a partition that the table does not know is kept whole."""
    tables = {
        "data/flights": {file_names.TopicPartition("gone", 0): 1},
        "data/others": {file_names.TopicPartition("other", 0): 0},
    }
    found = outcomes_of(run_over(log_dir), retain_partitions, "gone", keep_for_tables=lambda _: tables)
    assert [each.facts["log_start_offset"] for each in found] == [1, 0]
    assert "would be deleted if not kept for table data/flights, 4 offsets behind the log end" in str(found[0])


def test_nothing_is_deleted_if_a_table_cannot_be_read(log_dir: Path) -> None:
    before = tree(log_dir)

    def unreadable(_manager: LogManager) -> dict[str, dict[file_names.TopicPartition, int]]:
        raise InvalidConfigError("no table")

    with pytest.raises(InvalidConfigError, match="no table"):
        outcomes_of(run_over(log_dir), retain_partitions, keep_for_tables=unreadable)
    assert tree(log_dir) == before


def test_the_transaction_of_a_dead_query_holds_nothing_back_once_its_timeout_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_dir, clock = tmp_path / "log", ManualClock(NOW_MS)
    with LogManager.open(str(log_dir), create=True, clock=clock) as manager:
        manager.create_topic("t", partitions=1, configs={"retention.ms": "1000"})
        coordinator = TransactionCoordinator.open(manager, "dead", holder="a query")
        transaction = coordinator.begin([("t", 0)])
        writer = TransactionalWriter(manager, transaction)
        writer.append("t", 0, encoded(b"lost"))
        writer.sync()
        coordinator.close()
    run = run_over(log_dir, clock=clock, dry_run=True)
    clock.advance(MINUTE_MS)
    (held,) = outcomes_of(run, retain_partitions, "t")
    assert held.facts["segments"][0]["rule"] == "open transaction"
    assert "state Ongoing: left: its transaction.timeout.ms of 900000 has not passed; t-0 from offset 0" in caplog.text
    clock.advance(15 * MINUTE_MS)
    ended, planned = outcomes_of(run, retain_partitions, "t")
    assert "state Ongoing: would be aborted: older than its timeout; t-0 from offset 0 (held back)" in str(ended)
    assert planned.facts["segments"][0]["rule"] == "open transaction"
    ended, done = outcomes_of(replace(run, dry_run=False), retain_partitions, "t")
    assert "state Ongoing: aborted: older than its timeout" in str(ended)
    assert ended.facts == {"dry_run": False, "aborted": 1, "committed": 0}
    assert (done.facts["log_start_offset"], done.facts["log_end_offset"]) == (1, 2)  # the marker is new
    assert {"dead"} == transactional_ids(log_dir)
    clock.advance(7 * 24 * 60 * MINUTE_MS)
    outcomes_of(run, retain_partitions, "t")
    assert {"dead"} == transactional_ids(log_dir)  # that was a dry run
    outcomes_of(replace(run, dry_run=False), retain_partitions, "t")
    assert not transactional_ids(log_dir)


def transactional_ids(log_dir: Path) -> set[str]:
    """The ids that are remembered."""
    with LogManager.open(str(log_dir)) as manager:
        return {transactional_id for transactional_id, _ in TransactionStates(manager).all()}


def test_the_report_says_that_a_record_can_live_for_25_minutes(tmp_path: Path) -> None:
    """Worked example 4, in the job's own report: a record every 5 seconds, 109 per segment."""
    clock = ManualClock(1_639_132_508_991)
    with LogManager.open(str(tmp_path / "log"), create=True, clock=clock) as manager:
        manager.create_topic("canary", partitions=1, configs={"segment.bytes": "16384", "retention.ms": "600000"})
        log = manager.open_log("canary", 0)
        for n in range(110):
            value = b'{"producerId":"strimzi-canary-client","messageId":%d,"timestamp":%d}' % (
                1 + 3 * n,
                clock.now_ms(),
            )
            append(log, value, timestamps=clock.now_ms())
            clock.advance(5000)
        assert log.segments.base_offsets == [0, 109]
    run = run_over(tmp_path / "log", clock=clock, dry_run=True, overrides=overrides(file_delete_delay_ms=60_000))
    (outcome,) = outcomes_of(run, retain_partitions)
    assert (
        "off the disk by 2021-12-10 11:00:08.991 UTC at the latest, when its first record is 25 min old: "
        "up to 5 min until the next check, 1 min as .deleted"
    ) in str(outcome)
    hourly = replace(run, overrides=ConfigOverrides.parse(["log.retention.check.interval.ms=3600000"]))
    assert "when its first record is 1 h 20 min old: up to 1 h until" in str(outcomes_of(hourly, retain_partitions)[0])


# Index rebuild


@pytest.mark.parametrize("scenario", ["transactions", "plain", "idempotent"])
def test_a_rebuild_of_a_directory_leaves_the_files_of_the_broker(scenario: str, tmp_path: Path) -> None:
    """Deletes everything that can be rebuilt; a snapshot's entries are in the order of a hash map."""
    log_dir = broker_dirs.copy_to(tmp_path / "log", f"{scenario}/final")
    topics = list(broker_dirs.settings(scenario)["topics"])
    kinds = (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX, file_names.SNAPSHOT)
    files = {path for topic in topics for path in log_dir.glob(f"{topic}-*/*") if path.suffix in kinds}
    expected = {path: path.read_bytes() for path in files}
    for path in files:
        path.unlink()
    run = run_over(log_dir, clock=ManualClock(0), dry_run=True)
    before = tree(log_dir)
    planned = outcomes_of(run, rebuild_partitions, *topics)
    assert tree(log_dir) == before
    done = outcomes_of(replace(run, dry_run=False), rebuild_partitions, *topics)
    assert [each.facts["files"] for each in done] == [each.facts["files"] for each in planned]
    for path, content in expected.items():
        found = path.read_bytes() if path.exists() or content else b""
        if path.suffix == file_names.SNAPSHOT:
            assert snapshot_sorted(found) == snapshot_sorted(content), path
        else:
            assert found == content, path
    assert all(
        each.facts["files"] == [] for each in outcomes_of(replace(run, dry_run=False), rebuild_partitions, *topics)
    )


def snapshot_sorted(data: bytes) -> bytes:
    return checkpoints.encode_snapshot(sorted(checkpoints.decode_snapshot(data)))


def test_nothing_is_rebuilt_of_a_log_with_a_damaged_segment(log_dir: Path) -> None:
    for index in log_dir.glob("kept-*/*.timeindex"):
        index.unlink()
    path, position = damage(log_dir, "kept-1", 2)
    before = tree(log_dir / "kept-1")
    found = by_partition(outcomes_of(run_over(log_dir), rebuild_partitions, "kept"))
    assert [found[name].status.value for name in ("kept-0", "kept-1", "kept-2")] == ["done", "damaged", "done"]
    assert f"{path}, position {position}: " in str(found["kept-1"])
    after = tree(log_dir / "kept-1")
    assert {name: stored for name, stored in after.items() if name in before and "lock" not in name} == {
        name: stored for name, stored in before.items() if "lock" not in name
    }
    assert len(list((log_dir / "kept-2").glob("*.timeindex"))) == 6


def test_a_killed_compaction_is_cleaned_up_before_a_rebuild(log_dir: Path) -> None:
    leftover = log_dir / "kept-0" / file_names.segment_file(0, file_names.LOG + file_names.CLEANED)
    leftover.write_bytes(b"half")
    planned = outcomes_of(run_over(log_dir, dry_run=True), rebuild_partitions, "kept")
    assert leftover.exists()
    assert (
        outcomes_of(run_over(log_dir), rebuild_partitions, "kept")[0].facts["files"] == planned[0].facts["files"] == []
    )
    assert not leftover.exists()


def test_a_survey_with_damage_can_be_sent_to_other_processes() -> None:
    damage = CorruptRecordError("checksum", path="/log/kept-1/x.log", position=7)
    found = pickle.loads(pickle.dumps(SegmentSurvey(0, 0, damage=damage)))
    assert str(found.damage) == str(damage) == "/log/kept-1/x.log, position 7: checksum"


# Verification


def test_an_intact_directory_is_reported_as_sound(log_dir: Path) -> None:
    before = tree(log_dir)
    outcomes = outcomes_of(run_over(log_dir), verify_partitions)
    assert [each.status for each in outcomes] == [OutcomeStatus.DONE] * 5
    assert tree(log_dir) == before
    assert str(outcomes[2]).startswith("kept-0: sound; 6 segments, 5 batches and 50 records in ")


def test_every_damage_is_named_with_what_to_do(log_dir: Path) -> None:
    path, position = damage(log_dir, "kept-1", 2)
    index = sorted((log_dir / "gone-0").glob("*.timeindex"))[1]
    index.unlink()
    (log_dir / file_names.RECOVERY_POINT_CHECKPOINT).write_text("nonsense")
    checkpoint, *rest = outcomes_of(run_over(log_dir), verify_partitions)
    assert (checkpoint.topic, checkpoint.status) == ("", OutcomeStatus.DAMAGED)
    assert str(log_dir / file_names.RECOVERY_POINT_CHECKPOINT) in str(checkpoint)
    found = by_partition(rest)
    wrong = {name: each.status for name, each in found.items() if each.status is not OutcomeStatus.DONE}
    assert wrong == {"kept-1": OutcomeStatus.DAMAGED, "gone-0": OutcomeStatus.REPAIRABLE}
    assert f"damage: {path}, position {position}, offset 20: " in str(found["kept-1"])
    assert f"repairable: {index}" in str(found["gone-0"])
    (first, *_) = found["kept-1"].facts["findings"]
    assert (first["path"], first["position"], first["kind"]) == (str(path), position, "bad-checksum")


# Concurrent jobs, and bad input


@pytest.mark.parametrize("what", [retain_partitions, compact_partitions, rebuild_partitions])
def test_of_two_jobs_on_a_partition_the_second_names_the_first(log_dir: Path, what: Operation) -> None:
    for index in log_dir.glob("gone-*/*.index"):
        index.unlink()
    with LogManager.open(str(log_dir), clock=ManualClock(NOW_MS)) as manager:
        busy = [manager.open_log(topic, 0) for topic in ("kept", "gone")]
        with busy[0].maintaining("compaction of Alice, process 7"), busy[1].maintaining("retention of Bob, process 8"):
            found = by_partition(outcomes_of(run_over(log_dir), what))
    locked = {name for name, each in found.items() if each.status is OutcomeStatus.FAILED}
    expected = {retain_partitions: {"gone-0"}, compact_partitions: {"kept-0"}}
    assert locked == expected.get(what, {"kept-0", "gone-0"})
    who = {"kept-0": "compaction of Alice, process 7", "gone-0": "retention of Bob, process 8"}
    assert all(f"another process works on the partition: {who[name]}" in str(found[name]) for name in locked)


@pytest.mark.parametrize("what", [retain_partitions, compact_partitions, rebuild_partitions])
def test_a_waiting_job_continues_when_the_other_has_ended(
    log_dir: Path, what: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    topic = "gone" if what is retain_partitions else "kept"
    held, pause = threading.Event(), threading.Event()

    def hold() -> None:
        """Wait until the job reports that it waits."""
        with LogManager.open(str(log_dir), clock=ManualClock(NOW_MS)) as manager:
            log: Log = manager.open_log(topic, 0)
            with log.maintaining("the other"):
                held.set()
                while "waiting for it" not in caplog.text:
                    pause.wait(0.01)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    found = outcomes_of(run_over(log_dir, wait=True), what, topic)
    holder.join()
    assert [each.status for each in found] == [OutcomeStatus.DONE] * len(found)
    assert "the other; try again when it has ended; the lock is held by process" in caplog.text


@pytest.mark.parametrize("what", [retain_partitions, compact_partitions])
def test_in_a_read_only_directory_nothing_is_done_and_the_reason_reported(log_dir: Path, what: Operation) -> None:
    read_only = [fail(each, error=errno.EROFS, lasting=True) for each in ("lock", "lock_shared_with_broker", "rename")]
    before = tree(log_dir)
    run = run_over(log_dir, filesystem=FaultyFileSystem(LocalFileSystem(), read_only))
    found = [each for each in outcomes_of(run, what) if each.status is not OutcomeStatus.DONE]
    assert {each.topic for each in found} == {"gone" if what is retain_partitions else "kept"}
    assert all(each.status is OutcomeStatus.FAILED for each in found)
    assert all(f"{log_dir} is read-only: `commitlog copy` takes a copy" in str(each) for each in found)
    assert tree(log_dir) == before


@pytest.fixture
def few_files() -> Iterator[None]:
    """This process may open forty more files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 40, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_log_may_have_more_segments_than_a_process_may_have_open_files(tmp_path: Path, few_files: None) -> None:
    configs = {"cleanup.policy": "compact,delete", "retention.bytes": "2000", "segment.bytes": "250"}
    with LogManager.open(str(tmp_path / "log"), create=True, clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("t", partitions=1, configs=configs)
        log = manager.open_log("t", 0)
        for n in range(60):
            log.append_records(records([b"%d" % n] * 2, keys=[b"key", b"%d" % n]))
            log.roll()
            for segment in tuple(log.segments)[:-1]:
                segment.close()
    whole = overrides(min_compaction_lag_ms=1, min_cleanable_dirty_ratio=0)
    run = run_over(tmp_path / "log", clock=ManualClock(NOW_MS + 1), overrides=whole)
    for what in (*ALL, compact_partitions):
        (outcome,) = outcomes_of(run, what)
        assert outcome.status is OutcomeStatus.DONE, str(outcome)


@pytest.mark.parametrize("what", ALL)
@pytest.mark.parametrize("dry_run", [True, False])
def test_partitions_that_were_never_written_to_are_done(tmp_path: Path, what: Operation, dry_run: bool) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=2, configs={"cleanup.policy": "compact,delete"})
    before = tree(tmp_path / "log")
    found = outcomes_of(run_over(tmp_path / "log", dry_run=dry_run), what)
    assert [(each.status, each.partition) for each in found] == [(OutcomeStatus.DONE, 0), (OutcomeStatus.DONE, 1)]
    assert tree(tmp_path / "log") == before or not dry_run


def test_a_partition_without_a_directory_is_reported_and_the_others_are_done(log_dir: Path) -> None:
    shutil.rmtree(log_dir / "kept-1")
    for what in ALL:
        found = by_partition(outcomes_of(run_over(log_dir), what, "kept"))
        assert [found[name].status.value for name in ("kept-0", "kept-1", "kept-2")] == ["done", "failed", "done"]
        assert str(log_dir / "kept-1") in str(found["kept-1"])
    assert not (log_dir / "kept-1").exists()


@pytest.mark.parametrize("what", [*ALL, recover_partitions])
def test_a_topic_that_is_deleted_during_a_run_is_no_failure(log_dir: Path, what: Operation) -> None:
    run = run_over(log_dir)
    with run.manager() as manager:
        selection = select_partitions(manager, ["kept"], run.overrides)
        delete_topic(manager, "kept")
    found = list(what(run, selection, in_this_process))
    assert {each.status for each in found} == {OutcomeStatus.DONE}
    assert all(str(each).endswith(": deleted during the run") for each in found)


def test_a_directory_that_is_lost_during_a_run_fails_each_of_its_partitions(log_dir: Path) -> None:
    run = run_over(log_dir)
    selection = selected(run, "kept")
    log_dir.rename(log_dir.with_name("elsewhere"))
    found = verify_partitions(run, selection, in_this_process)
    assert [each.status for each in found] == [OutcomeStatus.FAILED] * 3


def test_topics_are_chosen_by_name_and_by_pattern(log_dir: Path) -> None:
    def chosen(*topics: str) -> list[str]:
        return [str(each) for each in selected(run_over(log_dir), *topics).partitions]

    assert chosen() == ["gone-0", "gone-1", "kept-0", "kept-1", "kept-2"]
    assert chosen("gone") == chosen("g.*", "gone") == ["gone-0", "gone-1"]
    assert chosen("gone, kept") == chosen("gone", "kept") == chosen()
    with pytest.raises(UnknownTopicOrPartitionError, match="did you mean 'kept'"):
        chosen("keept")
    with pytest.raises(InvalidConfigError, match="no topic matches; there are gone, kept"):
        chosen("x.*")
    with pytest.raises(InvalidConfigError, match="neither a topic nor a regular expression"):
        chosen("(gone")
    with pytest.raises(InvalidConfigError, match="--topics is empty"):
        chosen(" ,")  # a variable that was not set must not mean all topics
    with pytest.raises(NotALogDirError):
        selected(run_over(log_dir / "nothing"))


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ("retention.ms", "expected key=value"),
        ("retention.mss=1", "unknown config retention.mss .did you mean 'retention.ms'"),
        ("log.cleaner.thread=1", "unknown config log.cleaner.thread .did you mean 'log.cleaner.threads'"),
        ("retention.ms=soon", "retention.ms = 'soon': must be a whole number of 64 bits"),
        ("log.cleaner.dedupe.buffer.size=0", "log.cleaner.dedupe.buffer.size = '0': must be"),
        ("log.retention.check.interval.ms=0", "must be a whole number of 64 bits, at least 1"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_right_one(log_dir: Path, pair: str, reason: str) -> None:
    with pytest.raises(InvalidConfigError, match=reason):
        selected(run_over(log_dir, overrides=ConfigOverrides.parse([pair])))


def test_an_override_for_topics_wins_and_one_for_the_broker_ranks_last(log_dir: Path) -> None:
    given = ["segment.bytes=4096", "log.segment.bytes=2048", "log.retention.hours=1", "retention.bytes=7"]
    config = selected(run_over(log_dir, overrides=ConfigOverrides.parse(given)), "gone").partitions[0].config
    assert (config.segment_bytes, config.retention_bytes, config.retention_ms) == (4096, 7, 2 * DAY_MS)


@pytest.mark.parametrize("what", ALL)
def test_data_shared_by_all_partitions_is_read_once(log_dir: Path, what: Operation) -> None:
    """For a log without anything to do, only its own files are read, including the leader epochs."""
    disk = FaultyFileSystem(
        LocalFileSystem(), [fail("open", f"*/{name}", call=2**40) for name in ("topics.json", "*-checkpoint")]
    )
    quiet = overrides(retention_ms=-1, min_cleanable_dirty_ratio=1)
    run = run_over(log_dir, filesystem=disk, overrides=quiet)
    selection = selected(run)
    before = [rule.seen for rule in disk.rules]
    assert all(each.status is OutcomeStatus.DONE for each in what(run, selection, in_this_process))
    topics, checkpoints = (rule.seen - seen for rule, seen in zip(disk.rules, before, strict=True))
    of_the_run = 3
    assert topics <= of_the_run
    assert checkpoints <= of_the_run + len(selection.partitions)
