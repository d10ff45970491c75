"""A directory of 0.7 becomes one of today: each message once, with its position, however often it is killed."""

from __future__ import annotations

import base64
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from pyspark_commitlog.classic.log_0_7.entries import encode, encode_set
from pyspark_commitlog.classic.log_0_7.reader import PositionLogReader
from pyspark_commitlog.classic.upgrade.position_table import PositionTable
from pyspark_commitlog.classic.upgrade.run import UpgradeRun, upgrade_partitions
from pyspark_commitlog.storage import Codec, LogManager, OutcomeStatus, PartitionOutcome, in_this_process
from pyspark_commitlog.storage.errors import (
    CorruptCheckpointError,
    InvalidConfigError,
    LogDirLockedError,
    NotALogDirError,
    OffsetOutOfRangeError,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.maintenance.partitions import verify_partitions
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from tests.support.classic.kafka_0_7 import recorded, unpacked, write_segments
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort

ENTRIES = [encode(b"a"), encode_set([b"b", b"c", b"d"], Codec.GZIP), encode(b"e", magic=0), encode_set([b"f"] * 2)]
VALUES = [b"a", b"b", b"c", b"d", b"e", b"f", b"f"]


def run_in(tmp_path: Path, source: Path, **configs: str) -> UpgradeRun:
    return UpgradeRun(str(source), str(tmp_path / "new"), str(tmp_path / "positions"), configs)


def upgraded(run: UpgradeRun) -> list[PartitionOutcome]:
    return list(upgrade_partitions(run, in_this_process))


def done(run: UpgradeRun) -> dict[str, int]:
    """Records appended by partition; all must be done."""
    outcomes = upgraded(run)
    assert {each.status for each in outcomes} <= {OutcomeStatus.DONE}, [each.text for each in outcomes]
    return {f"{each.topic}-{each.partition}": each.facts["appended"] for each in outcomes}


def content(run: UpgradeRun, topic: str, partition: int) -> list[bytes | None]:
    with run.manager() as manager, manager.open_reader(topic, partition) as log:
        tables = list(log.records(0, log.log_end_offset))
    offsets = [offset for records in tables for offset in records.offsets.tolist()]
    assert offsets == list(range(len(offsets)))
    assert {key for records in tables for key in (records.keys.to_list() if records.keys else [])} <= {None}
    return values_of(tables)


def table(run: UpgradeRun, topic: str, partition: int) -> PositionTable:
    return PositionTable(f"{run.positions}/{topic}-{partition}.csv", run.filesystem)


# Beside the real tool


def test_the_topics_have_what_the_real_migration_tool_made_of_them(tmp_path: Path) -> None:
    source = unpacked("migration-to-0.8", tmp_path) / "log-0.7"
    run = run_in(tmp_path, source)
    done(run)
    by_kafka = {
        name: Counter(base64.b64decode(message[4]) for each in found["sets"] for message in each["messages"])
        for name, found in recorded("migration-to-0.8/fetched-0.8.json.xz").items()
    }
    for topic in ("alpha", "beta"):
        ours = Counter(content(run, topic, 0)) + Counter(content(run, topic, 1))
        assert ours == by_kafka[f"{topic}-0"] + by_kafka[f"{topic}-1"]
        assert sum(ours.values()) > 50


def test_every_position_of_a_real_log_has_the_offset_of_its_message(tmp_path: Path) -> None:
    source = unpacked("main", tmp_path) / "log"
    run = run_in(tmp_path, source)
    done(run)
    for name, segments in recorded("main/settings.json")["entries"].items():
        topic, _, partition = name.rpartition("-")
        values = content(run, topic, int(partition))
        positions = table(run, topic, int(partition))
        reader = PositionLogReader(str(source / name))
        assert positions.end == (reader.end, len(values))
        for start in [each for _, entries, _ in segments for each in entries]:
            assert values[positions.offset_of(start) :] == values_of(reader.records(start))


def values_of(tables: Iterable[Records]) -> list[bytes | None]:
    return [value for records in tables for value in (records.values.to_list() if records.values else [])]


# Again and again


def test_a_second_run_changes_nothing_and_a_later_one_adds_what_is_new(tmp_path: Path) -> None:
    write_segments(tmp_path / "old" / "t-0", ENTRIES[0] + ENTRIES[1])
    run = run_in(tmp_path, tmp_path / "old")
    assert done(run) == {"t-0": 4}
    before = (tmp_path / "positions" / "t-0.csv").read_bytes()
    assert done(run) == {"t-0": 0}
    assert (tmp_path / "positions" / "t-0.csv").read_bytes() == before
    write_segments(tmp_path / "old" / "t-0", ENTRIES[0] + ENTRIES[1] + ENTRIES[2], ENTRIES[3])
    assert done(run) == {"t-0": 3}
    assert content(run, "t", 0) == VALUES


def test_files_may_be_deleted_between_two_runs(tmp_path: Path) -> None:
    old = tmp_path / "old" / "t-0"
    write_segments(old, ENTRIES[0], ENTRIES[1], ENTRIES[2])
    run = run_in(tmp_path, tmp_path / "old")
    assert done(run) == {"t-0": 5}
    (old / f"{0:020}.kafka").unlink()
    write_segments(old, ENTRIES[3], start=sum(map(len, ENTRIES[:3])))
    assert done(run) == {"t-0": 2}
    assert content(run, "t", 0) == VALUES
    assert table(run, "t", 0).first == (0, 0)
    assert table(run, "t", 0).offset_of(len(ENTRIES[0])) == 1


def test_files_that_were_deleted_before_they_were_copied_are_reported(tmp_path: Path) -> None:
    old = tmp_path / "old" / "t-0"
    write_segments(old, ENTRIES[0])
    run = run_in(tmp_path, tmp_path / "old")
    done(run)
    shutil.rmtree(old)
    write_segments(old, ENTRIES[3], start=sum(map(len, ENTRIES[:3])))
    (outcome,) = upgraded(run)
    assert outcome.status is OutcomeStatus.FAILED
    assert f"lost positions {len(ENTRIES[0])} to" in outcome.text


def test_records_of_others_in_the_target_are_reported(tmp_path: Path) -> None:
    write_segments(tmp_path / "old" / "t-0", b"".join(ENTRIES))
    for name, values in {"other": [b"a", b"x"], "more": [*VALUES, b"more"]}.items():
        run = UpgradeRun(str(tmp_path / "old"), str(tmp_path / name), str(tmp_path / f"{name}-positions"))
        with run.manager() as manager:
            manager.create_topic("t", partitions=1)
            manager.open_log("t", 0).append_records(Records.to_append([None] * len(values), list(values), 1))
        (outcome,) = upgraded(run)
        assert outcome.status is OutcomeStatus.FAILED
        assert "disagree" in outcome.text
        assert content(run, "t", 0) == values
        assert not (tmp_path / f"{name}-positions" / "t-0.csv").exists()


def test_records_have_the_time_of_the_last_change_of_their_file(tmp_path: Path) -> None:
    source = unpacked("main", tmp_path) / "log"
    run = run_in(tmp_path, source)
    done(run)
    with run.manager() as manager, manager.open_reader("alpha", 0) as log:
        times = [time for records in log.records(0, log.log_end_offset) for time in records.timestamps.tolist()]
    mtimes = recorded("main/settings.json")["files_live"]
    wanted = [size_and_time[1] for path, size_and_time in mtimes.items() if path.startswith("alpha-0/")]
    assert sorted(set(times)) == wanted
    assert times == sorted(times)


def test_partitions_keep_their_numbers_and_topics_get_the_settings(tmp_path: Path) -> None:
    write_segments(tmp_path / "old" / "t-2", ENTRIES[0])
    write_segments(tmp_path / "old" / "my_topic_0", ENTRIES[2])
    write_segments(tmp_path / "old" / "empty-0")
    run = run_in(tmp_path, tmp_path / "old", **{"compression.type": "lz4"})
    assert done(run) == {"t-2": 1, "my_topic-0": 1, "empty-0": 0}
    with run.manager() as manager:
        assert manager.topic("t").partitions == (0, 1, 2)
        assert manager.topic("t").configs == {"compression.type": "lz4"}
    assert table(run, "empty", 0).end == (0, 0)


def test_a_topic_that_cannot_be_made_and_damage_do_not_stop_the_others(tmp_path: Path) -> None:
    write_segments(tmp_path / "old" / "bad name-0", ENTRIES[0])
    write_segments(tmp_path / "old" / "broken-0", ENTRIES[0] + ENTRIES[2][:-1] + b"x" + ENTRIES[0])
    write_segments(tmp_path / "old" / "good-0", ENTRIES[0])
    run = run_in(tmp_path, tmp_path / "old")
    outcomes = {each.topic: each for each in upgraded(run)}
    assert [outcomes[name].status.value for name in ("bad name", "broken", "good")] == ["failed", "damaged", "done"]
    assert f"position {len(ENTRIES[0])}" in outcomes["broken"].text
    assert content(run, "broken", 0) == [b"a"]  # what came before, once, also after another run
    upgraded(run)
    assert content(run, "broken", 0) == [b"a"]
    shown = {each.topic: each for each in verified(run)}
    assert [shown[name].status.value for name in ("broken", "good")] == ["damaged", "done"]
    assert "broken-0.unfinished: the copy of this partition to here is not finished" in shown["broken"].text


def verified(run: UpgradeRun) -> list[PartitionOutcome]:
    check = MaintenanceRun(run.target, filesystem=run.filesystem)
    with check.manager() as manager:
        selection = select_partitions(manager, [], ConfigOverrides())
    return list(verify_partitions(check, selection, in_this_process))


def test_damage_before_the_first_message_is_visible_in_the_copy_until_the_source_is_sound(tmp_path: Path) -> None:
    directory = tmp_path / "old" / "t-0"
    write_segments(directory, ENTRIES[0][:-1] + b"x" + ENTRIES[0])
    run = run_in(tmp_path, tmp_path / "old")
    assert [each.status.value for each in [*upgraded(run), *verified(run)]] == ["damaged"] * 2
    shutil.rmtree(directory)
    write_segments(directory, ENTRIES[0])
    assert [each.status.value for each in [*upgraded(run), *verified(run)]] == ["done"] * 2


def test_wrong_directories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotALogDirError, match="has no partition of Kafka"):
        upgraded(run_in(tmp_path, tmp_path / "empty"))
    write_segments(tmp_path / "new" / "t-0", ENTRIES[0])
    with pytest.raises(InvalidConfigError, match="another directory"):
        upgraded(run_in(tmp_path, tmp_path / "new"))


