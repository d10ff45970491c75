"""What is known of a tier's segments after several reads of ``__remote_log_metadata``."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager, MaintenanceRun, in_this_process, select_partitions, tier_partitions
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.maintenance.partitions import retain_partitions
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides
from pyspark_commitlog.storage.remote_metadata.topic import CONFIGS, MetadataTopic
from pyspark_commitlog.storage.tiers import metadata_records
from pyspark_commitlog.storage.tiers.known_segments import KnownSegments
from pyspark_commitlog.storage.tiers.metadata_records import (
    SegmentEpoch,
    SegmentMetadata,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
)
from tests.support.logs.building import append

PLACE = TopicIdPartition("t", "AAAAAAAAAAAAAAAAAAAAAQ", 0)
TIERED = {"remote.storage.enable": "true", "retention.ms": "-1", "local.retention.ms": "1"}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The values of records that were read, from now on."""
    read: list[object] = []
    parse = metadata_records.parse_remote_record
    monkeypatch.setattr(metadata_records, "parse_remote_record", lambda value: read.append(value) or parse(value))
    return read


def directory_of(path: Path, *, topics: int = 0) -> LogManager:
    """A log directory with a topic of one partition for the records, and tiered topics with a closed segment each."""
    manager = LogManager.open(str(path), create=True)
    manager.create_topic("__remote_log_metadata", partitions=1, configs=CONFIGS)
    for number in range(topics):
        manager.create_topic(f"t{number}", partitions=1, configs=TIERED)
        log = manager.open_log(f"t{number}", 0)
        append(log, b"closed")
        log.roll()
        append(log, b"active")
    return manager


def segment(name: str, start: int) -> SegmentMetadata:
    return SegmentMetadata(PLACE, name, start, start + 9, 0, 1, 1, (SegmentEpoch(0, start),), 100)


def update(name: str, state: SegmentState) -> SegmentUpdate:
    return SegmentUpdate(PLACE, name, 0, 1, state)


def test_a_later_call_reads_only_what_was_added_and_knows_what_a_first_one_knows(
    tmp_path: Path, reads: list[object]
) -> None:
    one, two = "AAAAAAAAAAAAAAAAAAAAEQ", "AAAAAAAAAAAAAAAAAAAAEg"
    kept = KnownSegments()
    with directory_of(tmp_path) as manager:
        topic = MetadataTopic(manager, kept)
        for added in (
            [segment(one, 0), segment(two, 10)],
            [update(one, SegmentState.COPY_SEGMENT_FINISHED), update(two, SegmentState.COPY_SEGMENT_FINISHED)],
            [update(one, SegmentState.DELETE_SEGMENT_STARTED), update(one, SegmentState.DELETE_SEGMENT_FINISHED)],
        ):
            topic.append(added)
            reads.clear()
            known = topic.segments(PLACE)
            assert len(reads) == 2
            fresh = KnownSegments()
            fresh.read_directory(str(tmp_path), LocalFileSystem())
            assert fresh.segments(PLACE) == known
            assert fresh.finished(PLACE) == topic.finished(PLACE)
    assert [*known] == [two]


def test_of_a_partition_without_records_nothing_is_known(tmp_path: Path) -> None:
    known = KnownSegments()
    with directory_of(tmp_path):
        known.read_directory(str(tmp_path), LocalFileSystem())
    assert known.finished(PLACE) is None
    assert known.segments(PLACE) == {}


def test_another_process_reads_the_records_itself(tmp_path: Path, reads: list[object]) -> None:
    with directory_of(tmp_path) as manager:
        topic = MetadataTopic(manager, known := KnownSegments())
        topic.append([segment("AAAAAAAAAAAAAAAAAAAAEQ", 0)])
        found, sent = topic.segments(PLACE), pickle.loads(pickle.dumps(known))
        assert sent.segments(PLACE) == {}
        assert MetadataTopic(manager, sent).segments(PLACE) == found
    assert len(reads) == 2


@pytest.mark.parametrize("topics", [1, 4])
def test_a_run_over_many_partitions_reads_each_record_once(tmp_path: Path, reads: list[object], topics: int) -> None:
    directory_of(tmp_path / "logs", topics=topics).close()
    run = MaintenanceRun(str(tmp_path / "logs"))
    with run.manager() as manager:
        selection = select_partitions(manager, [], ConfigOverrides())
    (tmp_path / "tier").mkdir()
    copied = [*tier_partitions(run, selection, in_this_process, url=str(tmp_path / "tier"))]
    assert sum(each.facts.get("copied", 0) for each in copied) == topics
    records = 2 * topics  # begun and finished
    assert len(reads) == records
    reads.clear()
    retained = [*retain_partitions(run, selection, in_this_process)]
    assert sum(bool(each.facts["bytes_removed"]) for each in retained) == topics
    assert len(reads) == records
