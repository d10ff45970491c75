"""A log directory with one damaged file: readers, verification, salvage, dump, recovery, writing, maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.dump.one_file import dump_file
from pyspark_commitlog.storage.dump.options import DumpFindings, DumpOptions
from pyspark_commitlog.storage.errors import CorruptionError, LogStoreError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.groups.offsets import GroupOffsets
from pyspark_commitlog.storage.index_rebuild.log import plan_rebuild, rebuild_log
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.damaged import salvaged_records
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.verify.log import CheckpointedOffsets, verify_log
from pyspark_commitlog.storage.writing.log import Log
from tests.support.disk.disks import get, put
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.kafka import broker_dirs
from tests.support.logs.building import append
from tests.torture.damage.damaging import damage, sign_batches, sign_messages, sign_snapshot
from tests.torture.damage.files import DETECTED, HARMLESS, Content, Subject, contents

PARTITION = "/logs/t-0"
CONFIG = LogConfig.from_mapping(
    {"segment.index.bytes": "4096", "cleanup.policy": "compact,delete", "retention.ms": "-1"}
)
FILE_BYTES_MAX = 40_000  # of a partition's log: more takes longer and says no more

Rows = list[tuple[int, Content]]


@dataclass(frozen=True)
class Sound:
    """A partition as it was written, all of it synced."""

    name: str
    disk: MemoryFileSystem
    rows: Rows
    end_offset: int

    @property
    def checkpoints(self) -> KeptInMemory:
        return KeptInMemory(recovery_point=self.end_offset)

    def reader(self, disk: MemoryFileSystem) -> LogReader:
        return LogReader.open(PARTITION, CONFIG, clock=disk.clock, filesystem=disk, checkpoints=self.checkpoints)

    def writer(self, disk: MemoryFileSystem) -> Log:
        return Log.open(PARTITION, CONFIG, clock=disk.clock, filesystem=disk, checkpoints=self.checkpoints)


def rows_of(reader: LogReader, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> Rows:
    found: Rows = []
    for part in reader.records(reader.log_start_offset, reader.end_offset(isolation), isolation=isolation):
        found += zip(part.offsets.tolist(), contents(part), strict=True)
    return found


# The damage


def damaged_disk(sound: Sound, chance: Random) -> tuple[MemoryFileSystem, str, bool]:
    """A copy of which one file is damaged, the file, and whether its checksums were made right again."""
    disk = sound.disk.copy()
    name = chance.choice([name for name in disk.list(PARTITION) if not name.startswith(".")])
    path = f"{PARTITION}/{name}"
    before = get(disk, path) or b""
    after = damage(chance, before)
    signed = chance.random() < 0.3 and name.endswith((file_names.LOG, file_names.SNAPSHOT))
    if signed:
        sign = sign_snapshot if name.endswith(file_names.SNAPSHOT) else sign_of(before)
        after = sign(after)
    if chance.random() < 0.05:
        disk.remove(path)
    else:
        with disk.open(path, "write") as file:
            file.truncate(0)
            file.write(0, after)
    return disk, path, signed


def sign_of(data: bytes) -> Callable[[bytes], bytes]:
    return sign_batches if len(data) > 16 and data[16] == v2.MAGIC else sign_messages


# What must hold


def attempt_partition(sound: Sound, chance: Random) -> str:
    disk, path, signed = damaged_disk(sound, chance)
    found = read_damaged(sound, disk)
    if not signed:
        check_nothing_strange(sound, found or [])
        check_salvage(sound, disk)
        if path.endswith(file_names.LOG) and found != sound.rows:
            check_told(sound, disk, found)
    for look in (verify, dump, preview_rebuild):
        look(sound, disk)
    chance.choice((write, compact, rebuild))(sound, disk, signed)
    return HARMLESS if found == sound.rows else DETECTED


def read_damaged(sound: Sound, disk: MemoryFileSystem) -> Rows | None:
    """None where an error says that something is damaged."""
    try:
        with sound.reader(disk) as reader:
            for isolation in Isolation:
                rows_of(reader, isolation)
            reader.offset_for_timestamp(1_600_000_000_000)
            return rows_of(reader)
    except LogStoreError:
        return None


def check_nothing_strange(sound: Sound, found: Rows) -> None:
    strange = {content for _, content in found} - {content for _, content in sound.rows}
    assert not strange, f"records that nobody wrote: {strange}"


def check_told(sound: Sound, disk: MemoryFileSystem, found: Rows | None) -> None:
    """If readers see another log than was written, ``verify`` reports damage."""
    told = verify(sound, disk)
    assert told or is_of_unchecked_bytes(sound, found), (
        f"{len(sound.rows)} records were written, {len(found or [])} read"
    )


def is_of_unchecked_bytes(sound: Sound, found: Rows | None) -> bool:
    """The same records in the same order, at other offsets: of a first or last batch, no checksum would tell."""
    return found is not None and [content for _, content in found] == [content for _, content in sound.rows]


def check_salvage(sound: Sound, disk: MemoryFileSystem) -> None:
    """Only what was written, and each piece of damage is told once."""
    told: list[CorruptionError] = []
    try:
        with sound.reader(disk) as reader:
            for part in salvaged_records(
                reader, 0, sound.end_offset, told.append, isolation=Isolation.READ_UNCOMMITTED
            ):
                check_nothing_strange(sound, list(zip(part.offsets.tolist(), contents(part), strict=True)))
    except LogStoreError:
        return
    places = [(error.path, error.reason if error.position is None else error.position) for error in told]
    assert len(places) == len(set(places))


def verify(sound: Sound, disk: MemoryFileSystem) -> list[str]:
    context = LogContext(PARTITION, CONFIG, disk.clock, disk, writable=False)
    marks = CheckpointedOffsets(recovery_point=sound.end_offset, log_start_offset=0)
    return [str(finding) for finding in verify_log(context, marks).findings]


def dump(sound: Sound, disk: MemoryFileSystem) -> None:
    for name in disk.list(PARTITION):
        try:
            for _ in dump_file(f"{PARTITION}/{name}", DumpOptions(print_data_log=True), DumpFindings(), disk):
                pass
        except LogStoreError:
            continue


def preview_rebuild(sound: Sound, disk: MemoryFileSystem) -> None:
    try:
        with sound.reader(disk) as reader:
            plan_rebuild(reader)
    except LogStoreError:
        return


def write(sound: Sound, disk: MemoryFileSystem, signed: bool) -> None:
    """A writer refuses, or goes on behind what is there."""
    try:
        with sound.writer(disk) as log:
            before = rows_of(log)
            append(log, b"behind the damage")
            after = rows_of(log)
    except LogStoreError:
        return
    assert signed or after[: len(before)] == before
    assert after[-1][1][3] == b"behind the damage"
    assert after[-1][0] > max((offset for offset, _ in before), default=-1)


def compact(sound: Sound, disk: MemoryFileSystem, signed: bool) -> None:
    try:
        with sound.writer(disk) as log:
            Cleaner().clean(log, 0, disk.clock.now_ms())
            found = rows_of(log)
    except LogStoreError:
        return
    if not signed:
        check_nothing_strange(sound, found)


def rebuild(sound: Sound, disk: MemoryFileSystem, signed: bool) -> None:
    try:
        with sound.writer(disk) as log:
            rebuild_log(log)
            found = rows_of(log)
    except LogStoreError:
        return
    if not signed:
        check_nothing_strange(sound, found)


# The partitions


def partition_of(path: Path) -> Sound | None:
    """A partition that a broker left, on a disk in memory; its first segments only where it is large."""
    logs = sorted(path.glob("*.log"))
    if not sum(log.stat().st_size for log in logs) or logs[0].stat().st_size > FILE_BYTES_MAX:
        return None
    disk = MemoryFileSystem()
    disk.make_directory(PARTITION)
    size, last = 0, logs[0].stem
    for log in logs:
        size += log.stat().st_size
        last = log.stem if size <= FILE_BYTES_MAX else last
    for file in sorted(path.iterdir()):
        offset = file_names.base_offset_of(file.name)
        if offset is None or offset <= int(last):
            put(disk, f"{PARTITION}/{file.name}", file.read_bytes(), sync=True)
    return sound_partition(f"{path.parent.parent.parent.name}, {path.name}", disk)


def sound_partition(name: str, disk: MemoryFileSystem) -> Sound:
    with Log.open(PARTITION, CONFIG, clock=disk.clock, filesystem=disk, checkpoints=KeptInMemory()) as log:
        return Sound(name, disk, rows_of(log), log.log_end_offset)


def partitions() -> Iterator[Sound]:
    roots = [broker_dirs.legacy() / "log"]
    roots += [
        broker_dirs.stage(f"{scenario}/final") / "log" for scenario in ("codecs", "transactions", "rolls", "groups")
    ]
    for root in roots:
        for path in sorted(root.iterdir()):
            found = partition_of(path) if path.is_dir() and path.name not in file_names.IGNORED_DIRECTORIES else None
            if found is not None:
                yield found


# Internal topics, read by those who believe them


@cache
def internal_directory() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    with LogManager.open("/logs", create=True, clock=disk.clock, filesystem=disk) as manager:
        for topic in ("__consumer_offsets", "__transaction_state", "t"):
            manager.create_topic(topic, partitions=1, configs={"segment.index.bytes": "1000"})
        coordinator = TransactionCoordinator.open(manager, "app")
        for _ in range(3):
            transaction = coordinator.begin([("t", 0)], groups=["app"])
            coordinator.commit(transaction, [], {})
        coordinator.close()
    return disk


def attempt_internal(topic: str, chance: Random) -> str:
    """Records with right checksums that say something else, and files at the root: an error, or an answer."""
    disk = internal_directory().copy()
    paths = [f"/logs/{name}" for name in disk.list("/logs") if "checkpoint" in name or name.endswith(".json")]
    paths += [
        f"/logs/{topic}-0/{name}"
        for name in disk.list(f"/logs/{topic}-0")
        if name.endswith((file_names.LOG, file_names.SNAPSHOT))
    ]
    path = chance.choice(paths)
    after = damage(chance, get(disk, path) or b"")
    if path.endswith(file_names.LOG):
        after = sign_batches(after)
    with disk.open(path, "write") as file:
        file.truncate(0)
        file.write(0, after)
    try:
        with LogManager.open("/logs", clock=disk.clock, filesystem=disk) as manager:
            manager.topics()
            GroupOffsets(manager).fetch("app")
            coordinator = TransactionCoordinator.open(manager, "app")
            coordinator.abort(coordinator.begin([("t", 0)], groups=[]))
            coordinator.close()
    except LogStoreError:
        return DETECTED
    return HARMLESS


@cache
def subjects() -> list[Subject]:
    found = [Subject(sound.name, partial(attempt_partition, sound)) for sound in partitions()]
    return [
        *found,
        *(
            Subject(f"what {topic} says", partial(attempt_internal, topic))
            for topic in ("__consumer_offsets", "__transaction_state")
        ),
    ]
