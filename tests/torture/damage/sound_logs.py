"""Partitions that real Kafka wrote, each alone in a log directory in memory, with what Kafka's own readers say of it.

Three surroundings: alone, as a partition is copied off a disk; beside the checkpoints of a broker that was stopped; and
beside checkpoints and ``topics.json``. What a reader sees of a partition is the same in all of them, but for records
that were deleted and are still in their segment: only a checkpoint tells of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.directory.log_directory import TOPICS_FILE
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.protected_topics import COORDINATOR_TOPICS
from pyspark_commitlog.storage.directory.topics_file import TopicDescription, encode_topics
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.format.tables import BinaryColumn, Records
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.reader import LogReader
from tests.support.clock import ManualClock
from tests.support.disk.frozen_filesystem import FrozenFileSystem
from tests.support.kafka import broker_dirs
from tests.support.logs import record_sets
from tests.torture.suite import quiet

ROOT = "/logs"
RECORD_SET = "record set"
LOG_BYTES_MAX = 8_000  # of the segments of a subject, the first one aside: more takes longer and says no more
SEGMENT_BYTES_MAX = 40_000
ALONE, CHECKPOINTS, SETTINGS = "alone", "beside checkpoints", "beside checkpoints and topics.json"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
STAGES = (
    *(f"{name}/final" for name in ("plain", "codecs", "idempotent", "transactions", "times", "groups", "rolls")),
    *(f"{name}/{stage}-{n}" for name in ("compaction", "compaction-small-buffers", "4-compaction-small-buffers")
      for n in (1, 2, 3) for stage in ("before", "after")),
    *(f"4-{name}/final" for name in ("plain", "codecs", "new-groups", "transactions-v2")),
    "groups/cleaned", "leader-epochs/final", "recovery-crash/recovered", "retention/stopped",
    "recovery-damage/before-damage", "transactions/restarted", "4-transactions-v2/restarted",
)  # fmt: skip

Row = tuple[Any, ...]  # offset, timestamp, its type, key, value, headers


class Batch(NamedTuple):
    """Where a batch lies, as it was written."""

    path: str
    position: int
    end: int
    magic: int
    base_offset: int
    last_offset: int


@dataclass(frozen=True)
class SoundLog:
    """A partition as it was written, in one kind of surroundings."""

    name: str
    topic: str
    partition: int
    disk: FrozenFileSystem
    surroundings: str
    configs: Mapping[str, str]
    rows: Mapping[Isolation, tuple[Row, ...]]
    signatures: Mapping[Isolation, bytes]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int  # as the checkpoint says; 0 where there is none
    cleaner_offset: int | None  # below it, compaction has passed; None: nowhere

    @property
    def directory(self) -> str:
        return f"{ROOT}/{self.topic}-{self.partition}"

    @property
    def is_of_broker(self) -> bool:
        """Or else one of the record sets."""
        return not self.name.startswith(RECORD_SET)

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """In the order of the log."""
        return tuple(batches_in(self.disk, self.directory))

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Paths of the partition's files."""
        return tuple(sorted(path for path in self.disk.files if path.startswith(self.directory + "/")))

    @cached_property
    def root_files(self) -> tuple[str, ...]:
        """Paths of the files beside it."""
        return tuple(sorted(path for path in self.disk.files if path.count("/") == ROOT.count("/") + 1))


def batches_in(disk: FrozenFileSystem, directory: str) -> Iterator[Batch]:
    for name in disk.list(directory):
        if name.endswith(file_names.LOG):
            path = f"{directory}/{name}"
            table = formats.scan(np.frombuffer(disk.files[path], np.uint8)).headers.table
            for row in table:
                first, size = int(row["position"]), int(row["size"])
                offsets = int(row["base_offset"]), int(row["last_offset"])
                yield Batch(path, first, first + size, int(row["magic"]), *offsets)


# What is read


class Reading(NamedTuple):
    """All that a reader was shown."""

    parts: list[Records]

    def rows(self) -> list[Row]:
        return [row for part in self.parts for row in rows_of(part)]

    def signature(self) -> bytes:
        """Equal for two readings of the same records, in whatever pieces they came."""
        columns: list[list[bytes]] = [[] for _ in range(12)]
        for part in self.parts:
            for column, data in zip(columns, _columns(part), strict=True):
                column.append(data)
        return b"|".join(b"".join(column) for column in columns)


def _columns(part: Records) -> Iterator[bytes]:
    yield part.offsets.tobytes()
    yield part.timestamps.tobytes()
    yield part.timestamp_types.tobytes()
    assert part.keys is not None
    assert part.values is not None
    yield from _strings(part.keys)
    yield from _strings(part.values)
    if part.headers is None:
        yield bytes(4 * len(part))
        yield from (b"",) * 4
    else:
        yield np.diff(part.headers.offsets).astype(np.int32).tobytes()
        first, last = int(part.headers.offsets[0]), int(part.headers.offsets[-1])
        yield from _strings(part.headers.keys.slice(first, last))
        yield from _strings(part.headers.values.slice(first, last))


