"""Verification: silent about directories that real brokers closed cleanly, and naming everything that is wrong."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.errors import LogStoreError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.checkpoints import decode_snapshot, encode_snapshot
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.producer_state import PRODUCER_ID_EXPIRATION_MS
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.verify.findings import Finding, Kind, Severity
from pyspark_commitlog.storage.verify.log import (
    CheckpointedOffsets,
    LogFindings,
    join,
    plan_verification,
    read_checkpoints,
    verify_log,
)
from pyspark_commitlog.storage.verify.segment import verify_segment
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.kafka import broker_dirs
from tests.support.logs import record_sets
from tests.support.logs.building import NOW_MS, append, batch, end_transaction, open_log, rows, write_transactional

SOUND_STAGES = (
    "plain/final",
    "codecs/final",
    "idempotent/final",
    "transactions/final",
    "transactions/restarted",
    "times/final",
    *(
        f"{name}/{stage}-{n}"
        for name in ("compaction", "compaction-small-buffers", "4-compaction-small-buffers")
        for n in (1, 2, 3)
        for stage in ("before", "after")
    ),
    *(f"retention/{stage}" for stage in ("before", "deleting-live", "stopped", "restarted")),
    "recovery-crash/unclean",  # killed: indexes are padded, and the tail was never synced
    "recovery-crash/recovered",
    "groups/final",
    "groups/cleaned",
    "rolls/final",
    "leader-epochs/before-last-restart",
    "leader-epochs/final",
    "recovery-damage/before-damage",
    "4-codecs/final",
    "4-new-groups/live",
    "4-new-groups/final",
    "4-plain/final",
    "4-transactions-v2/final",
    "4-transactions-v2/restarted",
)
BROKER_ONLY = "__cluster_metadata-0"


def look(directory: Path, configs: dict[str, str] | None = None) -> LogContext:
    config = LogConfig.from_mapping(configs or {})
    return LogContext(str(directory), config, SystemClock(), LocalFileSystem(), writable=False)


def verified(partition: Path, configs: dict[str, str] | None = None) -> tuple[list[Finding], LogFindings]:
    """A partition as a broker left it, with its checkpoints."""
    context = look(partition, configs)
    told, findings = read_checkpoints(context, str(partition.parent), *broker_dirs.topic_partition(partition.name))
    result = verify_log(context, told)
    return [*findings, *result.findings], result


def verified_apart(partition: Path) -> LogFindings:
    """Like a job that knows no topic's config: segments apart, connected only by snapshots."""
    context = look(partition)
    told, _ = read_checkpoints(context, str(partition.parent), *broker_dirs.topic_partition(partition.name))
    segments, of_names = plan_verification(context, told)
    return join(context, told, [verify_segment(context, segment) for segment in segments], of_names)


def partitions(log_dir: Path) -> list[Path]:
    found = [path for path in sorted(log_dir.iterdir()) if path.is_dir() and path.name != BROKER_ONLY]
    return [path for path in found if file_names.parse_partition_directory(path.name)]


def brief(findings: list[Finding] | tuple[Finding, ...]) -> list[tuple[str, str, int | None, int | None]]:
    return [(each.kind.label, each.path.rpartition("/")[2], each.position, each.offset) for each in findings]


def kinds(result: LogFindings) -> set[Kind]:
    return {finding.kind for finding in result.findings}


# Directories that brokers closed cleanly


@pytest.mark.parametrize("stage", SOUND_STAGES)
def test_nothing_is_found_in_a_brokers_clean_directory(stage: str) -> None:
    topics = broker_dirs.settings(stage.partition("/")[0])["topics"]
    found = []
    for path in partitions(broker_dirs.stage(stage) / "log"):
        topic = broker_dirs.topic_partition(path.name)[0]
        found += verified(path, topics.get(topic, {}).get("configs", {}))[0]
    assert [str(finding) for finding in found] == []


@pytest.mark.parametrize("stage", [*SOUND_STAGES, "rolls/overflow-after"])
def test_nothing_is_damaged_in_it_where_each_segment_is_checked_by_itself_and_no_config_is_known(stage: str) -> None:
    """Repeated compaction drops the index entries of transactions without records, but not all their markers."""
    found = []
    for path in partitions(broker_dirs.stage(stage) / "log"):
        found += [each for each in verified_apart(path).findings if each.severity is not Severity.NOTE]
    assert [str(finding) for finding in found] == []


