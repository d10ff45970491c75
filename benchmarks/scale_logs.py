"""Log directories with as many topics as asked, made in seconds, without syncs: copies of one partition's files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock
from uuid import uuid4

import numpy as np

from benchmarks.rows import records
from pyspark_commitlog.storage import LocalFileSystem, LogManager
from pyspark_commitlog.storage.directory.topics_file import TopicDescription
from pyspark_commitlog.storage.filesystem.local_file import LocalFile
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.format.files.file_names import TopicPartition

CONFIGS = {"segment.index.bytes": "1000"}  # an active segment's indexes reserve that much
RECORDS = 10  # of each partition


def make_topics(directory: Path, count: int) -> Path:
    """A log directory that was closed cleanly, with ``count`` topics of one partition: ``topic-0``, ``topic-1``, …"""
    with unsynced(), LogManager.open(str(directory), create=True) as manager:
        topics = [_topic(f"topic-{number}") for number in range(count)]
        manager.create_topic(topics[0].name, partitions=1, configs=CONFIGS, topic_id=topics[0].topic_id)
        manager.open_log(topics[0].name, 0).append_records(records(np.arange(RECORDS), _now_ms()), sync=False)
    with unsynced(), LogManager.open(str(directory)) as manager:
        for topic in topics[1:]:
            _copy(directory / f"{topics[0].name}-0", directory / f"{topic.name}-0", topic)
        manager.describe_topics({topic.name: topic for topic in topics})
        ends = {TopicPartition(topic.name, 0): RECORDS for topic in topics}
        (directory / file_names.RECOVERY_POINT_CHECKPOINT).write_bytes(checkpoints.encode_offsets(ends))
    return directory


def _topic(name: str) -> TopicDescription:
    return TopicDescription(name, (0,), CONFIGS, checkpoints.encode_id(uuid4()))


def _copy(first: Path, to: Path, topic: TopicDescription) -> None:
    shutil.copytree(first, to)
    assert topic.topic_id is not None
    metadata = checkpoints.encode_partition_metadata(checkpoints.decode_id(topic.topic_id))
    (to / file_names.PARTITION_METADATA_FILE).write_bytes(metadata)


@contextmanager
def unsynced() -> Iterator[None]:
    """Leaves out the syncs of files and directories, to save minutes."""
    with mock.patch.object(LocalFile, "sync"), mock.patch.object(LocalFileSystem, "sync_directory"):
        yield


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
