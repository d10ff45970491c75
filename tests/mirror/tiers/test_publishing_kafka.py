"""A topic of ours, published to the tier of a real broker, which then serves segments that it never wrote."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.mirror.brokers.admin import Admin
from pyspark_commitlog.mirror.brokers.cluster import Cluster
from pyspark_commitlog.mirror.tiers.metadata import ClusterMetadata
from pyspark_commitlog.mirror.tiers.publishing import NEW, Published, publish_topic
from pyspark_commitlog.storage import LogManager, open_objects, prepare_directory
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.tiers.objects import DirectoryObjects
from tests.support.kafka import kafka_jvm, tiered
from tests.support.kafka.broker import Broker
from tests.support.kafka.broker_dirs import rows
from tests.support.kafka.clients import ProducerRecord, Step, java_consume, java_produce
from tests.support.logs.building import batch, end_transaction, write_transactional

TOPIC = "orders"
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
CONFIGS = {"local.retention.bytes": "1", "segment.bytes": "1048576"}  # the smallest that Kafka 4 takes
LARGE = b"new" * 120_000  # three of them fill a segment
Row = tuple[object, ...]


def write_topic(directory: Path) -> None:
    """Two partitions in several segments: batches of all codecs, committed and aborted transactions."""
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic(TOPIC, partitions=2, configs={"segment.bytes": "2048", "retention.ms": "-1"})
        for number in (0, 1):
            log = manager.open_log(TOPIC, number)
            for each in range(40):
                codec = CODECS[each % len(CODECS)]
                log.append(batch(*(b"%d plain %d %d" % (number, each, n) * 9 for n in range(3)), codec=codec))
                write_transactional(log, 7, each, b"%d in a transaction %d" % (number, each))
                if each % 3 == 2:
                    end_transaction(log, 7, commit=each % 2 == 0)
            end_transaction(log, 7, commit=False)
            log.delete_records(7)


def ours(directory: Path, isolation: Isolation) -> list[Row]:
    with LogManager.open(str(directory)) as manager:
        return [(number, *row) for number in (0, 1) for row in read_rows(manager, number, isolation)]


def read_rows(manager: LogManager, number: int, isolation: Isolation) -> Iterator[Row]:
    with manager.open_reader(TOPIC, number) as reader:
        yield from rows(reader, isolation)


def theirs(broker: Broker, isolation: Isolation) -> list[Row]:
    found = java_consume(broker.bootstrap, TOPIC, isolation.value)
    return [
        (each.partition, each.offset, each.timestamp_ms, each.timestamp_type, each.key, each.value, [*each.headers])
        for each in found
    ]


def publish(directory: Path, tier: Path, broker: Broker, *, dry_run: bool = False) -> list[Published]:
    store, cluster = open_objects(str(tier)), Cluster.parse(broker.bootstrap, {})
    with LogManager.open(str(directory)) as manager:
        return publish_topic(manager, TOPIC, store, cluster, CONFIGS, dry_run=dry_run)


class KilledError(BaseException):
    """Ends a run as a kill does."""


def kill_at(monkeypatch: pytest.MonkeyPatch, kind: type, method: str, call: int) -> None:
    """Ends the run at a call of a method, before the call does anything."""
    real, calls = getattr(kind, method), itertools.count(1)

    def counted(*arguments: object) -> object:
        if next(calls) == call:
            raise KilledError
        return real(*arguments)

    monkeypatch.setattr(kind, method, counted)


def publish_in_spite_of_kills(
    directory: Path, tier: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> list[Published]:
    """Ends runs before the topic is there, within a segment's objects, and before the brokers learn of it."""
    for kind, method, call in ((Admin, "create", 1), (DirectoryObjects, "put", 8), (ClusterMetadata, "append", 3)):
        with monkeypatch.context() as patched:
            kill_at(patched, kind, method, call)
            with pytest.raises(KilledError):
                publish(directory, tier, broker)
    return publish(directory, tier, broker)


def prepare(broker: Broker) -> list[tuple[int, int, bool]]:
    with LogManager.open(str(broker.log_dir)) as manager:
        return [(each.log_start_offset, each.segments, each.was_ready) for each in prepare_directory(manager, [TOPIC])]


def await_segments(tier: Path, more_than: int) -> None:
    deadline = time.monotonic() + 60
    while len([*tier.glob(f"*/{TOPIC}-0-*/*.log")]) <= more_than:
        assert time.monotonic() < deadline, "the broker copies nothing to its tier"
        time.sleep(0.1)


@pytest.mark.only_all
@pytest.mark.parametrize("release", [kafka_jvm.KAFKA_VERSION, kafka_jvm.KAFKA_4])
def test_a_broker_serves_what_it_never_wrote_and_goes_on_with_it(
    tmp_path: Path, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, tier = tmp_path / "ours", tmp_path / "tier"
    write_topic(directory)
    props = tiered.properties(tier)
    with tiered.tiered_broker(tmp_path / "broker", release).start(props=props) as broker:
        assert {each.topic_id for each in publish(directory, tier, broker, dry_run=True)} == {NEW}
        assert not [*tier.rglob("*.log")]
        first = publish_in_spite_of_kills(directory, tier, broker, monkeypatch)
        assert [each.segments - each.written for each in first] == [3, 0]  # runs that were killed had written three
        assert first[0].segments > 5
        assert [each.written for each in publish(directory, tier, broker)] == [0, 0]
        broker.stop()
        assert prepare(broker) == [(7, each.segments, False) for each in first]
        assert prepare(broker) == [(7, each.segments, True) for each in first]
        broker.start()
        wanted = {isolation: ours(directory, isolation) for isolation in Isolation}
        assert {isolation: theirs(broker, isolation) for isolation in Isolation} == wanted
        new = [ProducerRecord(LARGE, partition=0), Step.FLUSH]
        java_produce(broker.bootstrap, TOPIC, new * 10)
        await_segments(tier, first[0].segments)
        broker.stop()
        broker.start()
        found = theirs(broker, Isolation.READ_COMMITTED)
        assert [row for row in found if row[5] != LARGE] == wanted[Isolation.READ_COMMITTED]
        assert len(found) == len(wanted[Isolation.READ_COMMITTED]) + 10
