"""A real broker on a directory that was restored, and on one from which records were erased."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.backup.cuts import find_cut
from pyspark_commitlog.storage.backup.restoring import restore_backup
from pyspark_commitlog.storage.backup.taking import take_backup
from pyspark_commitlog.storage.erasure.certificate import Erasure
from pyspark_commitlog.storage.erasure.keys import AskedKeys
from pyspark_commitlog.storage.erasure.operation import erase_partitions
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus
from pyspark_commitlog.storage.maintenance.partitions import in_this_process
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from pyspark_commitlog.storage.reading.aborted import Isolation
from tests.storage.backup.logs import folder
from tests.storage.reading.test_reader_kafka import java_reads
from tests.support.kafka import broker_dirs, kafka_jvm
from tests.support.kafka.admin import committed_offsets
from tests.support.kafka.broker import (
    Action,
    Broker,
    ProducerRecord,
    SendOffsets,
    Step,
    Topic,
    create_topics,
    java_produce,
)
from tests.support.logs import raw_scan

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

KEYS = [b"person-%d-of-many" % n for n in range(20)]
GONE = KEYS[3]
SEGMENT_BYTES = {kafka_jvm.KAFKA_VERSION: "segment.bytes", kafka_jvm.KAFKA_4: broker_dirs.INTERNAL_SEGMENT_BYTES}
TOPICS = ("orders", "prices")


def topics(release: str) -> dict[str, Topic]:
    small = {SEGMENT_BYTES[release]: "4000"}
    later = {"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"}  # not while the test reads
    return {"orders": Topic(2, small), "prices": Topic(1, {**small, **later})}


def produce(broker: Broker, seed: int) -> None:
    """Every codec, idempotent producers, and transactions with both outcomes, one of which commits a group's offset."""
    chance = random.Random(seed)

    def some(count: int) -> list[Action]:
        return [ProducerRecord(chance.randbytes(80), chance.choice(KEYS)) for _ in range(count)]

    for topic in TOPICS:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            java_produce(broker.bootstrap, topic, [*some(15), Step.FLUSH, *some(15)], {"compression.type": codec})
    steps: list[Action | Step] = []
    for end in (Step.COMMIT, Step.ABORT):
        steps += [Step.BEGIN, *some(12), SendOffsets("readers", {("orders", 0): seed, ("orders", 1): 2}), end]
    java_produce(broker.bootstrap, "orders", steps, {"transactional.id": "t"})


@pytest.mark.parametrize("release", list(SEGMENT_BYTES))
def test_a_broker_serves_a_restored_directory_and_one_without_the_erased_records(release: str, tmp_path: Path) -> None:
    place = folder(tmp_path / "backup")
    with Broker(tmp_path / "broker", release) as broker:
        broker.start()
        create_topics(broker.bootstrap, topics(release))
        produce(broker, 1)
        before = {topic: java_reads(broker, topic, Isolation.READ_COMMITTED) for topic in TOPICS}
        offsets = committed_offsets(broker.bootstrap, "readers")
        broker.stop()
        with LogManager.open(str(broker.log_dir)) as manager, place.locked():
            take_backup(manager, place)
        broker.start()
        produce(broker, 5)
        broker.stop()

        restore_backup(place, find_cut(place), str(tmp_path / "restored"))
        broker.start(log_dir=tmp_path / "restored")
        assert broker.problems() == []
        assert {topic: java_reads(broker, topic, Isolation.READ_COMMITTED) for topic in TOPICS} == before
        assert committed_offsets(broker.bootstrap, "readers") == offsets
        assert {partition: offset for partition, (offset, _) in offsets.items()} == {("orders", 0): 1, ("orders", 1): 2}
        broker.stop()

        erase(broker.log_dir, tmp_path / "certificate.json")
        assert not raw_scan.has(broker.log_dir, GONE)
        broker.start()
        assert broker.problems() == []
        kept = {topic: [row for row in rows if row.key != GONE] for topic, rows in before.items()}
        assert {topic: java_reads(broker, topic, Isolation.READ_COMMITTED) for topic in TOPICS} == kept
        assert kept != before
        produce(broker, 7)
        assert broker.problems() == []


def erase(directory: Path, certificate: Path) -> None:
    run = MaintenanceRun(str(directory))
    with run.manager() as manager:
        selection = select_partitions(manager, TOPICS, ConfigOverrides())
    asked = Erasure(AskedKeys(frozenset([GONE])), "a test", TOPICS, str(certificate))
    outcomes = list(erase_partitions(run, selection, in_this_process, asked))
    assert {each.status for each in outcomes} == {OutcomeStatus.DONE}, outcomes