def test_nothing_is_found_in_a_clean_directory_of_a_2_8_broker() -> None:
    found, records = [], 0
    for path in partitions(broker_dirs.legacy() / "log"):
        findings, result = verified(path)
        found += findings
        records += result.records
    assert [str(finding) for finding in found] == []
    assert records > 10_000


@pytest.mark.parametrize("stage", ["plain/final", "transactions/final"])
def test_every_record_is_counted_once_and_no_marker(stage: str) -> None:
    expected = broker_dirs.consumed(stage)
    for path in partitions(broker_dirs.stage(stage) / "log"):
        if path.name in expected:
            assert verified(path)[1].records == len(expected[path.name]["read_uncommitted"]["records"])


def test_a_compacted_log_is_recognized_without_its_config() -> None:
    log_dir = broker_dirs.stage("compaction/after-2") / "log"
    found = [str(each) for path in partitions(log_dir) for each in verified(path)[0]]
    assert found == []


# Damaged directories


def number(offset: int, suffix: str) -> str:
    return file_names.segment_file(offset, suffix)


def aborts(base: int, *offsets: int) -> list[tuple[str, str, int | None, int | None]]:
    return [("missing-abort", number(base, ".txnindex"), None, offset) for offset in offsets]


def entries(label: str, name: str, *positions: int) -> list[tuple[str, str, int | None, int | None]]:
    return [(label, name, position, None) for position in positions]


