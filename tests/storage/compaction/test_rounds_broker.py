"""A real broker takes over the results of this engine's compaction and retention, and finds nothing wrong with them.

One broker is started on the directories with its cleaner waiting (no log is dirty enough), its logs are read, and its
clients append; then the topics let the cleaner run. This engine compacts a copy of the directories from that moment for
comparison.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient  # type: ignore[import-untyped]

from pyspark_commitlog.storage.compaction.dirty import cleanable
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.retention.apply import retain
from pyspark_commitlog.storage.writing.log import Log
from tests.storage.reading.test_reader_kafka import java_reads, rows_of
from tests.support.clock import ManualClock
from tests.support.kafka.broker import Action, Broker, Consumed, ProducerRecord, Step, java_produce, mount
from tests.support.kafka.shapes import FIRST_PRODUCER_ID, Row, Rows, Transactions, to_records

HOUR_MS = 3_600_000
KEYS = [b"key-%d" % n for n in range(40)]
SMALL = {"segment.bytes": "3000", "index.interval.bytes": "400"}
COMPACTED = {**SMALL, "cleanup.policy": "compact", "delete.retention.ms": str(24 * HOUR_MS)}
COMPACTED_TOPICS = {
    "codecs": COMPACTED,
    "transactions": COMPACTED,
    "both": {**COMPACTED, "cleanup.policy": "compact,delete", "retention.bytes": "2500", "retention.ms": "-1"},
}
DELETED_TOPICS = {"deleted": {**SMALL, "retention.bytes": "9000", "retention.ms": "-1"}}
TOPICS = {**COMPACTED_TOPICS, **DELETED_TOPICS}

# Keeps the broker's retention idle, and its cleaner waiting until the test lets it run.
WAITING = {"retention.bytes": "-1", "retention.ms": "-1", "min.cleanable.dirty.ratio": "1.0"}
CLEANING = {"min.cleanable.dirty.ratio": "0.0"}


class KeyedRows(Rows):
    """Like Rows, but with few keys, of which some recur often, and occasional tombstones."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self._keys = random.Random(9)

    def make(self, count: int) -> list[Row]:
        return [row._replace(key=self._keys.choice(KEYS)) for row in super().make(count)]


def write(log: Log, rows: KeyedRows) -> None:
    """Every codec, committed and aborted transactions, and segments that end within them."""
    producers = [Transactions(log, FIRST_PRODUCER_ID + n, rows) for n in range(2)]
    for number in range(20):
        codec = list(Codec)[number % len(Codec)]
        log.append_records(to_records(rows.make(12)), v2.BatchFields(codec=codec), sync=False)
        if log.context.directory.endswith("transactions-0"):
            producers[number % 2].write(4, codec)
            producers[(number + 1) % 2].write(3)
            producers[number % 2].end(commit=number % 3 == 0)
    for producer in producers:
        producer.end(commit=False)


def clean_all(log: Log, now_ms: int) -> None:
    """Run rounds until nothing is dirty."""
    first_dirty: int | None = None
    cleaner = Cleaner()
    while cleanable(log, first_dirty, now_ms).is_dirty:
        first_dirty = cleaner.clean(log, first_dirty, now_ms).next_first_dirty_offset


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written and compacted, and again a day later, when the first tombstones may go; then written once more."""
    directory = tmp_path_factory.mktemp("written")
    clock = ManualClock(time.time_ns() // 1_000_000 - 50 * HOUR_MS)
    with LogManager.open(str(directory), create=True, clock=clock) as manager:
        logs = {}
        for topic, configs in TOPICS.items():
            manager.create_topic(topic, partitions=1, configs=configs)
            logs[topic] = manager.open_log(topic, 0)
        for _ in range(2):
            rows = KeyedRows(clock.now_ms())
            for log in logs.values():
                write(log, rows)
            for topic in COMPACTED_TOPICS:
                clean_all(logs[topic], clock.now_ms())
            for topic in ("both", "deleted"):
                retain(logs[topic])
            clock.advance(25 * HOUR_MS)
        for log in logs.values():
            write(log, KeyedRows(clock.now_ms()))
    return directory


class Seen(NamedTuple):
    """What the broker and its consumers saw at some moment."""

    problems: list[str]
    reads: Mapping[tuple[str, Isolation], Sequence[Consumed]]

    @classmethod
    def of(cls, broker: Broker) -> Seen:
        reads = {
            (topic, isolation): java_reads(broker, topic, isolation) for topic in TOPICS for isolation in Isolation
        }
        return cls(broker.problems(), reads)


class Life(NamedTuple):
    """The broker's state after its start, and after its cleaner had processed its clients' appends."""

    mounted: Seen
    before_cleaning: Path  # a copy of its log directory
    cleaned: Seen
    sizes: Mapping[str, int]  # bytes of segments after it, by topic


@pytest.fixture(scope="module")
def life(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.start(props={"log.cleaner.backoff.ms": "100"})
        mount(broker, written, {topic: {**configs, **WAITING} for topic, configs in TOPICS.items()})
        mounted = Seen.of(broker)
        append(broker)
        copy = broker.copy_log_dir(tmp_path_factory.mktemp("copied") / "log")
        let_clean(broker)
        yield Life(mounted, copy, Seen.of(broker), {topic: size(broker.log_dir, topic) for topic in TOPICS})


def append(broker: Broker) -> None:
    """New values, tombstones, and transactions with both outcomes, over the same keys."""
    chance = random.Random(3)

    def some(count: int) -> list[Action]:
        values = (None if chance.random() < 0.1 else chance.randbytes(60) for _ in range(count))
        return [ProducerRecord(value, chance.choice(KEYS)) for value in values]

    for topic in TOPICS:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            steps = [step for _ in range(4) for step in (*some(10), Step.FLUSH)]
            java_produce(broker.bootstrap, topic, steps, {"compression.type": codec})
    steps = []
    for end in 4 * (Step.COMMIT, Step.ABORT, Step.ABORT):
        steps += [Step.BEGIN, *some(7), end]
    java_produce(broker.bootstrap, "transactions", steps, {"transactional.id": "t"})


def let_clean(broker: Broker) -> None:
    """Wait until the checkpoint shows all closed segments of the compacted topics as clean."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        for topic in COMPACTED_TOPICS:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=CLEANING)])
    finally:
        admin.close()
    wanted = {(topic, 0): base_offsets(broker.log_dir, topic)[-1] for topic in COMPACTED_TOPICS}
    path = broker.log_dir / file_names.CLEANER_OFFSET_CHECKPOINT
    deadline = time.monotonic() + 120
    while not path.exists() or checkpoints.decode_offsets(path.read_bytes()) != wanted:
        assert time.monotonic() < deadline, f"{wanted} were not cleaned: {broker.problems() or broker.log_text()}"
        time.sleep(0.05)


