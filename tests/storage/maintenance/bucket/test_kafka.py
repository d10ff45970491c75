"""Consolidated and compacted segments are Kafka's: its dump tool reads them as ours does, and a broker mounts them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import Segment, TopicChange
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import CleanerConfig, LogConfig
from pyspark_commitlog.storage.dump.one_file import dump_file
from pyspark_commitlog.storage.dump.options import DumpFindings, DumpOptions
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.maintenance.bucket.compact import compact
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from tests.support.clock import ManualClock
from tests.support.kafka.broker import Broker, dump_log, java_consume, mount
from tests.support.stores.commits import commit_log
from tests.support.stores.filled import Pair, place_of, read_rows, write_pairs
from tests.support.stores.memory_store import MemoryStore

NOW_MS = 10**12
CONFIGS = {"consolidated": {"cleanup.policy": "delete"}, "compacted": {"cleanup.policy": "compact"}}
SMALL = {"segment.bytes": "20000", "segment.ms": "1", "index.interval.bytes": "500", "retention.ms": "-1"}

pytestmark = [pytest.mark.slow, pytest.mark.only_all]


@pytest.fixture(scope="module")
def maintained() -> tuple[MemoryStore, CommitLog]:
    """A log whose partitions have segments only."""
    store, random = MemoryStore(), Random(5)
    log = commit_log(store)
    for number, (topic, configs) in enumerate(CONFIGS.items()):
        log.commit(
            lambda _, topic=topic, number=number, configs=configs: TopicChange(  # type: ignore[misc]
                "create", topic, str(number) * 22, 1, {**SMALL, **configs}
            )
        )
        for _ in range(40):
            pairs: list[Pair] = [(b"k%d" % random.randrange(200), random.randbytes(40)) for _ in range(50)]
            write_pairs(log, *pairs, topic=topic, batch_bytes=700, time_ms=NOW_MS - random.randrange(10**6))
    consolidate(place_of(log, "consolidated"), config_of("consolidated"), ManualClock(NOW_MS), NOW_MS)
    cleaner = Cleaner(CleanerConfig(dedupe_buffer_size=1 << 20))
    compact(place_of(log, "compacted"), config_of("compacted"), cleaner, ManualClock(NOW_MS), NOW_MS)
    return store, log


def config_of(topic: str) -> LogConfig:
    return LogConfig.from_mapping({**SMALL, **CONFIGS[topic]})


@pytest.fixture(scope="module")
def downloaded(maintained: tuple[MemoryStore, CommitLog], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with the objects as they are, under the names that a broker gives its files."""
    store, log = maintained
    root, ends = tmp_path_factory.mktemp("downloaded"), dict[TopicPartition, int]()
    for topic in CONFIGS:
        place, directory = place_of(log, topic), root / f"{topic}-0"
        directory.mkdir()
        for part in place.parts:
            assert isinstance(part, Segment)
            name = part.key(place.topic.topic_id, 0)
            for kind in (".log", ".index", ".timeindex"):
                (directory / file_names.segment_file(part.base, kind)).write_bytes(store.objects[name + kind])
            (directory / file_names.segment_file(part.end, ".snapshot")).write_bytes(store.objects[f"{name}.snapshot"])
            (directory / file_names.LEADER_EPOCH_CHECKPOINT).write_bytes(store.objects[name + file_names.EPOCHS])
        ends[TopicPartition(topic, 0)] = place.parts[-1].end
        for kind in (".log", ".index", ".timeindex"):
            (directory / file_names.segment_file(place.parts[-1].end, kind)).touch()
    for name in (file_names.RECOVERY_POINT_CHECKPOINT, file_names.HIGH_WATERMARK_CHECKPOINT):
        (root / name).write_bytes(checkpoints.encode_offsets(ends))
    return root


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.start()


def test_a_broker_mounts_the_segments_and_its_consumer_reads_them(
    maintained: tuple[MemoryStore, CommitLog], downloaded: Path, broker: Broker
) -> None:
    _, log = maintained
    mount(broker, downloaded, {topic: {**SMALL, **configs} for topic, configs in CONFIGS.items()})
    for topic in CONFIGS:
        found = [(row.offset, row.key, row.value) for row in java_consume(broker.bootstrap, topic)]
        assert found == read_rows(log, topic)
        assert len(found) > 150
    assert broker.problems() == []


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_kafkas_dump_of_a_segment_is_ours(downloaded: Path, suffix: str) -> None:
    files = [path for path in sorted(downloaded.rglob(f"*{suffix}")) if path.stat().st_size]
    assert len(files) > 5
    for path, dump in dump_log(files, "--deep-iteration", "--print-data-log").files.items():
        assert "isvalid: false" not in dump.stdout
        findings = DumpFindings()
        ours = dump_file(str(path), DumpOptions(deep_iteration=True, print_data_log=True), findings)
        assert "\n".join(line for lines in ours for line in lines).splitlines() == dump.stdout.splitlines()
        assert [*findings.lines()] == dump.stderr.splitlines()
        assert not dump.stderr or "compacted" in str(path)  # where offsets are missing


def test_kafkas_sanity_check_of_indexes_passes(downloaded: Path) -> None:
    files = [path for kind in ("index", "timeindex") for path in downloaded.rglob(f"*.{kind}") if path.stat().st_size]
    for dump in dump_log(files, "--index-sanity-check").files.values():
        assert "passed sanity check" in dump.stdout
