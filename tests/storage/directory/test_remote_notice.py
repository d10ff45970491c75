"""Whatever reads a directory of a broker with tiered storage reports the offsets that are only in the tier."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_commitlog import append, follow, read_table, tail
from pyspark_commitlog.mirror.sources.log_directory import DirectorySources
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.remote_tier import remote_offsets
from pyspark_commitlog.storage.directory.snapshots.taking import take_snapshot
from pyspark_commitlog.storage.errors import OffsetOutOfRangeError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.groups.lag import LogLooks
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from pyspark_commitlog.storage.transfer.to_directory import copy_to_directory
from tests.support.gateway import WireClient, fetch_fields, serving
from tests.support.stores.memory_store import MemoryStore
from tests.support.tiered import tiered_directory

SAID = "offsets 0 to 617 are only in the broker's remote storage, which is not read"


@pytest.fixture
def tiered(tmp_path: Path) -> Path:
    return tiered_directory(tmp_path / "log")


def by_read_table(log: Path, _: Path) -> None:
    assert read_table(log, "t-plain", start=0).num_rows == 12


def by_tail(log: Path, _: Path) -> None:
    tail(log, "t-plain")


def by_follow(log: Path, _: Path) -> None:
    assert len(list(follow(log, "t-plain", start="earliest", timeout=0))) == 12


def by_append(log: Path, _: Path) -> None:
    append(log, "t-plain", [{"value": b"x"}])


def by_metrics(log: Path, _: Path) -> None:
    with LogManager.open(str(log)) as manager, LogLooks(manager).look(TopicPartition("t-plain", 0)) as found:
        assert found.log_end_offset == 630


def by_mirror(log: Path, _: Path) -> None:
    source = DirectorySources(str(log)).open()
    source.fetch({TopicPartition("t-plain", 0): 618})
    source.close()


def by_copy_to_directory(log: Path, other: Path) -> None:
    with LogManager.open(str(log)) as source, LogManager.open(str(other), create=True) as target:
        list(copy_to_directory(source, target, ["t-plain"]))


def by_copy_to_bucket(log: Path, _: Path) -> None:
    target = open_root("memory://bucket", create=True, store=MemoryStore(), check=lambda _: [])
    with LogManager.open(str(log)) as source:
        list(copy_to_bucket(source, target, ["t-plain"]))


def by_snapshot(log: Path, other: Path) -> None:
    with LogManager.open(str(log)) as manager:
        take_snapshot(manager, str(other))


def by_fetch_from_a_gateway(log: Path, _: Path) -> None:
    with serving(log) as gateway, WireClient(gateway) as client:
        assert client.ask(1, 11, **fetch_fields("t-plain", 0)).responses[0].partitions[0].error_code == 1


def by_list_offsets_of_a_gateway(log: Path, _: Path) -> None:
    asked = {"partition_index": 0, "timestamp": -2}
    with serving(log) as gateway, WireClient(gateway) as client:
        answer = client.ask(2, 1, replica_id=-1, topics=[{"name": "t-plain", "partitions": [asked]}])
    assert answer.topics[0].partitions[0].offset == 618


READERS = [
    by_read_table,
    by_tail,
    by_follow,
    by_append,
    by_metrics,
    by_mirror,
    by_copy_to_directory,
    by_copy_to_bucket,
    by_snapshot,
    by_fetch_from_a_gateway,
    by_list_offsets_of_a_gateway,
]


@pytest.mark.parametrize("reads", READERS)
def test_a_reader_reports_what_it_lacks(
    reads: Callable[[Path, Path], None], tiered: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        reads(tiered, tmp_path / "other")
    assert f"{tiered}/t-plain-0: {SAID}" in caplog.messages


def test_an_offset_in_the_tier_is_an_error_that_says_so(tiered: Path) -> None:
    with LogManager.open(str(tiered)) as manager, pytest.raises(OffsetOutOfRangeError, match=SAID):
        manager.open_reader("t-plain", 0).read(3)


def test_a_writer_keeps_the_log_start_by_which_a_broker_finds_its_tier(tiered: Path) -> None:
    with LogManager.open(str(tiered)) as manager:
        log = manager.open_log("t-plain", 0)
        log.roll()
        assert log.log_start_offset == 618
    with LogManager.open(str(tiered)) as manager:
        assert manager.offsets(file_names.LOG_START_OFFSET_CHECKPOINT)["t-plain", 0] == 0
        assert remote_offsets(manager, {TopicPartition("t-plain", 0): 618}) == {("t-plain", 0): range(618)}
        log = manager.open_log("t-plain", 0)
        log.delete_records(620)
    with LogManager.open(str(tiered)) as manager:
        assert manager.offsets(file_names.LOG_START_OFFSET_CHECKPOINT)["t-plain", 0] == 620