def _strings(column: BinaryColumn) -> Iterator[bytes]:
    lengths = np.diff(column.offsets)
    if column.valid is not None:
        lengths = np.where(column.valid, lengths, -1)
    yield lengths.astype(np.int32).tobytes()
    yield column.data[int(column.offsets[0]) : int(column.offsets[-1])].tobytes()


def rows_of(part: Records) -> list[Row]:
    assert part.keys is not None
    assert part.values is not None
    headers: list[tuple[Any, ...]] = [()] * len(part)
    if part.headers is not None:
        pairs = list(zip(part.headers.keys.to_list(), part.headers.values.to_list(), strict=True))
        headers = [tuple(pairs[first:last]) for first, last in pairwise(part.headers.offsets.tolist())]
    columns = (part.offsets.tolist(), part.timestamps.tolist(), part.timestamp_types.tolist())
    return list(zip(*columns, part.keys.to_list(), part.values.to_list(), headers, strict=True))


def read_all(reader: LogReader, isolation: Isolation) -> Reading:
    return Reading(list(reader.records(reader.log_start_offset, reader.end_offset(isolation), isolation=isolation)))


def open_reader(disk: FrozenFileSystem, topic: str, partition: int) -> LogReader:
    """As the data source opens it: its settings and checkpoints are those of the directory."""
    return LogManager.open(ROOT, clock=ManualClock(), filesystem=disk).open_reader(topic, partition)


# Where they come from


class _Found(NamedTuple):
    """Files of a partition, and what is known of it."""

    name: str
    topic: str
    partition: int
    files: Mapping[str, bytes]  # by name
    configs: Mapping[str, str]
    log_start_offset: int
    cleaner_offset: int | None
    expected: Mapping[Isolation, list[broker_dirs.Row]] | None  # as Kafka's consumer read them; None: nobody asked
    is_whole: bool  # all segments are there


def _of_brokers() -> Iterator[_Found]:
    for stage in STAGES:
        log = broker_dirs.stage(stage) / "log"
        configs = broker_dirs.settings(stage.partition("/")[0])["topics"]
        consumed = broker_dirs.consumed(stage)
        for path in sorted(log.iterdir()):
            if path.is_dir() and path.name not in file_names.IGNORED_DIRECTORIES:
                topic = broker_dirs.topic_partition(path.name)[0]
                kafka = consumed.get(path.name)
                expected = None if kafka is None else {
                    level: broker_dirs.expected_rows(kafka[level.value]["records"]) for level in Isolation
                }  # fmt: skip
                given = configs.get(topic, {}).get("configs") or COORDINATOR_TOPICS.get(topic, {})
                found = _of_partition(stage, path, given, expected)
                if found is not None:
                    yield found
    log = broker_dirs.legacy() / "log"
    for path in sorted(log.iterdir()):
        if path.is_dir() and file_names.parse_partition_directory(path.name):
            topic = broker_dirs.topic_partition(path.name)[0]
            is_compacted = "compacted" in topic or topic in COORDINATOR_TOPICS
            configs = {"cleanup.policy": "compact"} if is_compacted else {}
            found = _of_partition("2.8.2", path, configs, None)
            if found is not None:
                yield found


def _of_partition(
    stage: str, path: Path, configs: Mapping[str, str], expected: Mapping[Isolation, list[broker_dirs.Row]] | None
) -> _Found | None:
    """Its first segments only where it is large."""
    logs = sorted(path.glob("*.log"))
    sizes = [log.stat().st_size for log in logs]
    if not sum(sizes) or sizes[0] > SEGMENT_BYTES_MAX:
        return None
    kept = max(1, int(np.searchsorted(np.cumsum(sizes), LOG_BYTES_MAX, side="right")))
    is_whole = kept == len(logs)
    end = None if is_whole else int(logs[kept].stem)
    files = {}
    for file in sorted(path.iterdir()):
        offset = file_names.base_offset_of(file.name)
        is_kept = (
            offset is None or end is None or offset < end or (offset == end and file.suffix == file_names.SNAPSHOT)
        )
        if is_kept and file.is_file() and not file.name.startswith(".") and not file.name.endswith(file_names.DELETED):
            files[file.name] = file.read_bytes()
    if end is not None:
        _cut_epochs(files, end)
    key = broker_dirs.topic_partition(path.name)
    cleaner = _offset_of(path.parent / file_names.CLEANER_OFFSET_CHECKPOINT, key)
    log_start = _offset_of(path.parent / file_names.LOG_START_OFFSET_CHECKPOINT, key) or 0
    cleaner = min(cleaner, end) if cleaner is not None and end is not None else cleaner
    return _Found(f"{stage}, {path.name}", *key, files, configs, log_start, cleaner, expected, is_whole)


def _cut_epochs(files: dict[str, bytes], end: int) -> None:
    data = files.get(file_names.LEADER_EPOCH_CHECKPOINT)
    if data is not None:
        kept = [entry for entry in checkpoints.decode_leader_epochs(data) if entry.start_offset < end]
        files[file_names.LEADER_EPOCH_CHECKPOINT] = checkpoints.encode_leader_epochs(kept)


