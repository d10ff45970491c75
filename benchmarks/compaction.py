"""Time one compaction, compared with Kafka's own cleaner on the same files in the same run.

2,000,000 records over 200,000 keys (16-byte keys, 100-byte values) in batches of 16 KiB are all dirty, so one record in
ten is kept. Both sides get copies of the same closed segment in the page cache, and both sync what they write. Ours is
one process without Spark. Kafka's is a broker 3.9.1 with the JVM options of its start script and the cleaner's
defaults. It runs through all rounds of a codec, so that its code is warm, and its time is the one that it logs for the
whole cleaning. Rounds alternate; the first does not count. The results of both are compared, record by record.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient  # type: ignore[import-untyped]

from benchmarks.comparison import Comparison, Setting
from benchmarks.logs import log_bytes
from benchmarks.rows import KEY_BYTES, VALUE_BYTES, records
from benchmarks.timing import Timing, alternate_told
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.writing.log import Log
from tests.support.kafka.broker import Broker, mount

RECORDS, KEYS = 2_000_000, 200_000
BATCH_BYTES = 16 * 2**10
APPENDED_AT_ONCE = 100_000
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
CONFIG = {"cleanup.policy": "compact", "max.message.bytes": str(BATCH_BYTES)}
WAITING = {"min.cleanable.dirty.ratio": "1.0"}
CLEANING = {"min.cleanable.dirty.ratio": "0.0"}
PATIENCE_S = 120
ROUNDS = 2  # per requested round: a shared machine is slow for seconds, then fast again
TOLD = r"cleaned log {partition} \(dirty section.*?\n.*?log processed in ([\d.,]+) seconds"


class WarmBroker(Broker):
    """A broker with the JVM options of kafka-server-start.sh."""

    def _jvm_options(self) -> Sequence[str]:
        heap = ("-Xmx1G", "-Xms1G", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
        return [*heap, "-XX:InitiatingHeapOccupancyPercent=35", "-XX:TieredStopAtLevel=4"]


def measure(setting: Setting) -> Iterator[Comparison]:
    count, keys, rounds = setting.sized(RECORDS), setting.sized(KEYS), setting.rounds * ROUNDS
    for codec in CODECS:
        directory = setting.directory / codec.name.lower()
        found = alternate_cleaners(directory, codec, count, keys, rounds)
        work = needed(codec, count, log_bytes(directory / "written"), log_bytes(directory / "copy"))
        shutil.rmtree(directory)
        yield Comparison(f"compaction, {codec.name.lower()}", "Kafka's LogCleaner", **found, asked=3, aim=5, work=work)


def needed(codec: Codec, count: int, dirty_bytes: int, clean_bytes: int) -> dict[str, float]:
    """The work that every compaction of ``count`` records needs, for the bytes of ``.log`` before and after it."""
    work = {"crc32c": float(dirty_bytes), "write and sync": float(clean_bytes)}
    if codec != Codec.NONE:
        records_bytes = float(count * (KEY_BYTES + VALUE_BYTES))
        name = codec.name.lower()
        work |= {f"{name} decompress": records_bytes, f"{name} compress": records_bytes * clean_bytes / dirty_bytes}
    return work


def alternate_cleaners(directory: Path, codec: Codec, count: int, keys: int, rounds: int) -> dict[str, Timing]:
    """Run both cleaners in turn, each time on a copy that is not cleaned yet."""
    written, copy = directory / "written", directory / "copy"
    write(written, codec, count, keys)
    partitions = [directory / "source" / f"round-{n}-0" for n in range(rounds + 1)]
    (directory / "source").mkdir()
    for partition in partitions:
        partition.symlink_to(written)
    with WarmBroker(directory / "broker") as broker:
        broker.start(props={"log.cleaner.backoff.ms": "50", "log.cleaner.dedupe.buffer.size": str(128 << 20)})
        topics = [partition.name.removesuffix("-0") for partition in partitions]
        mount(broker, directory / "source", {topic: {**CONFIG, **WAITING} for topic in topics})
        left = iter(topics)

        def let_kafka_clean() -> float:
            topic = next(left)
            seconds = let_clean(broker, topic)
            compare(copy, broker.log_dir / f"{topic}-0")
            return seconds

        return alternate_told({"ours": lambda: clean_copy(written, copy), "theirs": let_kafka_clean}, rounds)


def write(directory: Path, codec: Codec, count: int, keys: int) -> None:
    """Write as many closed segments as needed, usually one, and an empty active one."""
    chance = np.random.default_rng(7)
    now_ms = time.time_ns() // 1_000_000 - count
    with open_log(directory) as log:
        for first in range(0, count, APPENDED_AT_ONCE):
            numbers = chance.integers(0, keys, size=min(APPENDED_AT_ONCE, count - first))
            table = records(numbers, now_ms + first // 10, seed=first)
            log.append_records(table, v2.BatchFields(codec=codec), sync=False)
        log.roll()


def open_log(directory: Path) -> Log:
    return Log.open(str(directory), LogConfig.from_mapping(CONFIG))


def clean_copy(written: Path, copy: Path) -> float:
    """Seconds of a round of ours, after the copy was synced; the result stays in ``copy``."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(written, copy)
    os.sync()
    return clean(copy)


def clean(directory: Path) -> float:
    """Seconds of a round of ours."""
    with open_log(directory) as log:
        began = time.perf_counter()
        result = Cleaner().clean(log, None, log.context.clock.now_ms())
        seconds = time.perf_counter() - began
        if result.next_first_dirty_offset != log.log_end_offset:
            raise ValueError(f"{directory}: cleaned up to {result.next_first_dirty_offset} only")
    return seconds


def let_clean(broker: Broker, topic: str) -> float:
    """Seconds that the broker logs for the cleaning of a topic, once a setting makes it dirty enough."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=CLEANING)])
    admin.close()
    pattern = re.compile(TOLD.format(partition=re.escape(f"{topic}-0")), re.DOTALL)
    deadline = time.monotonic() + PATIENCE_S
    while (told := pattern.search(broker.log_text())) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} is not cleaned after {PATIENCE_S} s: {broker.problems()}")
        time.sleep(0.1)
    return float(told[1].replace(",", ""))


def compare(ours: Path, kafkas: Path) -> None:
    """Raise ValueError if the two directories do not hold the same records."""
    for mine, theirs in zip(_columns(ours), _columns(kafkas), strict=True):
        if not np.array_equal(mine, theirs):
            raise ValueError(f"{ours} and {kafkas} hold different records")


def _columns(directory: Path) -> Iterator[np.ndarray]:
    """Offsets, timestamps, keys and values; all keys have one size, and all values."""
    with LogReader.open(str(directory), LogConfig.from_mapping(CONFIG)) as reader:
        parts = [*reader.records(0, reader.log_end_offset)]
    yield np.concatenate([part.offsets for part in parts])
    yield np.concatenate([part.timestamps for part in parts])
    yield np.concatenate([part.keys.data for part in parts if part.keys is not None])
    yield np.concatenate([part.values.data for part in parts if part.values is not None])