def test_two_upgrades_at_once_are_refused(tmp_path: Path) -> None:
    write_segments(tmp_path / "old" / "t-0", ENTRIES[0])
    run = run_in(tmp_path, tmp_path / "old")
    (tmp_path / "positions").mkdir()
    held = LocalFileSystem().lock(f"{run.positions}/.lock")
    assert held is not None
    with held, pytest.raises(LogDirLockedError, match="another upgrade"):
        upgraded(run)
    done(run)


# The table


def test_a_position_between_entries_finds_the_next_one_and_one_outside_is_refused(tmp_path: Path) -> None:
    write_segments(tmp_path / "old" / "t-0", b"".join(ENTRIES), start=50)
    run = run_in(tmp_path, tmp_path / "old")
    done(run)
    positions = table(run, "t", 0)
    assert positions.offset_of(50) == 0
    assert positions.offset_of(51) == 1
    assert positions.offset_of(positions.end.position) == len(VALUES)
    for outside in (49, positions.end.position + 1):
        with pytest.raises(OffsetOutOfRangeError):
            positions.offset_of(outside)


@pytest.mark.parametrize(
    "text",
    ["", "x", "position,offset\n", "position,offset\n1,x\n", "position,offset\n2,0\n1,1\n", "position,offset\n1,0"],
)
def test_a_damaged_table_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "t-0.csv").write_text(text)
    with pytest.raises(CorruptCheckpointError) as damage:
        PositionTable(str(tmp_path / "t-0.csv"), LocalFileSystem())
    assert damage.value.path == str(tmp_path / "t-0.csv")


