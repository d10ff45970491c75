"""Compaction of magic 0 and 1: compared with a 2.8 broker's cleaner, and on logs made up by hypothesis."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.format import by_magic
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.format.tables import BinaryColumn, Records
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, config

PARTITIONS = [f"v{magic}-compacted-{partition}" for magic in (0, 1) for partition in range(2)]
CODECS = {0: (Codec.NONE, Codec.GZIP, Codec.SNAPPY), 1: (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)}
Pairs = Sequence[tuple[bytes, bytes | None]]


def rows(log: Log) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Offset, timestamp, key and value of every record."""
    found: list[tuple[int, int, bytes | None, bytes | None]] = []
    for part in log.records(log.log_start_offset, log.log_end_offset):
        assert part.keys is not None
        assert part.values is not None
        columns = (part.offsets.tolist(), part.timestamps.tolist(), part.keys.to_list(), part.values.to_list())
        found += zip(*columns, strict=True)
    return found


def content(log: Log) -> bytes:
    return b"".join(bytes(window.buffer) for segment in log.segments for window in segment.batches())


# Results of Kafka 2.8.2


def opened(partition: str, into: Path) -> Log:
    shutil.copytree(broker_dirs.legacy() / "log" / partition, into)
    return Log.open(str(into), config(cleanup_policy="compact", file_delete_delay_ms=0), clock=ManualClock())


def first_dirty_offset(partition: str) -> int:
    path = broker_dirs.legacy() / "log" / file_names.CLEANER_OFFSET_CHECKPOINT
    return checkpoints.decode_offsets(path.read_bytes())[broker_dirs.topic_partition(partition)]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_result_of_kafkas_cleaner_is_not_changed(partition: str, tmp_path: Path) -> None:
    with opened(partition, tmp_path / partition) as log:
        log.truncate_to(first_dirty_offset(partition))
        log.roll()
        before, written = rows(log), content(log)
        counts = Cleaner().clean(log, None, NOW_MS).counts
        assert counts.records_kept == counts.records_read == len(before) > 30
        assert content(log) == written


@pytest.mark.parametrize("partition", PARTITIONS)
def test_what_kafkas_cleaner_had_not_reached_is_compacted_to_the_newest_per_key(partition: str, tmp_path: Path) -> None:
    with opened(partition, tmp_path / partition) as log:
        log.roll()
        before = rows(log)
        newest = {key: offset for offset, _, key, _ in before}
        Cleaner().clean(log, first_dirty_offset(partition), NOW_MS)
        assert rows(log) == [row for row in before if newest[row[2]] == row[0]]
        assert len(rows(log)) == len(newest) < len(before)


# Random logs


KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
ROWS = st.lists(st.tuples(KEYS, st.sampled_from([None, b"", b"x" * 30])), min_size=1, max_size=5)
SETS = st.one_of(*(st.tuples(st.just(magic), st.sampled_from(codecs), ROWS) for magic, codecs in CODECS.items()))


def message_set(magic: int, codec: Codec, pairs: Pairs, first_offset: int) -> np.ndarray:
    count = len(pairs)
    records = Records(
        np.arange(first_offset, first_offset + count, dtype=np.int64),
        np.full(count, NOW_MS if magic else -1, dtype=np.int64) + np.arange(count) * magic,
        np.zeros(count, dtype=np.int8),
        BinaryColumn.from_list([key for key, _ in pairs]),
        BinaryColumn.from_list([value for _, value in pairs]),
        None,
    )
    encoded: np.ndarray = by_magic(magic).encode(records, codec)
    return encoded


def write(log: Log, magic: int, codec: Codec, pairs: Pairs) -> None:
    log.append(message_set(magic, codec, pairs, log.log_end_offset), origin=Origin.REPLICATION)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.just("roll"), st.just("clean"), SETS), min_size=1, max_size=15))
def test_compaction_of_any_old_log_keeps_the_newest_of_each_key(
    actions: list[str | tuple[int, Codec, Pairs]],
) -> None:
    """Cleans all closed segments each time: as long as nothing is clean, tombstones stay."""
    disk = MemoryFileSystem(ManualClock())
    settings_ = config(cleanup_policy="compact", file_delete_delay_ms=0)
    with Log.open("/p-0", settings_, clock=disk.clock, filesystem=disk) as log:
        for action in (*actions, "roll", "clean"):
            if action == "roll":
                log.roll()
            elif action == "clean":
                before, closed = rows(log), log.segments.active.base_offset
                newest = {key: offset for offset, _, key, _ in before if offset < closed}
                Cleaner().clean(log, None, 0)
                assert rows(log) == [row for row in before if row[0] >= closed or newest[row[2]] == row[0]]
            else:
                assert not isinstance(action, str)
                write(log, *action)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("age_ms", "stays"), [(999, True), (1000, False)])
def test_a_tombstone_is_dropped_if_its_file_is_older_than_the_newest_clean_one(
    magic: int, age_ms: int, *, stays: bool
) -> None:
    """The format has no delete horizon, so as in Kafka the times of files decide."""
    disk = MemoryFileSystem(ManualClock())
    settings_ = config(cleanup_policy="compact", delete_retention_ms=1000, file_delete_delay_ms=0)
    with Log.open("/p-0", settings_, clock=disk.clock, filesystem=disk) as log:
        for pairs in ([(b"a", None), (b"b", b"1")], [(b"c", b"1")], [(b"d", b"1")]):
            write(log, magic, Codec.GZIP, pairs)
            log.roll()
        for base, modified_ms in ((0, 5000 - age_ms), (2, 5000)):
            disk.set_modified(f"/p-0/{base:020}.log", modified_ms)
        Cleaner().clean(log, 3, 10_000)
        assert [(key, value) for _, _, key, value in rows(log)] == [
            *([(b"a", None)] if stays else []),
            (b"b", b"1"),
            (b"c", b"1"),
            (b"d", b"1"),
        ]
