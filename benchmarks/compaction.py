"""Seconds of one compaction, beside Kafka's own cleaner on the same files in the same run.

2,000,000 records over 200,000 keys (16-byte keys, 100-byte values) in batches of 16 KiB, all of them dirty, so that one
record in ten stays. Both are given copies of the same closed segment, which lies in the page cache, and both sync what
they write. Ours is one process without Spark. Kafka's is a broker 3.9.1 with the JVM options of its start script and
its cleaner's defaults; it lives through all rounds of a codec, so that its code is warm, and the time is the one that
it logs for the whole cleaning. Rounds alternate; the first one does not count. What both leave is compared, record by
record.

Run it with ``python -m benchmarks.compaction`` (needs the extras ``bench`` and ``test``), on a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

from pyspark_commitlog.storage.cleaner import Cleaner
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.fields import Codec
from pyspark_commitlog.storage.format.tables import BinaryColumn, Int64s, Records
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.reader import LogReader
from tests.support.kafka import Broker, mount

KEY_BYTES, VALUE_BYTES = 16, 100
BATCH_BYTES = 16 * 2**10
WORDS = 5_000  # values are made of so many words, so that they compress about as text does
APPENDED_AT_ONCE = 100_000
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
CONFIG = {"cleanup.policy": "compact", "max.message.bytes": str(BATCH_BYTES)}
WAITING = {"min.cleanable.dirty.ratio": "1.0"}
CLEANING = {"min.cleanable.dirty.ratio": "0.0"}
PATIENCE_S = 120
TOLD = r"cleaned log {partition} \(dirty section.*?\n.*?log processed in ([\d.,]+) seconds"


class Seconds(NamedTuple):
    """Of the rounds that count."""

    ours: list[float]
    kafkas: list[float]


class WarmBroker(Broker):
    """A broker under the JVM options of kafka-server-start.sh."""

    def _jvm_options(self) -> Sequence[str]:
        heap = ("-Xmx1G", "-Xms1G", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
        return [*heap, "-XX:InitiatingHeapOccupancyPercent=35", "-XX:TieredStopAtLevel=4"]


def main() -> None:
    options = _arguments()
    table = Table("codec", "ours, s", "", "Kafka, s", "", "Kafka / ours")
    for codec in options.codecs:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            seconds = measure(Path(directory), codec, options.records, options.keys, options.rounds)
        medians = [statistics.median(each) for each in seconds]
        told = [cell for all_, median in zip(seconds, medians, strict=True) for cell in _spread(all_, median)]
        table.add_row(codec.name.lower(), *told, f"{medians[1] / medians[0]:.1f}")
    Console().print(table)


def _spread(seconds: Sequence[float], median: float) -> tuple[str, str]:
    return f"{median:.2f}", f"{min(seconds):.2f} to {max(seconds):.2f}"


def measure(directory: Path, codec: Codec, records: int, keys: int, rounds: int) -> Seconds:
    """Both cleaners in turn, each time on a copy that nobody cleaned yet."""
    written, copy = directory / "written", directory / "copy"
    write(written, codec, records, keys)
    partitions = [directory / "source" / f"round-{n}-0" for n in range(rounds + 1)]
    (directory / "source").mkdir()
    for partition in partitions:
        partition.symlink_to(written)
    found = Seconds([], [])
    with WarmBroker(directory / "broker") as broker:
        broker.start(props={"log.cleaner.backoff.ms": "50", "log.cleaner.dedupe.buffer.size": str(128 << 20)})
        topics = [partition.name.removesuffix("-0") for partition in partitions]
        mount(broker, directory / "source", {topic: {**CONFIG, **WAITING} for topic in topics})
        for topic in topics:
            shutil.copytree(written, copy)
            found.ours.append(clean(copy))
            found.kafkas.append(let_clean(broker, topic))
            compare(copy, broker.log_dir / f"{topic}-0")
            shutil.rmtree(copy)
    return Seconds(found.ours[1:], found.kafkas[1:])


def write(directory: Path, codec: Codec, records: int, keys: int) -> None:
    """One closed segment, or as many as it takes, and an empty active one."""
    chance = np.random.default_rng(7)
    words = chance.integers(97, 123, size=(WORDS, 10), dtype=np.uint8)
    now_ms = time.time_ns() // 1_000_000 - records
    with open_log(directory) as log:
        for first in range(0, records, APPENDED_AT_ONCE):
            count = min(APPENDED_AT_ONCE, records - first)
            values = words[chance.integers(0, WORDS, size=count * VALUE_BYTES // 10)].reshape(-1)
            table = Records(
                offsets=np.arange(count),
                timestamps=now_ms + first + np.arange(count),
                timestamp_types=np.zeros(count, dtype=np.int8),
                keys=_keys(chance.integers(0, keys, size=count)),
                values=BinaryColumn(values, np.arange(count + 1, dtype=np.int32) * VALUE_BYTES, None),
                headers=None,
            )
            log.append_records(table, v2.BatchFields(codec=codec), sync=False)
        log.roll()


def _keys(numbers: Int64s) -> BinaryColumn:
    keys = b"".join(b"key-%012d" % number for number in numbers.tolist())
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * KEY_BYTES
    return BinaryColumn(np.frombuffer(keys, dtype=np.uint8), offsets, None)


def open_log(directory: Path) -> Log:
    return Log.open(str(directory), LogConfig.from_mapping(CONFIG))


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
    """Seconds that the broker logs for the cleaning of a topic, once it is said to be dirty enough."""
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
    """Raise ValueError where the two directories do not hold the same records."""
    for mine, theirs in zip(_columns(ours), _columns(kafkas), strict=True):
        if not np.array_equal(mine, theirs):
            raise ValueError(f"{ours} and {kafkas} hold different records")


def _columns(directory: Path) -> Iterator[np.ndarray]:
    """Offsets, timestamps, keys and values; the keys and the values have all the same size."""
    with LogReader.open(str(directory), LogConfig.from_mapping(CONFIG)) as reader:
        parts = [*reader.records(0, reader.log_end_offset)]
    yield np.concatenate([part.offsets for part in parts])
    yield np.concatenate([part.timestamps for part in parts])
    yield np.concatenate([part.keys.data for part in parts if part.keys is not None])
    yield np.concatenate([part.values.data for part in parts if part.values is not None])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count (7)")
    parser.add_argument("--codecs", type=lambda name: Codec[name.upper()], nargs="+", default=CODECS)
    parser.add_argument("--directory", type=Path, help="where the logs are kept meanwhile (the system's temporary one)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