# Killed at any step


def source_on(disk: MemoryFileSystem) -> None:
    for partition, entries in ((0, ENTRIES * 3), (1, ENTRIES[::-1])):
        disk.make_directory(f"/old/t-{partition}")
        start = 0
        for number in range(0, len(entries), 3):
            data = b"".join(entries[number : number + 3])
            with disk.open(f"/old/t-{partition}/{start:020}.kafka", "create") as file:
                file.write(0, data)
                file.sync()
            start += len(data)
        disk.sync_directory(f"/old/t-{partition}")
    for path in ("/old", "/"):
        disk.sync_directory(path)


def upgrade_on(disk: MemoryFileSystem) -> None:
    assert done(UpgradeRun("/old", "/new", "/positions", filesystem=disk, clock=ManualClock()))


def ended(disk: MemoryFileSystem) -> tuple[list[list[object]], list[bytes]]:
    """What a finished upgrade left: records and tables."""
    with LogManager.open("/new", filesystem=disk, clock=ManualClock()) as manager:
        found: list[list[object]] = []
        for partition in (0, 1):
            with manager.open_reader("t", partition) as log:
                tables = list(log.records(0, log.log_end_offset))
            found.append([offset for records in tables for offset in records.offsets.tolist()])
            found.append([*values_of(tables)])
    positions = [bytes(disk.open(f"/positions/t-{partition}.csv", "read").read(0, 10_000)) for partition in (0, 1)]
    return found, positions


def test_killed_at_any_step_and_run_again_it_ends_the_same() -> None:
    start = MemoryFileSystem()
    source_on(start)
    whole = start.copy()
    upgrade_on(whole)
    wanted = ended(whole)
    assert [len(each) for each in wanted[0]] == [3 * len(VALUES)] * 2 + [len(VALUES)] * 2
    tried = 0
    for where, disk in Effort(every=2, seeds=1, with_kills=True).cut(upgrade_on, start):
        tried += 1
        upgrade_on(disk)
        assert ended(disk) == wanted, where
    assert tried > 50
