"""Retention of logs on a disk: compared with a broker, beside readers and writers, and what later runs do."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import LogDirLockedError, OffsetOutOfRangeError, PolicyViolationError
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory, Marks
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.retention import apply
from pyspark_commitlog.storage.retention.apply import preview_retention, retain
from pyspark_commitlog.storage.retention.plan import RetentionOptions
from pyspark_commitlog.storage.retention.policies import TimeRetention
from pyspark_commitlog.storage.retention.report import RetentionReport
from pyspark_commitlog.storage.retention.survey import LogFacts, survey_log
from pyspark_commitlog.storage.writing.locks import MAINTENANCE_LOCK_FILE
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.logs.building import (
    NOW_MS,
    append,
    batch,
    config,
    end_transaction,
    open_log,
    rows,
    write_transactional,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "retention"
EXPECTED: Mapping[str, Any] = json.loads((GOLDEN / "expected.json").read_text())
TOPICS: Mapping[str, Any] = EXPECTED["topics"]
MINUTE_MS = 60_000
DAY_MS = 86_400_000
RETENTION_MS = 5 * DAY_MS // 2  # of the logs below, whose records are whole days old


# Compared with a broker


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The broker's log directory at each stage, with the times of its files."""
    root = tmp_path_factory.mktemp("stages")
    for archive in GOLDEN.glob("*.tar.xz"):
        with tarfile.open(archive) as tar:
            tar.extractall(root / archive.name.removesuffix(".tar.xz"), filter="data")
    return root


def names_in(directory: Path, suffixes: tuple[str, ...] = (".log", ".deleted")) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.endswith(suffixes))


def files_of(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def retained(stages: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, RetentionReport]]:
    """A copy of the broker's directory, and our retention's result there at the broker's time."""
    root = tmp_path_factory.mktemp("retained")
    with tarfile.open(GOLDEN / "before.tar.xz") as tar:
        tar.extractall(root, filter="data")
    reports = {}
    with LogManager.open(str(root), clock=ManualClock(EXPECTED["now_ms"])) as manager:
        for topic, facts in TOPICS.items():
            with open_partition(manager, topic) as log:
                if "deleteRecords" in facts:
                    assert log.delete_records(facts["deleteRecords"]) == facts["deleteRecords"]
                reports[topic] = retain(log)
    return root, reports


def open_partition(manager: LogManager, topic: str) -> Log:
    """With the broker's config; its directory has no ``topics.json``."""
    settings = LogConfig.from_mapping({**TOPICS[topic]["configs"], "file.delete.delay.ms": "600000"})
    log = manager.open_log(topic, 0)
    return Log.open(log.context.directory, settings, clock=manager.clock, checkpoints=log.checkpoints)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_segments_are_deleted_by_the_same_rule_as_with_the_broker(
    retained: tuple[Path, dict[str, RetentionReport]], topic: str
) -> None:
    fates = retained[1][topic].plan.removed
    assert [[fate.segment.base_offset, fate.segment.size, fate.rule] for fate in fates] == TOPICS[topic]["deleted"]


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_files_remain_and_wait_as_with_the_broker(
    stages: Path, retained: tuple[Path, dict[str, RetentionReport]], topic: str
) -> None:
    assert names_in(retained[0] / f"{topic}-0") == names_in(stages / "stopped" / f"{topic}-0")


@pytest.mark.parametrize("topic", TOPICS)
def test_a_consumer_finds_the_same_as_at_the_broker(
    retained: tuple[Path, dict[str, RetentionReport]], topic: str
) -> None:
    facts = TOPICS[topic]
    reader = LogManager.open(str(retained[0])).open_reader(topic, 0)
    assert (reader.log_start_offset, reader.log_end_offset) == (facts["beginningOffset"], facts["endOffset"])
    for isolation in Isolation:
        assert [offset for offset, _ in rows(reader, isolation)] == facts[isolation.value]