DAMAGES: dict[str, list[tuple[str, str, int | None, int | None]]] = {
    "bad-active-index": entries("bad-offset-index", number(170, ".index"), 24),
    "bad-index": entries("bad-offset-index", number(109, ".index"), 32),
    "bad-snapshot": [("bad-snapshot", number(213, ".snapshot"), 2, None)],
    "bad-txnindex": [
        ("bad-txn-index", number(0, ".txnindex"), 102, None),
        ("bad-txn-index", number(111, ".txnindex"), 0, None),
        *aborts(111, 153),
    ],
    "empty-active": [
        *entries("bad-offset-index", number(161, ".index"), *range(0, 64, 8)),
        *entries("bad-time-index", number(161, ".timeindex"), *range(0, 72, 12)),
        ("bad-snapshot", number(215, ".snapshot"), None, 215),
        ("records-missing", number(161, ".log"), 0, 161),
    ],
    "extra-garbage": [("unsynced-tail", number(159, ".log"), 2861, 206)],
    "flip-last": [
        ("bad-checksum", number(159, ".log"), 3145, 210),
        ("bad-snapshot", number(219, ".snapshot"), None, 219),
    ],
    "flip-middle": [("bad-checksum", number(105, ".log"), 2082, 138)],
    "future-epoch": [("bad-epochs", "leader-epoch-checkpoint", None, 99999999)],
    "half-swap": [
        ("unfinished-swap", "d-half-swap-0", None, 54),
        *entries("bad-time-index", number(54, ".timeindex.swap"), 0),
    ],
    "missing-middle": [("missing-segment", "d-missing-middle-0", None, 111)],
    "no-epoch": [("bad-epochs", "leader-epoch-checkpoint", None, None)],
    "no-index": [("missing-index", number(base, ".index"), None, None) for base in (105, 222)],
    "no-snapshots": [("missing-snapshot", number(163, ".snapshot"), None, 163)],
    "no-timeindex": [("missing-index", number(base, ".timeindex"), None, None) for base in (106, 159)],
    "no-txnindex": [
        *aborts(0, 14, 29, 51),
        *aborts(60, 70, 95, 111, 112),
        *aborts(113, 166, 167),
        *aborts(168, 177, 209),
    ],
    "ok": [],
    "overflow": [
        *(
            ("offset-overflow", number(163, ".log"), position, offset)
            for position, offset in ((3088, 2147483816), (3166, 2147483817), (3244, 2147483818))
        ),
        ("missing-index", number(163, ".index"), None, None),
        ("missing-index", number(163, ".timeindex"), None, None),
        ("bad-txn-index", number(163, ".txnindex"), 34, None),
        *aborts(163, 2147483817),
        ("offset-gap", number(163, ".log"), 3088, 213),
    ],
    "short-timeindex": [
        *entries("bad-time-index", number(107, ".timeindex"), 72, 72),  # its length, and the entry that must be last
        *entries("bad-time-index", number(163, ".timeindex"), 36),
    ],
    "stray-cleaned": [("unfinished-swap", "d-stray-cleaned-0", None, base) for base in (55, 113)],
    "stray-index": [("orphan-index", number(113, kind), None, None) for kind in (".index", ".timeindex", ".txnindex")],
    "stray-swap": [
        ("unfinished-swap", "d-stray-swap-0", None, 53),
        *entries("bad-time-index", number(53, ".timeindex.swap"), 0),
    ],
    "stray-swap-no-txnindex": [
        ("unfinished-swap", "d-stray-swap-no-txnindex-0", None, 55),
        *entries("bad-time-index", number(55, ".timeindex.swap"), 0),
        *aborts(55, 154, 155, 169),
    ],
    "torn": [
        ("torn-tail", number(174, ".log"), 2765, 221),
        ("bad-snapshot", number(228, ".snapshot"), None, 228),
    ],
    "torn-header": [
        ("torn-tail", number(163, ".log"), 2105, 194),
        ("bad-snapshot", number(200, ".snapshot"), None, 200),
    ],
    "zeros": [("unsynced-tail", number(176, ".log"), 3219, 228)],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_found_where_it_is(damage: str) -> None:
    partition = broker_dirs.stage("recovery-damage/damaged") / "log" / f"d-{damage}-0"
    assert brief(verified(partition)[0]) == DAMAGES[damage]


@pytest.mark.parametrize("name", ["no-txnindex", "bad-txnindex", "stray-swap-no-txnindex", "overflow"])
def test_aborts_without_an_entry_are_found_where_each_segment_is_checked_by_itself(name: str) -> None:
    """Some of their records are in an earlier segment."""
    partition = broker_dirs.stage("recovery-damage/damaged") / "log" / f"d-{name}-0"
    expected = [each for each in DAMAGES[name] if each[0] == "missing-abort"]
    assert [each for each in brief(verified_apart(partition).findings) if each[0] == "missing-abort"] == expected


def test_every_damage_that_was_made_is_in_the_table() -> None:
    assert set(broker_dirs.settings("recovery-damage")["damage"]) == set(DAMAGES)


@pytest.mark.parametrize("case", ["bad-recovery-point", "bad-log-start"])
def test_a_checkpoint_that_cannot_be_read_is_named_and_the_log_checked(case: str) -> None:
    log_dir = broker_dirs.stage(f"recovery-fatal/{case}-before") / "log"
    for path in partitions(log_dir):
        findings, result = verified(path)
        assert Kind.BAD_CHECKPOINT in {finding.kind for finding in findings}
        assert result.batches


# A small log made here


def small_log(directory: Path) -> KeptInMemory:
    """Several segments, two producers, an aborted transaction, closed."""
    marks = KeptInMemory()
    with open_log(directory, marks, segment_bytes=900, index_interval_bytes=64) as log:
        for n in range(4):
            append(log, b"plain %d" % n, b"second", timestamps=1_700_000_000_000 + n)
            write_transactional(log, 7, 2 * n, b"open %d" % n, b"x")
            end_transaction(log, 7, commit=n % 2 == 0)
            log.append(batch(b"idempotent", producer_id=9, base_sequence=n))
        log.checkpoint()
    return marks


def told(marks: KeptInMemory) -> CheckpointedOffsets:
    return CheckpointedOffsets(*marks.read())


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir() if path.is_file()}


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def flip(path: Path, position: int, bits: int = 0x10) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.write_bytes(data)


def test_a_log_of_ours_is_sound_and_verifying_it_changes_nothing(tmp_path: Path) -> None:
    marks = small_log(tmp_path / "log")
    before = contents(tmp_path / "log")
    result = verify_log(look(tmp_path / "log"), told(marks))
    assert result.findings == ()
    assert (result.segments, result.records, result.batches) == (len(logs(tmp_path / "log")), 20, 16)
    assert result.segments > 1
    assert contents(tmp_path / "log") == before


def test_segments_checked_separately_give_the_same_as_the_log(tmp_path: Path) -> None:
    """Like one task per segment: from pickles, last one first."""
    partition = broker_dirs.stage("recovery-damage/damaged") / "log" / "d-flip-middle-0"
    context = look(partition)
    checkpointed, _ = read_checkpoints(context, str(partition.parent), "d-flip-middle", 0)
    segments, of_names = plan_verification(context, checkpointed)
    results = [pickle.loads(pickle.dumps(verify_segment(context, segment))) for segment in reversed(segments)]
    assert join(context, checkpointed, results[::-1], of_names) == verify_log(context, checkpointed)