def _offset_of(path: Path, key: tuple[str, int]) -> int | None:
    return checkpoints.decode_offsets(path.read_bytes()).get(key) if path.exists() else None


def _of_record_sets() -> Iterator[_Found]:
    """Each alone in a segment."""
    for name in record_sets.names():
        data = record_sets.log_bytes(name).tobytes()
        if name.startswith(record_sets.DAMAGED) or not 0 < len(data) <= LOG_BYTES_MAX:
            continue
        batches = record_sets.load(name)["batches"]
        base = batches[0]["baseOffset"]
        has_holes = any(after["baseOffset"] != before["lastOffset"] + 1 for before, after in pairwise(batches))
        has_holes |= any(len(batch["records"]) != batch["lastOffset"] - batch["baseOffset"] + 1 for batch in batches)
        configs = {"cleanup.policy": "compact"} if has_holes else {}
        cleaner = batches[-1]["lastOffset"] + 1 if has_holes else None
        files = {file_names.segment_file(base, file_names.LOG): data}
        yield _Found(f"{RECORD_SET} {name}", "t", 0, files, configs, 0, cleaner, None, True)


def _surrounded(found: _Found, surroundings: str, log_end_offset: int) -> dict[str, bytes]:
    key = (found.topic, found.partition)
    files = {f"{ROOT}/{found.topic}-{found.partition}/{name}": data for name, data in found.files.items()}
    if surroundings == ALONE:
        return files
    marks = {
        file_names.RECOVERY_POINT_CHECKPOINT: log_end_offset,
        file_names.LOG_START_OFFSET_CHECKPOINT: found.log_start_offset or None,
        file_names.HIGH_WATERMARK_CHECKPOINT: log_end_offset,
        file_names.CLEANER_OFFSET_CHECKPOINT: found.cleaner_offset,
    }
    for name, offset in marks.items():
        files[f"{ROOT}/{name}"] = checkpoints.encode_offsets({} if offset is None else {key: offset})
    if surroundings == CHECKPOINTS:
        files[f"{ROOT}/{file_names.CLEAN_SHUTDOWN_FILE}"] = b'{"version":0,"brokerEpoch":7}'
    if surroundings == SETTINGS:
        partitions = tuple(range(found.partition + 1))
        topic = TopicDescription(found.topic, partitions, {**broker_dirs.BROKER_CONFIGS, **found.configs}, TOPIC_ID)
        files[f"{ROOT}/{TOPICS_FILE}"] = encode_topics([topic])
    return files


def _sound(found: _Found, surroundings: str, written: dict[Isolation, Reading], end: int) -> SoundLog:
    return SoundLog(
        name=f"{found.name}, {surroundings}",
        topic=found.topic,
        partition=found.partition,
        disk=FrozenFileSystem(_surrounded(found, surroundings, end)),
        surroundings=surroundings,
        configs=found.configs,
        rows={level: tuple(reading.rows()) for level, reading in written.items()},
        signatures={level: reading.signature() for level, reading in written.items()},
        log_start_offset=found.log_start_offset,
        log_end_offset=end,
        recovery_point=0 if surroundings == ALONE else end,
        cleaner_offset=found.cleaner_offset,
    )


def _check_as_kafka_read(found: _Found, written: dict[Isolation, Reading]) -> None:
    """The records are those that Kafka's consumer returned; of a log that was cut, as far as it goes."""
    if found.expected is None:
        return
    for level, reading in written.items():
        ours = [row[:5] for row in reading.rows()]
        kafka = [
            (offset, timestamp, next(k for k, text in broker_dirs.TIMESTAMP_TYPES.items() if text == kind), key, value)
            for offset, timestamp, kind, key, value, _ in found.expected[level]
        ]
        assert ours == kafka[: len(ours)], found.name
        assert not found.is_whole or len(ours) == len(kafka), found.name


def _as_written(found: _Found) -> tuple[dict[Isolation, Reading], int]:
    """Read with all that is known of it."""
    disk = FrozenFileSystem(_surrounded(found, SETTINGS, 0))
    with open_reader(disk, found.topic, found.partition) as reader:
        return {level: read_all(reader, level) for level in Isolation}, reader.log_end_offset


@cache
def sound_logs() -> tuple[SoundLog, ...]:
    """All of them, in their surroundings: half of the draws should be of those alone."""
    logs: list[SoundLog] = []
    with quiet():
        for found in (*_of_brokers(), *_of_record_sets()):
            written, end = _as_written(found)
            _check_as_kafka_read(found, written)
            logs += [_sound(found, each, written, end) for each in (CHECKPOINTS, SETTINGS)]
            alone = found._replace(
                log_start_offset=0
            )  # of records that were deleted, those that are still there come back
            logs.append(_sound(alone, ALONE, _as_written(alone)[0] if found.log_start_offset else written, end))
    return tuple(logs)