def test_the_checkpoint_has_the_start_of_each_log(
    stages: Path, retained: tuple[Path, dict[str, RetentionReport]]
) -> None:
    """Kafka lists only those that begin within a segment; for the others the first segment implies it."""

    def starts(root: Path) -> dict[str, int]:
        lines = (root / "log-start-offset-checkpoint").read_text().splitlines()[2:]
        return {line.split()[0]: int(line.split()[2]) for line in lines}

    ours = starts(retained[0])
    assert starts(stages / "stopped").items() <= ours.items()
    assert ours == {topic: facts["beginningOffset"] for topic, facts in TOPICS.items()}


def test_a_brokers_deleted_files_are_removed_at_the_next_opening(stages: Path, tmp_path: Path) -> None:
    """As at the broker's next start: nobody knows when they were renamed, because Kafka does not set their times."""
    with tarfile.open(GOLDEN / "stopped.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    with LogManager.open(str(tmp_path), clock=ManualClock(EXPECTED["now_ms"] + DAY_MS)) as manager:
        for topic in TOPICS:
            manager.open_log(topic, 0)
    for topic in TOPICS:
        assert names_in(tmp_path / f"{topic}-0") == names_in(stages / "restarted" / f"{topic}-0")


def test_a_second_run_at_the_broker_s_end_finds_nothing_to_do(
    retained: tuple[Path, dict[str, RetentionReport]],
) -> None:
    with LogManager.open(str(retained[0]), clock=ManualClock(EXPECTED["now_ms"])) as manager:
        for topic in TOPICS:
            with open_partition(manager, topic) as log:
                report = retain(log)
                assert (report.plan.removed, report.files_removed) == ((), ())
                assert len(report.files_waiting) >= 3 * len(TOPICS[topic]["deleted"])


def test_a_live_broker_s_directory_is_previewed_without_a_change(stages: Path) -> None:
    before = files_of(stages / "before")
    manager = LogManager.open(str(stages / "before"), clock=ManualClock(EXPECTED["now_ms"]))
    for topic, facts in TOPICS.items():
        reader = LogReader.open(
            manager.open_reader(topic, 0).context.directory,
            LogConfig.from_mapping(facts["configs"]),
            clock=manager.clock,
            checkpoints=KeptInMemory(log_start_offset=facts.get("deleteRecords", 0)),
        )
        fates = preview_retention(reader).plan.removed
        assert [[fate.segment.base_offset, fate.segment.size, fate.rule] for fate in fates] == facts["deleted"]
    assert files_of(stages / "before") == before


# Logs made here


def clock_at(now_ms: int = NOW_MS) -> ManualClock:
    return ManualClock(now_ms)


def five_segments(directory: Path, clock: ManualClock, checkpoints: KeptInMemory | None = None, **settings: Any) -> Log:
    """Four closed segments and the active one, one record each, a day apart; the last has the clock's time."""
    log = open_log(
        directory, checkpoints, clock=clock, **{"retention_ms": RETENTION_MS, "segment_index_bytes": 1024, **settings}
    )
    for n in range(5):
        if n:
            log.roll()
        append(log, b"%d" % n, timestamps=clock.now_ms() - (4 - n) * DAY_MS)
    return log


def test_expired_segments_are_deleted_and_readers_notice(tmp_path: Path) -> None:
    checkpoints = KeptInMemory()
    log = five_segments(tmp_path, clock_at(), checkpoints)
    report = retain(log)
    assert [fate.segment.base_offset for fate in report.plan.removed] == [0, 1]
    assert (log.log_start_offset, checkpoints.read().log_start_offset) == (2, 2)
    assert rows(log) == [(2, b"2"), (3, b"3"), (4, b"4")]
    with pytest.raises(OffsetOutOfRangeError, match="2 to 5"):
        log.read(1)
    append(log, b"5")
    assert rows(open_log(tmp_path, checkpoints))[-1] == (5, b"5")


def test_a_dry_run_reports_the_same_and_changes_nothing(tmp_path: Path) -> None:
    clock = clock_at()
    five_segments(tmp_path, clock).close()
    before = files_of(tmp_path)
    settings = config(retention_ms=RETENTION_MS)
    foreseen = preview_retention(LogReader.open(str(tmp_path), settings, clock=clock))
    assert files_of(tmp_path) == before
    log = Log.open(str(tmp_path), settings, clock=clock)
    done = retain(log)
    assert str(foreseen) == str(done).replace(" UTC:", " UTC, a dry run:", 1)


def test_as_of_tomorrow_deletes_what_expires_until_then(tmp_path: Path) -> None:
    log = five_segments(tmp_path, clock_at())
    assert [len(preview_retention(log, as_of_ms=NOW_MS + days * DAY_MS).plan.removed) for days in (-3, 0, 1, 9)] == [
        0,
        2,
        3,
        5,
    ]
    assert len(retain(log, as_of_ms=NOW_MS + DAY_MS).plan.removed) == 3
    assert len(names_in(tmp_path, (".log.deleted",))) == 3  # they wait from now on, not from tomorrow


def test_everything_is_deleted_and_the_log_continues_at_its_offset(tmp_path: Path) -> None:
    clock, checkpoints = clock_at(), KeptInMemory()
    log = five_segments(tmp_path, clock, checkpoints)
    clock.advance(9 * DAY_MS)
    report = retain(log)
    assert report.plan.rolls
    assert names_in(tmp_path, (".log",)) == ["00000000000000000005.log"]
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert retain(log).plan.removed == ()
    append(log, b"next")
    log.close()
    assert rows(open_log(tmp_path, checkpoints, clock=clock)) == [(5, b"next")]


def test_files_are_renamed_first_and_removed_by_a_later_run(tmp_path: Path) -> None:
    clock, checkpoints = clock_at(), KeptInMemory()
    log = five_segments(tmp_path, clock, checkpoints, file_delete_delay_ms=60_000)
    retain(log)
    waiting = names_in(tmp_path, (".deleted",))
    assert waiting == sorted(
        f"{base:020}.{kind}.deleted"
        for base, kinds in ((0, ("log", "index", "timeindex")), (1, ("log", "index", "timeindex", "snapshot")))
        for kind in kinds
    )
    clock.advance(59_999)
    log.close()
    log = Log.open(str(tmp_path), log.context.config, clock=clock, checkpoints=checkpoints)  # another process
    report = retain(log)
    assert names_in(tmp_path, (".deleted",)) == waiting
    assert [file.name for file in report.files_waiting] == waiting
    clock.advance(1)
    report = retain(log)
    assert names_in(tmp_path, (".deleted",)) == []
    assert [file.name for file in report.files_removed] == waiting
    assert "removed from disk: 7 files" in str(report)


def test_without_a_delay_the_files_are_removed_at_once(tmp_path: Path) -> None:
    retain(five_segments(tmp_path, clock_at(), file_delete_delay_ms=0))
    assert names_in(tmp_path, (".deleted",)) == []


def test_a_delayed_removal_leaves_new_files_of_the_same_name(tmp_path: Path) -> None:
    """KAFKA-12964: the log was cut to its beginning and written again before the removal was due."""
    clock = clock_at()
    log = five_segments(tmp_path, clock)
    retain(log)
    log.truncate_fully_and_start_at(0)
    append(log, b"new 0")
    log.roll()
    append(log, b"new 1")
    snapshot = (tmp_path / "00000000000000000001.snapshot").read_bytes()
    assert (tmp_path / "00000000000000000001.snapshot.deleted").exists()
    clock.advance(60_000)
    assert len(retain(log).files_removed) == 7
    assert (tmp_path / "00000000000000000001.snapshot").read_bytes() == snapshot
    assert rows(log) == [(0, b"new 0"), (1, b"new 1")]


def test_a_reader_that_has_the_file_open_reads_on(tmp_path: Path) -> None:
    clock = clock_at()
    log = five_segments(tmp_path, clock, file_delete_delay_ms=0)
    reader = LogReader.open(str(tmp_path), log.context.config, clock=clock)
    fetched = reader.read(0)
    assert fetched is not None
    pieces = reader.records(0, 5)
    next(pieces)
    retain(log)
    assert fetched.records(0, 1).values is not None
    assert fetched.records(0, 1).values.to_list() == [b"0"]  # type: ignore[union-attr]
    again = reader.read(0)
    assert again is not None
    assert again.records(0, 1).offsets.tolist() == [0]


def test_a_reader_that_reaches_a_deleted_file_learns_the_log_start(tmp_path: Path) -> None:
    clock, checkpoints = clock_at(), KeptInMemory()
    log = five_segments(tmp_path, clock, checkpoints)
    reader = LogReader.open(str(tmp_path), log.context.config, clock=clock, checkpoints=checkpoints)
    retain(log)
    clock.advance(1000)
    with pytest.raises(OffsetOutOfRangeError, match="2 to 5"):
        reader.read(1)
    assert [offset for offset, _ in rows(reader)] == [2, 3, 4]


def test_another_writer_notices_deleted_segments(tmp_path: Path) -> None:
    clock, checkpoints = clock_at(), KeptInMemory()
    log = five_segments(tmp_path, clock, checkpoints)
    other = open_log(tmp_path, checkpoints, clock=clock, retention_ms=RETENTION_MS)
    retain(log)
    append(other, b"5")
    other.checkpoint()
    assert checkpoints.read().log_start_offset == 2
    assert [fate.segment.base_offset for fate in retain(other).plan.fates] == [2, 3, 4]
    assert [offset for offset, _ in rows(other)] == [2, 3, 4, 5]


def test_records_appended_by_another_process_since_keep_the_active_segment(tmp_path: Path) -> None:
    """The plan saw one old segment alone; when the plan is carried out, its newest record is recent."""
    clock, checkpoints = clock_at(), KeptInMemory()
    log = five_segments(tmp_path, clock, checkpoints)
    other = open_log(tmp_path, checkpoints, clock=clock, segment_ms=10**12)
    clock.advance(9 * DAY_MS)
    roll = log.roll

    def roll_late() -> None:
        append(other, b"now", timestamps=clock.now_ms())
        roll()

    log.roll = roll_late  # type: ignore[method-assign]
    retain(log)
    assert rows(log) == [(4, b"4"), (5, b"now")]


def test_while_another_process_works_on_the_segments_nothing_is_done(tmp_path: Path) -> None:
    log = five_segments(tmp_path, clock_at())
    other = open_log(tmp_path)
    with (
        other.maintaining("compaction since noon"),
        pytest.raises(LogDirLockedError, match=MAINTENANCE_LOCK_FILE + ": .*: compaction since noon"),
    ):
        retain(log)
    assert len(rows(log)) == 5
    assert len(retain(log).plan.removed) == 2


def test_a_second_process_during_retention_learns_the_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, other = five_segments(tmp_path, clock_at()), open_log(tmp_path)
    told: list[str] = []

    def survey_while_another_comes(reader: LogReader) -> LogFacts:
        with pytest.raises(LogDirLockedError) as refused:
            retain(other)
        told.append(str(refused.value))
        return survey_log(reader)

    monkeypatch.setattr(apply, "survey_log", survey_while_another_comes)
    retain(log)
    assert "another process works on the partition: retention since 2023-11-14 22:13:20.000 UTC; " in told[0]


def test_an_open_transaction_keeps_its_records_and_all_later_ones(tmp_path: Path) -> None:
    clock = clock_at()
    log = open_log(tmp_path, clock=clock, retention_ms=DAY_MS)
    append(log, b"old", timestamps=NOW_MS - 2 * DAY_MS)
    log.roll()
    write_transactional(log, 7, 0, b"undecided")
    log.roll()
    append(log, b"newer")
    clock.advance(9 * DAY_MS)
    assert [fate.segment.base_offset for fate in retain(log).plan.removed] == [0]
    assert retain(log).plan.kept[0].rule == "open transaction"
    end_transaction(log, 7, commit=False)  # its marker is of NOW_MS, too
    assert len(retain(log).plan.removed) == 2
    assert rows(log) == []


def test_a_group_that_lags_keeps_what_it_has_not_read(tmp_path: Path) -> None:
    clock = clock_at()
    log = five_segments(tmp_path, clock)
    clock.advance(9 * DAY_MS)
    report = retain(log, RetentionOptions({"billing": 3, "audit": 5}))
    assert [offset for offset, _ in rows(log)] == [3, 4]
    assert "warning: 2 segments" in str(report)
    assert "group billing, 2 offsets behind" in str(report)
    assert len(retain(log, RetentionOptions({"billing": 5, "audit": 5})).plan.removed) == 2


def test_of_a_compacted_topic_only_segments_below_the_log_start_are_deleted(tmp_path: Path) -> None:
    """KAFKA-7400: these segments were never deleted. The log start was raised while the topic had ``delete``."""
    clock, checkpoints = clock_at(), KeptInMemory()
    five_segments(tmp_path, clock, checkpoints).close()
    checkpoints.write(Marks(5, 3))
    log = open_log(tmp_path, checkpoints, clock=clock, cleanup_policy="compact", retention_ms=1, retention_bytes=0)
    assert [fate.segment.base_offset for fate in retain(log).plan.removed] == [0, 1, 2]
    assert [offset for offset, _ in rows(log)] == [3, 4]


def test_a_policy_of_ones_own_cannot_delete_from_a_topic_that_is_only_compacted(tmp_path: Path) -> None:
    five_segments(tmp_path, clock_at()).close()
    log = open_log(tmp_path, clock=clock_at(), cleanup_policy="compact")
    with pytest.raises(PolicyViolationError):
        retain(log, RetentionOptions(policies=(TimeRetention(0),)))
    assert len(rows(log)) == 5


def test_a_log_start_within_the_active_segment_stops_nothing(tmp_path: Path) -> None:
    """KAFKA-9133 was a similar fault in the cleaner."""
    log = five_segments(tmp_path, clock_at(), retention_ms=-1)
    append(log, b"5")
    log.delete_records(5)
    assert [fate.segment.base_offset for fate in retain(log).plan.removed] == [0, 1, 2, 3]
    assert rows(log) == [(5, b"5")]


def test_an_impossible_time_index_deletes_nothing(tmp_path: Path) -> None:
    """Zeros, as a power cut may leave them, would mean that all records are from 1970."""
    clock = clock_at()
    log = five_segments(tmp_path, clock, retention_ms=5 * DAY_MS)
    log.close()
    for path in tmp_path.glob("*.timeindex"):
        path.write_bytes(bytes(path.stat().st_size))
    log = open_log(tmp_path, KeptInMemory(recovery_point=5), clock=clock, retention_ms=5 * DAY_MS)
    assert retain(log).plan.removed == ()
    ages = [(NOW_MS - segment.largest_timestamp_ms) // DAY_MS for segment in survey_log(log).segments]
    assert ages == [4, 3, 2, 1, 0]


def test_a_time_index_with_too_early_times_deletes_nothing(tmp_path: Path) -> None:
    """It has lost its end, and the rest is older than the segment's newest record."""
    clock = clock_at()
    settings: dict[str, Any] = {"retention_ms": 5 * DAY_MS, "index_interval_bytes": 0}
    log = open_log(tmp_path, clock=clock, **settings)
    for age_days in (7, 6, 1, 1):
        append(log, b"x", timestamps=NOW_MS - age_days * DAY_MS)
    log.roll()
    log.close()
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(path.read_bytes()[:12])
    log = open_log(tmp_path, KeptInMemory(recovery_point=4), clock=clock, **settings)
    assert retain(log).plan.removed == ()
    assert log.log_start_offset == 0


def test_size_counts_every_segment_once(tmp_path: Path) -> None:
    """The size of the log in the report is the size of its files (KAFKA-20732, KAFKA-15479)."""
    log = five_segments(tmp_path, clock_at(), retention_ms=-1, retention_bytes=150)
    retain(log)
    sizes = [path.stat().st_size for path in tmp_path.glob("*.log")]
    facts = survey_log(log)
    assert facts.size == sum(sizes)
    assert sum(sizes) - sizes[0] < 150 <= sum(sizes)


# The report


def write_canary(log: Log, clock: ManualClock, until_ms: int) -> None:
    """A record of worked example 1 every 5 seconds, before ``until_ms``."""
    while clock.now_ms() < until_ms:
        message_id = 1 + 3 * log.log_end_offset
        value = b'{"producerId":"strimzi-canary-client","messageId":%d,"timestamp":%d}' % (message_id, clock.now_ms())
        append(log, value, timestamps=clock.now_ms())
        clock.advance(5000)


def test_the_report_states_until_when_a_segment_is_kept_and_why(tmp_path: Path) -> None:
    """Worked example 4: the first record of a segment can live for 25 minutes, and here it does."""
    clock = clock_at(1_639_132_508_991)
    start_ms = clock.now_ms()
    log = open_log(
        tmp_path / "canary-0", clock=clock, segment_bytes=16384, retention_ms=600_000, file_delete_delay_ms=60_000
    )
    write_canary(log, clock, start_ms + 9 * MINUTE_MS + 10_000)
    assert log.segments.base_offsets == [0, 109]  # rolled after 9 minutes
    text = str(retain(log)).splitlines()
    assert text[0] == "canary-0, as of 2021-12-10 10:44:18.991 UTC: nothing to delete; keeping 2 segments, 16,464 bytes"
    assert text[1].strip() == (
        "kept until 2021-12-10 10:54:08.991 UTC: 1 segment, offsets 0 to 108, 16,314 bytes: retention.ms = 600,000, "
        "and its newest record is from 2021-12-10 10:44:08.991 UTC; off the disk by 2021-12-10 11:00:08.991 UTC at the "
        "latest, when its first record is 25 min old: up to 5 min until the next check, 1 min as .deleted"
    )
    write_canary(log, clock, start_ms + 19 * MINUTE_MS)  # 10 minutes of retention after the last record
    assert retain(log).plan.removed == ()
    write_canary(log, clock, start_ms + 24 * MINUTE_MS)  # the next check
    assert "by retention.ms: 1 segment, offsets 0 to 108" in str(retain(log))
    write_canary(log, clock, start_ms + 25 * MINUTE_MS)
    retain(log)
    assert not any(path.name.startswith("00000000000000000000.") for path in (tmp_path / "canary-0").iterdir())
    assert log.log_start_offset == 109


def test_the_report_says_if_a_transaction_marker_keeps_a_segment(tmp_path: Path) -> None:
    """History that was loaded two days ago; its records are ten years old."""
    clock, old_ms = clock_at(), NOW_MS - 3650 * DAY_MS
    log = open_log(tmp_path / "t-0", clock=clock, retention_ms=7 * DAY_MS, segment_ms=2**62)
    for n in range(2):
        log.append(batch(b"x", producer_id=1, base_sequence=n, transactional=True, timestamps=old_ms + n))
        log.end_transaction(Producer(1, 0), commit=True)
        log.roll()
    append(log, b"y", timestamps=NOW_MS)
    clock.advance(2 * DAY_MS)
    text = str(retain(log)).splitlines()
    assert text[0].endswith("nothing to delete; keeping 3 segments, 363 bytes")
    told = (
        "its newest batch, the end of a transaction, is from 2023-11-14 22:13:20.000 UTC, "
        "while records beside it are from"
    )
    assert f"{told} 2013-11-16 22:13:20.000 UTC; off the disk by" in text[1]
    assert f"{told} 2013-11-16 22:13:20.001 UTC; off the disk by" in text[2]
    assert "newest record is from 2023-11-14" in text[3]
    clock.advance(6 * DAY_MS)
    assert len(retain(log).plan.removed) == 3


def test_a_long_log_is_reported_in_a_few_lines(tmp_path: Path) -> None:
    clock = clock_at()
    log = open_log(tmp_path, clock=clock, retention_ms=30 * DAY_MS)
    for n in range(30):
        append(log, b"x", timestamps=NOW_MS - (59 - 2 * n) * DAY_MS)
        log.roll()
    text = str(retain(log)).splitlines()
    assert len(text) <= 8
    assert text[1].strip().startswith("by retention.ms: 15 segments, offsets 0 to 14")
    assert text[-1].strip().startswith("also kept: 13 segments, offsets 18 to 29")
    assert np.all([len(line) < 500 for line in text])