def test_records_after_damage_are_still_checked(tmp_path: Path) -> None:
    """A batch in the middle of a segment is damaged, and another one in the next segment."""
    marks = small_log(tmp_path)
    first, second = logs(tmp_path)[:2]
    headers = batches_of(first)
    flip(first, headers[1] + 70)
    flip(second, 62)
    result = verify_log(look(tmp_path), told(marks))
    damage = result.of(Severity.DAMAGE)
    assert [(each.kind, each.path, each.position) for each in damage] == [
        (Kind.BAD_CHECKSUM, str(first), headers[1]),
        (Kind.BAD_CHECKSUM, str(second), 0),
    ]
    assert result.batches == 14


def rolled_log(directory: Path) -> KeptInMemory:
    """Four segments of three batches of two records each: offsets 0 to 23."""
    marks = KeptInMemory()
    with open_log(directory, marks) as log:
        for n in range(12):
            if n and n % 3 == 0:
                log.roll()
            append(log, b"one", b"two")
        log.checkpoint()
    return marks


def lost(result: LogFindings) -> list[tuple[int, int] | None]:
    return [each.lost for each in result.of(Severity.DAMAGE)]


def test_the_offsets_that_damage_loses_are_in_the_findings(tmp_path: Path) -> None:
    """A batch in the middle of a segment, the end of the next one, and the whole third one."""
    marks = rolled_log(tmp_path)
    first, second, third, _ = logs(tmp_path)
    flip(first, batches_of(first)[1] + 70)
    flip(second, batches_of(second)[-1] + 70)
    third.unlink()
    result = verify_log(look(tmp_path), told(marks))
    assert lost(result) == [(2, 3), (10, 17)]
    assert f"offsets 2 to 3 are lost [{Kind.BAD_CHECKSUM.label}]" in str(result.of(Severity.DAMAGE)[0])


