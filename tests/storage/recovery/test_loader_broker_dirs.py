"""Directories after a broker's crash, or damaged ones, opened for writing, compared with what a broker made of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    CorruptCheckpointError,
    CorruptionError,
    CorruptRecordError,
    MissingSegmentError,
)
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.writing.log import Log
from tests.support.kafka import broker_dirs
from tests.support.logs.building import records
from tests.support.tiers import broker

VARIANTS = ("clean-marker", "no-marker", "no-marker-rp0")

# The differences from the directory that the broker left, by variant and damage: ours are the safer outcome
# (docs/compatibility_damage.md). "refused": the damage is below the recovery point, so it is reported, and nothing
# is changed.
REFUSED = {"refused"}
DIFFERENT: dict[tuple[str, str], set[str]] = {
    # a tail that was synced: Kafka serves what is left of it, or cuts it off
    ("clean-marker", "d-empty-active-0"): REFUSED,
    ("clean-marker", "d-torn-0"): REFUSED,
    ("clean-marker", "d-torn-header-0"): REFUSED,
    ("no-marker", "d-empty-active-0"): REFUSED,
    ("no-marker", "d-torn-0"): REFUSED,
    ("no-marker", "d-torn-header-0"): REFUSED,
    # a wrong checksum below the recovery point: Kafka goes on with the marker, and cuts it off without
    ("clean-marker", "d-flip-last-0"): REFUSED,
    ("no-marker", "d-flip-last-0"): REFUSED,
    # garbage after the last batch: Kafka leaves it, and what it appends after that is unreadable
    ("clean-marker", "d-extra-garbage-0"): {"00000000000000000159.log"},
    # an index of the active segment that leads astray: Kafka goes on with it
    ("clean-marker", "d-bad-active-index-0"): {"00000000000000000170.index"},
    # time indexes: Kafka makes empty ones, or cuts the last entry off; we rebuild a missing one
    ("clean-marker", "d-no-timeindex-0"): {"00000000000000000106.timeindex", "00000000000000000159.timeindex"},
    ("no-marker", "d-no-timeindex-0"): {"00000000000000000106.timeindex"},
    ("clean-marker", "d-short-timeindex-0"): {"00000000000000000107.timeindex", "00000000000000000163.timeindex"},
    ("no-marker", "d-short-timeindex-0"): {"00000000000000000107.timeindex"},
    # transaction indexes: none of our readers needs them, so those of segments that are not recovered stay as they are
    ("clean-marker", "d-bad-txnindex-0"): {"00000000000000000111.txnindex"},
    ("no-marker", "d-bad-txnindex-0"): {"00000000000000000111.txnindex"},
    ("no-marker", "d-no-txnindex-0"): {"00000000000000000168.txnindex"},
    # the split of an overflowed segment: Kafka loses the entry of an aborted transaction, and takes more snapshots
    ("clean-marker", "d-overflow-0"): {
        "00000000002147483816.txnindex",
        "00000000000000000163.snapshot",
        "00000000002147483816.snapshot",
    },
    ("no-marker", "d-overflow-0"): {"00000000000000000163.snapshot", "00000000002147483816.snapshot"},
    ("no-marker-rp0", "d-overflow-0"): {"00000000002147483816.snapshot"},
    # leader epochs: Kafka knows none, or only those of what it recovered
    ("clean-marker", "d-no-epoch-0"): {"leader-epoch-checkpoint"},
    ("no-marker", "d-no-epoch-0"): {"leader-epoch-checkpoint"},
    # snapshots: Kafka takes more of them, after a clean stop empty ones, and forgets every producer
    ("clean-marker", "d-no-snapshots-0"): {
        "00000000000000000111.snapshot",
        "00000000000000000163.snapshot",
        "00000000000000000185.snapshot",
    },
    ("no-marker", "d-no-snapshots-0"): {"00000000000000000111.snapshot", "00000000000000000163.snapshot"},
    # a sound snapshot after the gap still has the producers of the missing records
    ("no-marker-rp0", "d-missing-middle-0"): {"00000000000000000163.snapshot"},
}


def comparable(name: str, data: bytes, log_end_offset: int) -> object:
    """A file without what does not matter: the order in a snapshot, and the epoch that a starting broker assigns."""
    if name.endswith(file_names.SNAPSHOT):
        return sorted(checkpoints.decode_snapshot(data))
    if name == file_names.LEADER_EPOCH_CHECKPOINT:
        return [entry for entry in checkpoints.decode_leader_epochs(data) if entry.start_offset < log_end_offset]
    return data


def differing(ours: Path, kafka: Path, log_end_offset: int) -> set[str]:
    """Names of files that differ between two directories of a partition."""
    found, expected = (
        {name: comparable(name, data, log_end_offset) for name, data in broker_dirs.files(path).items()}
        for path in (ours, kafka)
    )
    return {name for name in found.keys() | expected.keys() if found.get(name, b"-") != expected.get(name, b"-")}


def partitions(manager: LogManager) -> Iterator[tuple[str, int, str]]:
    for topic in manager.topics().values():
        for partition in topic.partitions:
            yield topic.name, partition, file_names.partition_directory(topic.name, partition)


def append(log: Log, count: int = 3) -> None:
    log.append_records(records([b"after %d" % n for n in range(count)], keys=[b"key"] * count))


def last_values(log: Log, count: int) -> list[bytes | None]:
    return [row[4] for row in broker_dirs.rows(log)[-count:]]


def test_a_log_of_a_killed_writer_is_recovered_to_exactly_kafkas_files(tmp_path: Path) -> None:
    directory = broker_dirs.copy_to(tmp_path / "log", "recovery-crash/unclean")
    kafka = broker_dirs.stage("recovery-crash/recovered") / "log"
    ends = {}
    with broker_dirs.open_manager(directory) as manager:
        for topic, partition, name in partitions(manager):
            ends[name] = manager.open_log(topic, partition).log_end_offset
    found = {name: differing(directory / name, kafka / name, end) for name, end in ends.items()}
    assert len(found) == 10
    assert {name: files for name, files in found.items() if files} == {}
    marks = checkpoints.decode_offsets((directory / file_names.RECOVERY_POINT_CHECKPOINT).read_bytes())
    assert {file_names.partition_directory(*key): offset for key, offset in marks.items()} == ends


@pytest.mark.parametrize("variant", VARIANTS)
def test_damage_is_mended_as_kafka_mends_it_or_more_safely(tmp_path: Path, variant: str) -> None:
    directory = damaged(tmp_path, variant)
    kafka = broker_dirs.stage(f"recovery-damage/{variant}-after") / "log"
    found: dict[tuple[str, str], set[str]] = {}
    for name in sorted(path.name for path in directory.glob("d-*")):
        before = broker_dirs.files(directory / name)
        with broker_dirs.open_manager(directory) as manager:
            try:
                end = manager.open_log(*broker_dirs.topic_partition(name)).log_end_offset
            except CorruptRecordError as error:
                found[variant, name] = REFUSED if is_told(error) else {"not told"}
                logs = {file: data for file, data in before.items() if file.endswith(file_names.LOG)}
                assert logs.items() <= broker_dirs.files(directory / name).items()
                continue
        found[variant, name] = differing(directory / name, kafka / name, end)
    assert len(found) == 26
    expected = {key: different for key, different in DIFFERENT.items() if key[0] == variant}
    assert {key: different for key, different in found.items() if different} == expected


def is_told(error: CorruptionError) -> bool:
    """The message contains path, position and offset of the damage."""
    return f"{error.path}, position {error.position}: the segment is sound only up to offset " in str(error)


def damaged(tmp_path: Path, variant: str) -> Path:
    directory = broker_dirs.copy_to(tmp_path / "log", "recovery-damage/damaged")
    if variant == "no-marker-rp0":
        (directory / file_names.RECOVERY_POINT_CHECKPOINT).unlink()
    if variant != "clean-marker":
        with suppress(FileNotFoundError):
            (directory / file_names.CLEAN_SHUTDOWN_FILE).unlink()
    return directory


@pytest.mark.parametrize("variant", ["no-marker", "no-marker-rp0"])
def test_records_appended_to_a_repaired_log_are_read_after_the_next_start(tmp_path: Path, variant: str) -> None:
    """Also after garbage and torn tails, where Kafka's records acknowledged after a clean stop can never be read."""
    directory = damaged(tmp_path, variant)
    ends: dict[str, int] = {}
    with broker_dirs.open_manager(directory) as manager:
        for topic, partition, name in partitions(manager):
            with suppress(CorruptRecordError):
                log = manager.open_log(topic, partition)
                append(log)
                ends[name] = log.log_end_offset
    assert len(ends) == (26 if variant == "no-marker-rp0" else 22)
    with broker_dirs.open_manager(directory) as manager:
        for name, end in ends.items():
            log = manager.open_log(*broker_dirs.topic_partition(name))
            assert log.log_end_offset == end
            assert log.truncated_bytes == 0
            part = next(log.records(end - 3, end))
            assert part.values is not None
            assert part.values.to_list() == [b"after 0", b"after 1", b"after 2"], name


