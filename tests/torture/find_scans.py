"""Search random topics, and look that each search finds what a full scan finds, whatever their key filters are like.

A topic has one of all codecs and message formats, is plain, compacted or transactional, and lies in a directory of
ours, on an object store, or in a directory of Kafka 0.7. Its filters are made before or after the last compaction; then
some are removed, damaged, cut, exchanged, or of a segment as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from unittest.mock import patch

from pyspark_commitlog.classic.log_0_7.directory import PositionLogDirectory
from pyspark_commitlog.classic.log_0_7.entries import encode_set
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.classic.log_0_7.topics import PositionTopics
from pyspark_commitlog.storage import (
    Bounds,
    Condition,
    ConfigOverrides,
    Isolation,
    LogManager,
    MaintenanceRun,
    Operation,
    Records,
    Timespan,
    compact_partitions,
    filter_partitions,
    in_this_process,
    select_partitions,
)
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.key_filters.files import FILE_BYTES
from pyspark_commitlog.storage.key_filters.filter_file import encode
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from tests.storage.compaction.test_rounds_legacy import CODECS, message_set
from tests.storage.finding.scanning import Row, all_rows, are_newest_first, conditions_from, found, is_wanted, rows_of
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS, end_transaction, write_transactional
from tests.support.logs.key_filters import filters_in
from tests.support.stores.memory_store import MemoryStore
from tests.torture.suite import Case, Run, Suite, quiet

PARTITIONS = (0, 1)
DAY_MS = 86_400_000
BUCKET = "memory://bucket"
KEYS = (None, b"", *(b"%d" % number for number in range(30)))
TEXTS = (None, b"", b"a", b"ab", b"abc", b"\xff\x00", b"b" * 300)


def run(run: Run) -> None:
    with quiet():
        for case in run.cases():
            kind = case.chance.choices(("directory", "bucket", "0.7"), (6, 3, 1))[0]
            with run.watching(case, kind):
                KINDS[kind](run, case, run.directory / str(case.number))
            run.passed()


def in_directory(run: Run, case: Case, path: Path) -> None:
    with made(case.chance, path) as manager:
        spoil([*path.glob("t-*/*.keyfilter")], case.chance)
        restore_some([*path.glob("t-*/*.log")], case.chance)
        compare(run, case.chance, manager)


def on_bucket(run: Run, case: Case, path: Path) -> None:
    """Copies the topic, or most of it, to an object store; filters are made there, and spoiled."""
    chance, store = case.chance, MemoryStore()
    log = open_root(BUCKET, create=True, store=store, check=lambda _: [])
    with made(chance, path) as source:
        list(copy_to_bucket(source, log, limit=chance.choice([1500, 10_000])))
    files = BucketFileSystem(open_root(BUCKET, store=store))
    with LogManager.open(BUCKET, filesystem=files, clock=ManualClock(NOW_MS + DAY_MS)) as manager:
        consolidates = ConfigOverrides.parse(["segment.ms=1"] * (chance.random() < 0.8))
        for operation in (compact_partitions, filter_partitions):
            maintain(manager, operation, filesystem=files, overrides=consolidates)
        keys = [facts.key for facts in store.list("segments") if facts.key.endswith(".keyfilter")]
        run.note("filters on a store", len(keys))
        for key in keys:
            data = store.get(key, limit=1 << 20)
            store.put(key, spoiled(data, [store.get(each, limit=1 << 20) for each in keys], chance) or b"")
        compare(run, chance, manager)


def of_0_7(run: Run, case: Case, path: Path) -> None:
    """Writes a topic of 0.7, and compares with what its own reader returns."""
    chance = case.chance
    settings = PositionLogSettings.from_mapping({"log.file.size": "2000", "num.partitions": str(len(PARTITIONS))})
    with PositionLogDirectory(str(path), settings) as directory:
        for _ in range(60):
            log = directory.log_to_append("t", chance.choice(PARTITIONS))
            values = [chance.choice(TEXTS[1:]) or b"" for _ in range(chance.randint(1, 4))]
            log.append(encode_set(values, chance.choice([Codec.NONE, Codec.GZIP, Codec.SNAPPY])))
    topics = PositionTopics(str(path))
    rows = [row for number in PARTITIONS for row in _position_rows(topics, number)]
    for text in (b"a", b"ab", b"\xff", b"absent", b""):
        condition = Condition(value_contains=text)
        places = sorted({row.offset for row in rows})
        for bounds in (Bounds(), Bounds(end=chance.choice(places))):
            expected = [row for row in rows if is_wanted(row, condition, bounds)]
            assert found(topics, "t", condition, bounds) == expected
            run.note("searches")


def _position_rows(topics: PositionTopics, number: int) -> list[Row]:
    reader = topics.open_reader("t", number)
    try:
        return [row for records in reader.records(reader.start) for row in rows_of(number, records)]
    finally:
        reader.close()


KINDS = {"directory": in_directory, "bucket": on_bucket, "0.7": of_0_7}


# Making a topic


def made(chance: Random, path: Path) -> LogManager:
    """Returns the manager of a directory with a random topic of two partitions, and its filters."""
    manager = LogManager.open(str(path), create=True, clock=ManualClock(NOW_MS))
    codec = chance.choice(["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    configs = {"segment.bytes": "2000", "index.interval.bytes": "300", "compression.type": codec}
    compacts = chance.random() < 0.3
    if compacts:
        configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    manager.create_topic("t", partitions=len(PARTITIONS), configs=configs | {"keyfilter.enable": "true"})
    magic = chance.choice([0, 1, 2, 2, 2])
    for batch in range(60):
        if magic < 2 and batch == 40 and chance.random() < 0.5:
            magic = 2  # as on a broker that was upgraded
        append(manager, chance, batch, magic=magic, compacts=compacts)
    with patch("pyspark_commitlog.storage.filtering.partition.FILE_BYTES", chance.choice([100, 300, FILE_BYTES])):
        maintain(manager, filter_partitions)
        maintain(manager, compact_partitions)
        if chance.random() < 0.7:
            maintain(manager, filter_partitions)
    return manager


def append(manager: LogManager, chance: Random, batch: int, *, magic: int, compacts: bool) -> None:
    """Appends a batch with keys, null keys, headers and tombstones, or a transaction."""
    log = manager.open_log("t", chance.choice(PARTITIONS))
    count = chance.randint(1, 4)
    keys = chance.choices(KEYS[compacts:], k=count)  # compacted topics take no null keys
    values = chance.choices(TEXTS, k=count)
    if magic < 2:
        pairs = list(zip(keys, values, strict=True))
        old = message_set(magic, chance.choice(CODECS[magic]), pairs, log.log_end_offset)  # type: ignore[arg-type]
        log.append(old, origin=Origin.REPLICATION)
    elif not compacts and chance.random() < 0.3:
        write_transactional(log, 40 + batch, 0, *(text or b"" for text in values))
        if batch < 58 or chance.random() < 0.5:  # the last ones may stay open
            end_transaction(log, 40 + batch, commit=chance.random() < 0.5)
    else:
        headers = [(b"h", chance.choice([b"1", b"2", None]))] * chance.randint(0, 2)
        log.append_records(Records.to_append(keys, values, NOW_MS + chance.randint(0, 80), headers))


def maintain(manager: LogManager, operation: Operation, **how: object) -> None:
    manager.close_logs(["t"])
    run = MaintenanceRun(manager.directory, clock=manager.clock, **how)  # type: ignore[arg-type]
    selection = select_partitions(manager, (), run.overrides)
    outcomes = list(operation(run, selection, in_this_process))
    assert {outcome.status.value for outcome in outcomes} == {"done"}, outcomes


def spoil(filters: Sequence[Path], chance: Random) -> None:
    """Leaves some key filters as they are; removes, damages, and mixes up others."""
    contents = [path.read_bytes() for path in filters]
    for path, data in zip(filters, contents, strict=True):
        new = spoiled(data, contents, chance)
        path.unlink()
        if new is not None:
            path.write_bytes(new)


def restore_some(segments: Sequence[Path], chance: Random) -> None:
    """Makes some segments other files, of the same content."""
    for path in segments:
        if chance.random() < 0.1:
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)


def spoiled(data: bytes, others: Sequence[bytes], chance: Random) -> bytes | None:
    match chance.randrange(8):
        case 0:
            return None
        case 1:
            return data[: chance.randrange(len(data))]
        case 2:
            at = chance.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case 3:
            return chance.choice(others)
        case 4:  # sound, but each filter is of another segment than it says
            return exchanged(data, chance)
        case _:
            return data


def exchanged(data: bytes, chance: Random) -> bytes:
    """Returns a sound file in which each filter may be of another segment than it should be."""
    filters = filters_in(data)
    others = chance.sample(filters, len(filters))
    ids = [
        other.segment._replace(base_offset=each.segment.base_offset)
        for each, other in zip(filters, others, strict=True)
    ]
    return encode([other._replace(segment=id_) for other, id_ in zip(others, ids, strict=True)])


# Searching it


def compare(run: Run, chance: Random, manager: LogManager) -> None:
    """Searches by conditions that some records satisfy and some that none does, within bounds and in both orders."""
    for isolation in Isolation:
        rows = [row for number in PARTITIONS for row in _rows(manager, number, isolation)]
        for condition in conditions_from(rows, chance):
            bounds = chance.choice([Bounds(), Bounds(), _bounds(chance)])
            expected = [row for row in rows if is_wanted(row, condition, bounds)]
            how = {"isolation": isolation, "all_partitions": True}
            run.note("searches")
            if chance.random() < 0.5:
                assert found(manager, "t", condition, bounds, **how) == expected
                continue
            with patch("pyspark_commitlog.storage.finding.pieces.PIECE_BYTES", chance.choice([200, 5000, 10**9])):
                newest = found(manager, "t", condition, bounds, newest_first=True, **how)
            assert sorted(newest, key=repr) == sorted(expected, key=repr)
            assert are_newest_first(newest)


def _rows(manager: LogManager, number: int, isolation: Isolation) -> list[Row]:
    with manager.open_reader("t", number) as reader:
        return all_rows(reader, number, isolation)


def _bounds(chance: Random) -> Bounds:
    first, last = sorted(chance.choices(range(-3, 90), k=2))
    first_ms, last_ms = sorted(chance.choices(range(NOW_MS - 5, NOW_MS + 90), k=2))
    by_offset, by_time = Bounds(max(first, 0), max(last, 0)), Bounds(times=Timespan(first_ms, last_ms))
    return chance.choice([by_offset, by_time, by_offset._replace(end=None), by_offset._replace(times=by_time.times)])


SUITE = Suite("topics", 100, run)
