"""Directories of a broker with tiered storage, which deletes local segments once they are in remote storage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.admin import alter_configs
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.remote_tier import remote_offsets, remote_text
from pyspark_commitlog.storage.errors import OffsetOutOfRangeError
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS
from tests.support.tiered import tiered_directory

FIRST_HERE = {("t-plain", 0): 618, ("t-delrec", 0): 565}


@pytest.fixture
def tiered(tmp_path: Path) -> Path:
    return tiered_directory(tmp_path / "log")


def managed(directory: Path) -> LogManager:
    return LogManager.open(str(directory), clock=ManualClock(NOW_MS))


def test_offsets_below_the_first_local_segment_are_remote_from_where_the_broker_serves_them(tiered: Path) -> None:
    with managed(tiered) as manager:
        firsts = {partition: manager.open_reader(*partition).log_start_offset for partition in FIRST_HERE}
        assert firsts == FIRST_HERE
        found = remote_offsets(manager, firsts)
    assert found == {("t-plain", 0): range(618), ("t-delrec", 0): range(210, 565)}
    assert remote_text(found["t-delrec", 0]) == (
        "offsets 210 to 564 are only in the broker's remote storage, which is not read"
    )


def test_a_lower_log_start_in_the_checkpoint_says_nothing_without_tiered_storage(tiered: Path) -> None:
    shutil.rmtree(tiered / "__remote_log_metadata-0")
    with managed(tiered) as manager:
        assert remote_offsets(manager, FIRST_HERE) == {}


def test_the_setting_of_a_topic_says_that_it_is_tiered(tiered: Path) -> None:
    shutil.rmtree(tiered / "__remote_log_metadata-0")
    with managed(tiered) as manager:
        alter_configs(manager, "t-plain", {"remote.storage.enable": "true"})
        assert remote_offsets(manager, FIRST_HERE) == {("t-plain", 0): range(618)}


@pytest.mark.parametrize("offset", [300, 618, 620])
def test_a_raised_log_start_is_in_the_checkpoint_wherever_its_records_are(tiered: Path, offset: int) -> None:
    with managed(tiered) as manager:
        log = manager.open_log("t-plain", 0)
        log.delete_records(offset)
        assert log.in_tier == (range(offset, 618) if offset < 618 else None)
    with managed(tiered) as manager:
        assert manager.offsets("log-start-offset-checkpoint")[TopicPartition("t-plain", 0)] == offset


def test_a_log_start_in_remote_storage_is_never_lowered(tiered: Path) -> None:
    with managed(tiered) as manager:
        log = manager.open_log("t-delrec", 0)
        log.delete_records(100)
        assert log.in_tier == range(210, 565)
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_records(-2)


def test_a_partition_without_a_checkpoint_entry_has_nothing_remote(tiered: Path) -> None:
    (tiered / "log-start-offset-checkpoint").unlink()
    with managed(tiered) as manager:
        assert remote_offsets(manager, FIRST_HERE) == {}