class Fatal(NamedTuple):
    """What stops a broker, and the outcome in this engine."""

    log_start_offset: int
    log_end_offset: int
    told: str  # a part of the warning; empty where nothing is amiss


FATAL = {
    "alien-dir": Fatal(0, 200, ""),
    "bad-epoch": Fatal(0, 200, "leader-epoch-checkpoint"),
    "bad-log-start": Fatal(0, 200, "log-start-offset-checkpoint"),
    "bad-recovery-point": Fatal(0, 200, "recovery-point-offset-checkpoint"),
    "wrong-topic-id": Fatal(0, 200, ""),
}


@pytest.mark.parametrize("case", FATAL)
def test_what_stops_a_broker_does_not_stop_us(tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture) -> None:
    directory = broker_dirs.copy_to(tmp_path / "log", f"recovery-fatal/{case}-before")
    expected = broker_dirs.expected_rows(
        broker_dirs.consumed("recovery-fatal/before-damage")["f-0"]["read_uncommitted"]["records"]
    )
    with caplog.at_level(logging.WARNING), broker_dirs.open_manager(directory) as manager:
        log = manager.open_log("f", 0)
        assert Fatal(log.log_start_offset, log.log_end_offset, FATAL[case].told) == FATAL[case]
        assert broker_dirs.rows(log) == expected
        assert log.epochs.epoch_for(0) == 0
        append(log)
    assert FATAL[case].told in caplog.text
    with broker_dirs.open_manager(directory) as manager:
        assert last_values(manager.open_log("f", 0), 3) == [b"after 0", b"after 1", b"after 2"]