def base_offsets(directory: Path, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in (directory / f"{topic}-0").glob("*.log"))


def size(directory: Path, topic: str) -> int:
    return sum(path.stat().st_size for path in (directory / f"{topic}-0").glob("*.log"))


def engine_reads(log: LogReader, isolation: Isolation) -> list[Consumed]:
    return rows_of([log], isolation)


def copied_log(life: Life, topic: str, into: Path) -> Log:
    """The partition as it was before the broker's cleaner ran, in a directory of its own."""
    shutil.copytree(life.before_cleaning / f"{topic}-0", into)
    starts = checkpoints.decode_offsets((life.before_cleaning / file_names.LOG_START_OFFSET_CHECKPOINT).read_bytes())
    marks = KeptInMemory(log_start_offset=starts.get((topic, 0), 0))
    return Log.open(str(into), LogConfig.from_mapping(TOPICS[topic]), checkpoints=marks)


def test_the_logs_were_worth_it(written: Path) -> None:
    """Compaction and retention had removed and kept something of each kind before the broker started."""
    with LogManager.open(str(written)) as manager:
        readers = {topic: manager.open_reader(topic, 0) for topic in TOPICS}
        assert min(readers[topic].log_start_offset for topic in ("both", "deleted")) > 0
        for topic in COMPACTED_TOPICS:
            found = engine_reads(readers[topic], Isolation.READ_UNCOMMITTED)
            assert {row.value is None for row in found} == {True, False}
            assert len(found) < readers[topic].log_end_offset - readers[topic].log_start_offset
        committed, all_ = (engine_reads(readers["transactions"], isolation) for isolation in Isolation)
        assert len(committed) != len(all_)


def test_a_broker_accepts_compacted_and_retained_directories_without_complaint(life: Life) -> None:
    assert life.mounted.problems == []


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("topic", TOPICS)
def test_a_java_consumer_reads_what_our_reader_reads(
    life: Life, written: Path, topic: str, isolation: Isolation
) -> None:
    with LogManager.open(str(written)) as manager:
        assert life.mounted.reads[topic, isolation] == engine_reads(manager.open_reader(topic, 0), isolation)


def test_the_brokers_cleaner_finds_nothing_wrong(life: Life) -> None:
    assert life.cleaned.problems == []


@pytest.mark.parametrize("topic", COMPACTED_TOPICS)
def test_the_brokers_cleaner_leaves_what_ours_leaves(life: Life, tmp_path: Path, topic: str) -> None:
    with copied_log(life, topic, tmp_path / f"{topic}-0") as log:
        before = engine_reads(log, Isolation.READ_UNCOMMITTED)
        clean_all(log, log.context.clock.now_ms())
        found = {isolation: engine_reads(log, isolation) for isolation in Isolation}
    assert len(found[Isolation.READ_UNCOMMITTED]) < len(before)
    assert found == {isolation: life.cleaned.reads[topic, isolation] for isolation in Isolation}


def test_the_brokers_cleaner_leaves_other_topics_alone(life: Life) -> None:
    assert life.sizes["deleted"] == size(life.before_cleaning, "deleted")
