"""Directories of brokers before 0.10.1, which wrote no time indexes: ``verify`` calls them sound."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.verify.findings import Kind
from pyspark_commitlog.storage.verify.log import LogFindings, verify_log
from tests.cli.in_process import commitlog
from tests.support.kafka import broker_dirs

NEWER = ("*.timeindex", "*.snapshot", "*.txnindex", "leader-epoch-checkpoint", "partition.metadata")


def verified(partition: Path) -> LogFindings:
    return verify_log(LogContext(str(partition), LogConfig(), SystemClock(), LocalFileSystem(), writable=False))


def as_before_0_10_1(partition: str, tmp_path: Path) -> Path:
    """A partition of the 2.8.2 broker without the kinds of files that later releases added."""
    target = tmp_path / partition
    shutil.copytree(broker_dirs.legacy() / "log" / partition, target)
    for pattern in NEWER:
        for path in target.glob(pattern):
            path.unlink()
    return target


@pytest.mark.parametrize("partition", ["plain-0", "zipped-0"])
def test_a_directory_of_kafka_0_8_is_sound(partition: str) -> None:
    found = verified(broker_dirs.oldest() / partition)
    assert (found.findings, found.records, found.segments) == ((), 80, 4)


def test_the_command_calls_a_directory_of_kafka_0_8_sound() -> None:
    done = commitlog("verify", "--log-dir", broker_dirs.oldest())
    assert (done.code, done.stdout.count(": sound;")) == (0, 2)


@pytest.mark.parametrize("partition", ["v0-none-0", "v0-gzip-0", "v1-none-0", "v1-gzip-0", "v1-append-time-0"])
def test_messages_of_magic_0_and_1_need_no_time_index_where_no_segment_has_one(partition: str, tmp_path: Path) -> None:
    assert not verified(as_before_0_10_1(partition, tmp_path)).findings


def test_record_batches_need_a_time_index(tmp_path: Path) -> None:
    found = verified(as_before_0_10_1("v2-none-0", tmp_path)).findings
    assert Kind.MISSING_INDEX in {each.kind for each in found}


def test_a_time_index_that_only_one_segment_lacks_is_missing(tmp_path: Path) -> None:
    partition = tmp_path / "v0-none-0"
    shutil.copytree(broker_dirs.legacy() / "log" / partition.name, partition)
    path = sorted(partition.glob("*.timeindex"))[1]
    path.unlink()
    assert [(each.kind, each.path) for each in verified(partition).findings] == [(Kind.MISSING_INDEX, str(path))]


def test_an_offset_index_is_missing_in_old_directories_too(tmp_path: Path) -> None:
    partition = tmp_path / "plain-0"
    shutil.copytree(broker_dirs.oldest() / partition.name, partition)
    path = sorted(partition.glob("*.index"))[0]
    path.unlink()
    assert [(each.kind, each.path) for each in verified(partition).findings] == [(Kind.MISSING_INDEX, str(path))]