def test_an_emptied_partition_whose_records_were_synced_is_reported(tmp_path: Path) -> None:
    """Kafka begins it again at offset 0, and assigns the offsets of the lost records to others."""
    directory = broker_dirs.copy_to(tmp_path / "log", "recovery-fatal/empty-partition-before")
    with (
        broker_dirs.open_manager(directory) as manager,
        pytest.raises(MissingSegmentError, match=r"f-0: there is no segment, but .* below offset 200 was"),
    ):
        manager.open_log("f", 0)


def test_a_log_start_above_all_that_was_written_empties_no_log(tmp_path: Path) -> None:
    """Kafka deletes all segments, and begins at the log start. The line is wrong, since the log was closed cleanly."""
    directory = broker_dirs.copy_to(tmp_path / "log", "recovery-fatal/log-start-beyond-before")
    before = {path: path.read_bytes() for path in (directory / "f-0").iterdir() if path.suffix == file_names.LOG}
    with broker_dirs.open_manager(directory) as manager:
        for open_one in (manager.open_reader, manager.open_log, manager.open_watcher):
            with pytest.raises(CorruptCheckpointError, match=r"f-0: the log start offset is 100000, .* ends at 200"):
                open_one("f", 0)
    assert {path: path.read_bytes() for path in before} == before
    for offset, count in ((0, 200), (200, 0)):
        (directory / file_names.LOG_START_OFFSET_CHECKPOINT).write_bytes(checkpoints.encode_offsets({("f", 0): offset}))
        with broker_dirs.open_manager(directory) as manager:
            assert len(broker_dirs.rows(manager.open_reader("f", 0))) == count