@pytest.mark.parametrize("hurt", [0, 1, 2])
def test_the_bytes_of_a_damaged_batch_do_not_count_as_sound(tmp_path: Path, hurt: int) -> None:
    """The first, the middle or the last batch of a segment; all batches are of one size."""
    marks = rolled_log(tmp_path)
    whole = sum(path.stat().st_size for path in logs(tmp_path))
    first = logs(tmp_path)[0]
    flip(first, batches_of(first)[hurt] + 70)
    result = verify_log(look(tmp_path), told(marks))
    assert (result.batches, result.sound_bytes) == (11, whole // 12 * 11)


def test_a_missing_segment_is_found_after_one_that_is_damaged_in_its_middle(tmp_path: Path) -> None:
    marks = rolled_log(tmp_path)
    first, second, *_ = logs(tmp_path)
    flip(first, batches_of(first)[1] + 70)
    second.unlink()
    assert lost(verify_log(look(tmp_path), told(marks))) == [(2, 3), (6, 11)]


def test_a_time_entry_for_damaged_records_is_no_finding_of_its_own(tmp_path: Path) -> None:
    """The largest timestamp is in the damaged batch, and the entry contains it."""
    marks = KeptInMemory()
    with open_log(tmp_path, marks, index_interval_bytes=0) as log:
        for late_ms in (0, 1000, 10, 20):
            append(log, b"value", timestamps=NOW_MS + late_ms)
        log.checkpoint()
    (path,) = logs(tmp_path)
    damaged = batches_of(path)[1]
    flip(path, damaged + 70)
    findings = verify_log(look(tmp_path), told(marks)).findings
    assert [(each.kind, each.position) for each in findings] == [(Kind.BAD_CHECKSUM, damaged)]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """The snapshot at the end of a log in which producer 9 wrote once; it was written an hour later."""
    with open_log(tmp_path) as log:
        append(log, b"plain")
        log.append(batch(b"idempotent", producer_id=9, base_sequence=0))
    path = tmp_path / number(2, ".snapshot")
    at(path, NOW_MS + 3_600_000)
    return path


def at(path: Path, modified_ms: int) -> None:
    os.utime(path, ns=(modified_ms * 10**6,) * 2)


def snapshot_findings(path: Path) -> list[str]:
    findings = verify_log(look(path.parent), CheckpointedOffsets(2, 0)).findings
    assert {(each.kind, each.path) for each in findings} <= {(Kind.BAD_SNAPSHOT, str(path))}
    return [each.what for each in findings]


def test_a_producer_that_only_the_snapshot_has_is_reported(snapshot: Path) -> None:
    entries = decode_snapshot(snapshot.read_bytes())
    snapshot.write_bytes(encode_snapshot([*entries, entries[0]._replace(producer_id=77, producer_epoch=3)]))
    (what,) = snapshot_findings(snapshot)
    assert what == "producer 77 (epoch 3) is in the snapshot, but not in the log"


def test_a_producer_may_be_missing_in_the_snapshot_only_if_it_was_idle_for_a_day(snapshot: Path) -> None:
    assert snapshot_findings(snapshot) == []
    snapshot.write_bytes(encode_snapshot([]))
    at(snapshot, NOW_MS + PRODUCER_ID_EXPIRATION_MS - 1)
    (what,) = snapshot_findings(snapshot)
    assert what == "producer 9 (epoch 0) wrote up to offset 1, but is not in the snapshot"
    at(snapshot, NOW_MS + PRODUCER_ID_EXPIRATION_MS)
    assert snapshot_findings(snapshot) == []


def batches_of(path: Path) -> list[int]:
    """Positions of the batches of an intact log."""
    data, positions, at = path.read_bytes(), [], 0
    while at < len(data):
        positions.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return positions


@pytest.mark.parametrize("length", [b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\0\x60", b"\xff\xff\xff\xff"])
def test_a_wrong_length_hides_one_batch_only(tmp_path: Path, length: bytes) -> None:
    marks = small_log(tmp_path)
    path = logs(tmp_path)[0]
    at = batches_of(path)[2]
    data = bytearray(path.read_bytes())
    data[at + 8 : at + 12] = length
    path.write_bytes(data)
    result = verify_log(look(tmp_path), told(marks))
    assert [each.position for each in result.of(Severity.DAMAGE)] == [at]
    assert result.batches == 15


def test_a_message_format_of_the_future_is_named_and_skipped(tmp_path: Path) -> None:
    marks = small_log(tmp_path)
    path = logs(tmp_path)[0]
    at = batches_of(path)[1]
    flip(path, at + 16, 0x01)
    result = verify_log(look(tmp_path), told(marks))
    assert [(each.kind, each.position) for each in result.of(Severity.DAMAGE)] == [(Kind.UNKNOWN_MAGIC, at)]
    assert result.batches == 15


def test_an_aborted_transaction_without_records_needs_no_entry_and_one_with_records_in_another_segment_does(
    tmp_path: Path,
) -> None:
    """As after compaction: the batches of a transaction are gone or empty, and its marker still exists."""
    marks = KeptInMemory()
    with open_log(tmp_path, marks) as log:
        write_transactional(log, 7, 0, b"aborted")
        log.roll()
        end_transaction(log, 7, commit=False)
    first, *others = logs(tmp_path)
    for index in tmp_path.glob("*.txnindex"):
        index.unlink()
    context = look(tmp_path, {"cleanup.policy": "compact"})

    def aborts_found() -> list[int | None]:
        segments, of_names = plan_verification(context, told(marks))
        found = join(context, told(marks), [verify_segment(context, segment) for segment in segments], of_names)
        return [each.offset for each in found.findings if each.kind is Kind.MISSING_ABORT]

    assert others
    assert aborts_found() == [1]
    first.write_bytes(b"")  # what a segment is whose records a compaction removed
    assert aborts_found() == []


def test_an_unreadable_segment_does_not_stop_the_check_of_the_others(tmp_path: Path) -> None:
    marks = small_log(tmp_path)
    path = str(logs(tmp_path)[0])
    disk = FaultyFileSystem(LocalFileSystem(), [fail("read", path, lasting=True)])
    context = LogContext(str(tmp_path), LogConfig(), ManualClock(), disk, writable=False)
    result = verify_log(context, told(marks))
    assert [(each.kind, each.path) for each in result.findings] == [(Kind.UNREADABLE, path)]
    assert result.batches == sum(len(batches_of(each)) for each in logs(tmp_path)[1:])


def test_a_segment_that_vanishes_during_the_check_is_no_damage(tmp_path: Path) -> None:
    marks = small_log(tmp_path)
    segments, _ = plan_verification(look(tmp_path), told(marks))
    logs(tmp_path)[0].unlink()
    found = verify_segment(look(tmp_path), segments[0]).findings
    assert [(each.kind, each.severity) for each in found] == [(Kind.VANISHED, Severity.NOTE)]


@pytest.mark.parametrize("kept", [5, 30, 71])
def test_what_a_writer_has_not_finished_is_no_damage(tmp_path: Path, kept: int) -> None:
    marks = small_log(tmp_path)
    with logs(tmp_path)[-1].open("ab") as log:
        log.write(batch(b"half")[:kept].tobytes())
    result = verify_log(look(tmp_path), told(marks))
    assert [(each.kind, each.severity) for each in result.findings] == [(Kind.UNSYNCED_TAIL, Severity.NOTE)]


def test_a_torn_tail_below_the_recovery_point_is_damage(tmp_path: Path) -> None:
    marks = small_log(tmp_path)
    path = logs(tmp_path)[-1]
    at = batches_of(path)[-1]
    path.write_bytes(path.read_bytes()[:-1])
    found = verify_log(look(tmp_path), told(marks)).of(Severity.DAMAGE)
    assert [(each.kind, each.position) for each in found] == [(Kind.TORN_TAIL, at)]


def test_a_log_is_sound_at_every_moment_while_it_is_written(tmp_path: Path) -> None:
    """Indexes at full capacity, no closing entries, an entry for a marker that is yet to come."""
    marks = KeptInMemory()
    with open_log(tmp_path, marks, segment_bytes=900, index_interval_bytes=64) as log:
        for n in range(6):
            write_transactional(log, 7, 2 * n, b"open %d" % n, b"x")
            assert verify_log(look(tmp_path), told(marks)).findings == ()
            end_transaction(log, 7, commit=n % 2 == 0)
            assert verify_log(look(tmp_path), told(marks)).findings == ()
        segments, _ = plan_verification(look(tmp_path), told(marks))
        append(log, b"behind the plan")
        assert verify_segment(look(tmp_path), segments[-1]).findings == ()


def test_preallocated_space_is_no_tail(tmp_path: Path) -> None:
    marks = KeptInMemory()
    with open_log(tmp_path, marks, preallocate="true", segment_bytes=4096) as log:
        append(log, b"a")
        assert verify_log(look(tmp_path, {"preallocate": "true"}), told(marks)).findings == ()


def test_an_empty_directory_holds_no_log_and_nothing_wrong(tmp_path: Path) -> None:
    assert verify_log(look(tmp_path)).findings == ()
    lost = verify_log(look(tmp_path), CheckpointedOffsets(recovery_point=10))
    assert kinds(lost) == {Kind.MISSING_SEGMENT}


def without_its_start(directory: Path, *, delete: bool = False) -> KeptInMemory:
    """A log that begins at offset 2 of 6: its first segment and the indexes are gone, or are being deleted."""
    marks = KeptInMemory()
    with open_log(directory, marks) as log:
        for n in range(6):
            append(log, b"%d" % n)
            if n % 2:
                log.roll()
        log.checkpoint()
    for path in directory.glob(f"{0:020}.*"):
        if delete:
            path.rename(f"{path}{file_names.DELETED}")
        else:
            path.unlink()
    return marks


def test_first_segments_that_are_gone_with_their_indexes_are_missed_by_the_leader_epochs(tmp_path: Path) -> None:
    marks = without_its_start(tmp_path)
    checkpointed = CheckpointedOffsets(recovery_point=6)
    for _ in range(2):
        (found,) = verify_log(look(tmp_path), checkpointed).findings
        assert (found.kind, found.severity, found.lost) == (Kind.LOST_START, Severity.DAMAGE, (0, 1))
        assert "records 0 to 1 are in no segment, but leader epoch 0 begins at offset 0" in str(found)
        with open_log(tmp_path, marks) as log:  # which keeps the trace
            append(log, b"later")
            log.checkpoint()
    with open_log(tmp_path, marks) as log:
        log.delete_records(2)
    assert verify_log(look(tmp_path), checkpointed).findings == ()


def test_first_segments_that_are_being_deleted_or_may_be_in_a_tier_are_not_lost(tmp_path: Path) -> None:
    without_its_start(tmp_path / "deleting", delete=True)
    assert verify_log(look(tmp_path / "deleting"), CheckpointedOffsets(recovery_point=6)).findings == ()
    marks = without_its_start(tmp_path / "tiered")
    assert verify_log(look(tmp_path / "tiered"), told(marks)).findings == ()  # a broker notes 0 if there is a tier


def test_checkpoints_beyond_the_log_are_reported(tmp_path: Path) -> None:
    marks = small_log(tmp_path)
    end = verify_log(look(tmp_path), told(marks)).log_end_offset
    beyond = CheckpointedOffsets(recovery_point=end, high_watermark=end + 1, cleaner_offset=end + 2)
    assert [(each.kind, each.offset) for each in verify_log(look(tmp_path), beyond).findings] == [
        (Kind.BAD_CHECKPOINT, end + 1),
        (Kind.BAD_CHECKPOINT, end + 2),
    ]


def test_a_finding_states_what_to_do() -> None:
    finding = Finding(Kind.BAD_CHECKSUM, "/log/t-0/00000000000000000000.log", 70, 5, "wrong")
    assert str(finding) == (
        "damage: /log/t-0/00000000000000000000.log, position 70, offset 5: wrong [bad-checksum]; "
        "restore the file from a copy; lost records cannot be rebuilt"
    )


def test_a_million_equal_findings_are_counted_and_not_kept(tmp_path: Path) -> None:
    name = file_names.segment_file(0, ".log")
    (tmp_path / name).write_bytes(b"".join(batch(b"again").tobytes() for _ in range(100)))
    found = [each for each in verify_log(look(tmp_path)).findings if each.kind is Kind.OFFSETS_GO_BACK]
    assert len(found) == 21
    assert found[-1].what == "79 more findings of this kind"


# Damage that Kafka's file reader ignores

ODDITIES = {
    "corrupt-v2-attributes-unused-bits-crc-fixed": Kind.ODD_ATTRIBUTES,
    "corrupt-v2-base-sequence-minus-2-crc-fixed": Kind.ODD_PRODUCER,
    "corrupt-v2-control-bit-on-data-crc-fixed": Kind.ODD_CONTROL,
    "corrupt-v2-control-key-type-99": Kind.ODD_CONTROL,
    "corrupt-v2-control-key-1-byte": Kind.BAD_MARKER,
    "corrupt-v2-count-less-none-crc-fixed": Kind.BAD_RECORDS,
    "corrupt-v2-count-less-gzip-crc-fixed": Kind.BAD_RECORDS,
    "corrupt-v2-codec-5-crc-fixed": Kind.BAD_RECORDS,
    "corrupt-v2-codec-1-on-plain-crc-fixed": Kind.BAD_RECORDS,
    "corrupt-v1-wrapper-nested": Kind.BAD_RECORDS,
    "corrupt-v0-payload-bit-crc-stale": Kind.BAD_CHECKSUM,
    **{
        f"corrupt-v2-records-{what}{codec}": kind
        for codec in ("", "-gzip")
        for what, kind in (
            ("attributes-nonzero", Kind.ODD_ATTRIBUTES),
            ("length-varint-overlong", Kind.ODD_VARINT),
            ("length-varint-6-bytes", Kind.BAD_RECORDS),
            ("offset-delta-beyond-last", Kind.ODD_OFFSETS),
            ("offset-delta-decreasing", Kind.ODD_OFFSETS),
            ("offset-delta-negative", Kind.ODD_OFFSETS),
            ("offset-delta-repeated", Kind.ODD_OFFSETS),
        )
    },
    "corrupt-v2-last-offset-delta-negative-crc-fixed": Kind.ODD_OFFSETS,
    "corrupt-v2-last-offset-delta-too-small-crc-fixed": Kind.ODD_OFFSETS,
    "corrupt-v2-last-offset-delta-too-large-crc-fixed": Kind.OFFSETS_GO_BACK,  # of the following batch
    "corrupt-v0-wrapper-inner-crc": Kind.BAD_CHECKSUM,
    "corrupt-v1-wrapper-inner-crc": Kind.BAD_CHECKSUM,
    "corrupt-file-offsets-go-back": Kind.OFFSETS_GO_BACK,
    "corrupt-file-offsets-overlap": Kind.OFFSETS_OVERLAP,
}


@pytest.mark.parametrize("name", ODDITIES)
def test_oddities_with_a_correct_checksum_are_reported(tmp_path: Path, name: str) -> None:
    data = record_sets.log_bytes(name)
    base = int.from_bytes(data[:8].tobytes(), "big")
    (tmp_path / file_names.segment_file(base, ".log")).write_bytes(data.tobytes())
    assert ODDITIES[name] in kinds(verify_log(look(tmp_path), CheckpointedOffsets(recovery_point=base + 1)))


def test_no_record_set_that_a_broker_would_write_is_odd(tmp_path: Path) -> None:
    wrong = {}
    for name in record_sets.names():
        if name.startswith(record_sets.DAMAGED):
            continue
        directory = tmp_path / name
        directory.mkdir()
        data = record_sets.log_bytes(name)
        base = int.from_bytes(data[:8].tobytes(), "big") if len(data) >= 8 else 0
        (directory / file_names.segment_file(base, ".log")).write_bytes(data.tobytes())
        found = verify_log(look(directory, {"cleanup.policy": "compact"})).of(Severity.DAMAGE)
        if found:
            wrong[name] = [str(each) for each in found]
    assert wrong == {}


@pytest.mark.parametrize("name", [name for name in record_sets.names() if name.startswith(record_sets.DAMAGED)])
def test_no_damaged_record_set_stops_verification(tmp_path: Path, name: str) -> None:
    """What the decoders refuse is damage here too."""
    data = record_sets.log_bytes(name)
    (tmp_path / file_names.segment_file(0, ".log")).write_bytes(data.tobytes())
    result = verify_log(look(tmp_path), CheckpointedOffsets(recovery_point=2**40))
    assert result.of(Severity.DAMAGE)


# Arbitrary damage


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sound") / "log"
    small_log(directory)
    for lock in directory.glob(".*"):
        lock.unlink()
    return directory


def seen(directory: Path, recovery_point: int) -> object:
    """All that readers see; None if they are refused."""
    try:
        reader = LogReader.open(str(directory), clock=ManualClock(), checkpoints=KeptInMemory(recovery_point))
        with reader:
            return [rows(reader, isolation) for isolation in Isolation]
    except LogStoreError:
        return None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_is_found_or_changes_no_record(sound: Path, tmp_path: Path, data: st.DataObject) -> None:
    original = {path.name: path.read_bytes() for path in sorted(sound.iterdir())}
    name = data.draw(st.sampled_from([name for name, content in original.items() if content]))
    position = data.draw(st.integers(0, len(original[name]) - 1))
    bits = data.draw(st.integers(1, 255))
    directory = tmp_path / "log"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(sound, directory)
    end = verify_log(look(sound)).log_end_offset
    flip(directory / name, position, bits)
    result = verify_log(look(directory), CheckpointedOffsets(recovery_point=end))
    if not result.findings:
        assert seen(directory, end) == seen(sound, end), (name, position, bits)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_cut_is_found_or_changes_no_record(sound: Path, tmp_path: Path, data: st.DataObject) -> None:
    original = {path.name: path.read_bytes() for path in sorted(sound.iterdir())}
    name = data.draw(st.sampled_from([name for name, content in original.items() if content]))
    size = data.draw(st.integers(0, len(original[name]) - 1))
    directory = tmp_path / "log"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(sound, directory)
    end = verify_log(look(sound)).log_end_offset
    (directory / name).write_bytes(original[name][:size])
    result = verify_log(look(directory), CheckpointedOffsets(recovery_point=end))
    if not result.findings:
        assert seen(directory, end) == seen(sound, end), (name, size)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.integers(0, 900))
def test_noise_anywhere_in_a_log_stops_nothing(sound: Path, tmp_path: Path, noise: bytes, position: int) -> None:
    """Only the segment with the noise loses batches."""
    directory = tmp_path / "log"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(sound, directory)
    path = logs(directory)[0]
    data = bytearray(path.read_bytes())
    data[position : position + len(noise)] = noise
    path.write_bytes(data)
    others = sum(len(batches_of(path)) for path in logs(sound)[1:])
    assert verify_log(look(directory)).batches >= others


def test_damage_in_large_logs_is_found_in_every_window(tmp_path: Path) -> None:
    """Batches of many sizes over several windows of the walk; every hundredth is damaged, and only those are named."""
    marks, sizes = KeptInMemory(), np.random.default_rng(3).integers(1, 60_000, size=400).tolist()
    with open_log(tmp_path, marks, max_message_bytes=2_000_000) as log:
        for size in sizes:
            append(log, b"x" * size)
        log.checkpoint()
    path = logs(tmp_path)[0]
    hurt = batches_of(path)[50::100]
    for position in hurt:
        flip(path, position + 61)
    result = verify_log(look(tmp_path), told(marks))
    assert [(each.kind, each.position) for each in result.findings] == [(Kind.BAD_CHECKSUM, at) for at in hurt]
    assert result.batches == len(sizes) - len(hurt)


def test_the_fast_mode_verifies_checksums_and_decodes_nothing(tmp_path: Path) -> None:
    marks = small_log(tmp_path)
    result = verify_log(look(tmp_path), told(marks), deep=False)
    assert (result.findings, result.records, result.batches) == ((), 0, 16)
    flip(logs(tmp_path)[0], 65)
    assert kinds(verify_log(look(tmp_path), told(marks), deep=False)) == {Kind.BAD_CHECKSUM}


def test_kinds_have_names_of_their_own() -> None:
    assert len({kind.label for kind in Kind}) == len(Kind)