def test_a_log_that_was_to_be_emptied_restarts_at_its_log_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A recovery point of 0 says that no record is vouched for any more."""
    directory = broker_dirs.copy_to(tmp_path / "log", "recovery-fatal/log-start-beyond-before")
    kafka = broker_dirs.consumed("recovery-fatal/log-start-beyond-after")["f-0"]["read_uncommitted"]
    (directory / file_names.RECOVERY_POINT_CHECKPOINT).write_bytes(checkpoints.encode_offsets({("f", 0): 0}))
    (directory / file_names.CLEAN_SHUTDOWN_FILE).unlink()
    with caplog.at_level(logging.WARNING), broker_dirs.open_manager(directory) as manager:
        log = manager.open_log("f", 0)
        assert (log.log_start_offset, log.log_end_offset) == (kafka["beginningOffset"], kafka["endOffset"])
        append(log)
        assert len(broker_dirs.rows(log)) == 3
    assert "f-0: the log start offset is 100000, but the log ends at 200: treating all of its records" in caplog.text


@pytest.mark.parametrize(
    "stage",
    [
        "leader-epochs/before-last-restart",
        "retention/deleting-live",
        "retention/stopped",
        "transactions/final",
        "rolls/final",
        "compaction/after-1",
    ],
)
def test_a_log_reopened_after_a_write_has_its_old_and_its_new_records(tmp_path: Path, stage: str) -> None:
    directory = broker_dirs.copy_to(tmp_path / "log", stage)
    before: dict[str, tuple[int, int, int, list[broker_dirs.Row]]] = {}
    with broker_dirs.open_manager(directory) as manager:
        for topic, partition, name in partitions(manager):
            log = manager.open_log(topic, partition)
            before[name] = (log.log_start_offset, log.last_stable_offset, log.log_end_offset, broker_dirs.rows(log))
            append(log)
    for name, kafka in broker_dirs.consumed(stage).items():
        if name in before:
            bounds = (kafka["read_uncommitted"][key] for key in ("beginningOffset", "endOffset"))
            assert before[name][0:3:2] == tuple(bounds), name
            assert before[name][1] == kafka["read_committed"]["endOffset"], name
            assert before[name][3] == broker_dirs.expected_rows(kafka["read_uncommitted"]["records"]), name
    with broker_dirs.open_manager(directory) as manager:
        for name, (start, _, end, held) in before.items():
            log = manager.open_log(*broker_dirs.topic_partition(name))
            assert (log.log_start_offset, log.log_end_offset) == (start, end + 3), name
            assert broker_dirs.rows(log)[:-3] == held, name
            assert last_values(log, 3) == [b"after 0", b"after 1", b"after 2"], name
    assert not [path for path in directory.rglob("*.deleted") if path.is_file()]


def test_an_open_transaction_holds_the_last_stable_offset_after_a_restart_too(tmp_path: Path) -> None:
    directory = broker_dirs.copy_to(tmp_path / "log", "transactions/final")
    kafka = broker_dirs.consumed("transactions/final")["txn-0"]["read_committed"]
    for _ in range(2):
        with broker_dirs.open_manager(directory) as manager:
            log = manager.open_log("txn", 0)
            assert log.last_stable_offset == kafka["endOffset"] < log.log_end_offset
            assert broker_dirs.rows(log, Isolation.READ_COMMITTED) == broker_dirs.expected_rows(kafka["records"])


def test_epochs_of_records_in_a_tier_stay_when_the_log_is_opened(tmp_path: Path) -> None:
    directory = broker("aiven", tmp_path).log
    path = directory / "t-epochs-0" / "leader-epoch-checkpoint"
    before = path.read_bytes()
    with LogManager.open(str(directory)) as manager:
        log = manager.open_log("t-epochs", 0)
        assert log.remote == range(461)
        assert log.epochs.entries[:2] == (checkpoints.EpochEntry(0, 0), checkpoints.EpochEntry(2, 120))
    assert path.read_bytes() == before
