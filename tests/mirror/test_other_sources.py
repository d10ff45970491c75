"""Mirrors from brokers of Kafka 0.7 and from log directories."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.entries import encode_set
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.classic.requests_0_7 import Produce
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.classic.wire.kafka_0_7 import PositionBroker
from pyspark_commitlog.mirror.errors import RetriableError
from pyspark_commitlog.mirror.settings import SourceSettings, TargetSettings
from pyspark_commitlog.mirror.sources import kafka_0_7
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.kafka_nodes import RegisteredBroker
from pyspark_commitlog.registry.operations import put
from pyspark_commitlog.registry.port import Registry
from pyspark_commitlog.storage import (
    BatchFields,
    Codec,
    InvalidConfigError,
    LogManager,
    MissingSegmentError,
    Producer,
    Records,
    add_partitions,
    delete_topic,
)
from pyspark_commitlog.storage.format import scan
from tests.mirror.support import Failing, Following, contents, encoded_records, fill, mirrored, numbered, topics

LOGS = PositionLogSettings(flush_interval=1, num_partitions=2)


class Brokers:
    """Brokers of 0.7, each with a directory, registered in files."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self._home, self._stack = home, stack
        self._addresses: dict[int, Address] = {}
        self.registry: Registry = stack.enter_context(FileRegistry(str(home)))

    def start(self, broker: int) -> None:
        config = PositionGatewayConfig(port=0, threads=1, logs=LOGS)
        server = self._stack.enter_context(PositionGateway(str(self._home / f"log-{broker}"), config))
        self._addresses[broker] = Address(*server.address)
        content = kafka_nodes.encode_broker(RegisteredBroker.plain(*server.address), (0, 7))
        put(self.registry, kafka_nodes.broker_path(broker), content)

    def produce(
        self, topic: str, values: Sequence[bytes], *, broker: int = 0, partition: int = 0, codec: Codec = Codec.NONE
    ) -> None:
        put(self.registry, kafka_nodes.old_topic_path(topic, broker), b"2")
        with Connection(self._addresses[broker]) as connection:
            wire = PositionBroker(connection)
            wire.produce([Produce(topic, partition, encode_set(list(values), codec))])
            wire.multi_fetch([])  # its answer comes once the sets are written

    def source(self, **more: str) -> SourceSettings:
        """A consumer.config with ``zk.connect``; ``more`` by names with ``_`` in place of dots."""
        given = {name.replace("_", "."): value for name, value in more.items()}
        return SourceSettings.parse(
            {"groupid": "old", "zk.connect": "a registry of the test's", "fetcher.backoff.ms": "5", **given}
        )

    def listed(self, names: str) -> SourceSettings:
        """A consumer.config with ``broker.list``."""
        brokers = ",".join(f"{broker}:{address}" for broker, address in self._addresses.items())
        return SourceSettings.parse({"groupid": "old", "broker.list": brokers, "topics": names})


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    @contextmanager
    def opened(_directory: str, _connect: str) -> Iterator[Registry]:
        yield found.registry

    monkeypatch.setattr(kafka_0_7, "open_registry", opened)
    with ExitStack() as stack:
        found = Brokers(tmp_path, stack)
        found.start(0)
        yield found


@pytest.fixture
def target(tmp_path: Path) -> TargetSettings:
    return TargetSettings.parse({"log.dir": str(tmp_path / "target")})


def values(tmp_path: Path, topic: str) -> dict[int, list[bytes | None]]:
    return {number: [value for _, value in pairs] for number, pairs in contents(tmp_path / "target", topic).items()}


def numbers(first: int, last: int, prefix: str = "") -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(first, last)]


def test_topics_of_old_brokers_merge_by_the_number_of_a_partition_and_go_on_later(
    brokers: Brokers, target: TargetSettings, tmp_path: Path
) -> None:
    brokers.start(5)
    for first in (0, 10):
        brokers.produce("t", numbers(first, first + 10, "a"))
        brokers.produce("t", numbers(first, first + 10, "b"), broker=5, codec=Codec.GZIP)
        brokers.produce("t", numbers(first, first + 10, "c"), broker=5, partition=1)
        mirrored([brokers.source()], target, names="t", streams=2)
    found = values(tmp_path, "t")
    assert sorted(found) == [0, 1]
    assert found[1] == numbers(0, 20, "c")
    for prefix in ("a", "b"):
        assert [each for each in found[0] if each[:1] == prefix.encode()] == numbers(0, 20, prefix)
    assert len(found[0]) == 40


def test_by_key_partitions_of_old_brokers_spread(brokers: Brokers, target: TargetSettings, tmp_path: Path) -> None:
    brokers.start(1)
    for broker in (0, 1):
        for partition in (0, 1):
            brokers.produce("t", numbers(0, 5, f"{broker}-{partition} "), broker=broker, partition=partition)
    mirrored([brokers.source()], target, partitions="by-key", partition_count=3)
    found = values(tmp_path, "t")
    assert found[0] == numbers(0, 5, "0-0 ")
    assert found[2] == numbers(0, 5, "1-1 ")
    assert len(found[1]) == 10


def test_messages_of_a_compressed_one_are_compressed_with_its_codec(
    brokers: Brokers, target: TargetSettings, tmp_path: Path
) -> None:
    for codec in (Codec.GZIP, Codec.NONE, Codec.SNAPPY):
        brokers.produce("t", numbers(0, 5), codec=codec)
    mirrored([brokers.source()], target)
    assert values(tmp_path, "t")[0] == numbers(0, 5) * 3
    headers = scan(np.fromfile(tmp_path / "target" / "t-0" / "00000000000000000000.log", dtype=np.uint8)).headers
    assert headers.codec[~headers.is_control].tolist() == [Codec.GZIP, Codec.NONE, Codec.SNAPPY]


def test_brokers_of_a_list_bring_the_topics_that_are_named(
    brokers: Brokers, target: TargetSettings, tmp_path: Path
) -> None:
    for topic in ("one", "two", "three"):
        brokers.produce(topic, numbers(0, 5), partition=1)
    mirror = mirrored([brokers.listed("one,three,never")], target, names="o.*,n.*")
    assert [topic for topic in topics(tmp_path / "target") if "progress" not in topic] == ["one"]
    assert values(tmp_path, "one") == {0: [], 1: numbers(0, 5)}
    assert [str(partition) for _, partition in mirror.reached()] == ["one-0-1"]


def test_an_error_at_any_step_loses_and_doubles_no_message(
    brokers: Brokers, target: TargetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in range(0, 40, 5):
        brokers.produce("t", numbers(first, first + 5), codec=Codec.GZIP if first % 2 else Codec.NONE)
    failing = Failing(target.targets)
    monkeypatch.setattr("pyspark_commitlog.mirror.run._PAUSES_S", (0.01,) * 5)
    monkeypatch.setattr("pyspark_commitlog.mirror.session.TRANSACTION_BYTES", 1)
    mirrored([brokers.source(fetch_size="100")], TargetSettings(failing), report=lambda _: None)
    assert failing.failures == 4
    assert values(tmp_path, "t")[0] == numbers(0, 40)


def test_a_lasting_mirror_takes_up_old_brokers_that_come_and_those_that_come_back(
    brokers: Brokers, target: TargetSettings, tmp_path: Path
) -> None:
    brokers.produce("t", numbers(0, 5))
    with Following([brokers.source()], target) as following:
        following.wait_until(lambda: "t" in topics(tmp_path / "target") and values(tmp_path, "t")[0] == numbers(0, 5))
        brokers.start(1)
        brokers.produce("t", numbers(0, 5), broker=1, partition=1)
        following.wait_until(lambda: values(tmp_path, "t").get(1) == numbers(0, 5))
        node = brokers.registry.find(kafka_nodes.broker_path(1))
        assert node is not None
        brokers.registry.delete(kafka_nodes.broker_path(1))  # as at the end of its session
        brokers.produce("t", numbers(5, 10))
        following.wait_until(lambda: values(tmp_path, "t")[0] == numbers(0, 10))
        brokers.produce("t", numbers(5, 10), broker=1, partition=1)
        put(brokers.registry, kafka_nodes.broker_path(1), node.data or b"")
        following.wait_until(lambda: values(tmp_path, "t")[1] == numbers(0, 10))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"broker.list": "localhost:9092", "topics": "t"}, r"'localhost:9092' is no broker: expected id:host:port"),
        ({"broker.list": "0:localhost:9092"}, r"do not tell their topics, needs topics"),
        ({"zk.connect": "z:1", "group.id": "twice"}, r"group\.id is given twice"),
        ({"zk.connect": "z:1", "fetch.sise": "3"}, r"unknown setting 'fetch\.sise'.*did you mean"),
        ({"log.dir": "/log", "bootstrap.servers": "b:1"}, r"unknown setting 'bootstrap\.servers'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        SourceSettings.parse({"groupid": "g", **settings})


# Directories


def directory(path: Path, **more: str) -> SourceSettings:
    return SourceSettings.parse({"group.id": "one", "log.dir": str(path), "fetch.max.wait.ms": "5", **more})


def test_a_directory_is_mirrored_without_a_broker_and_its_batches_keep_their_bytes(
    target: TargetSettings, tmp_path: Path
) -> None:
    source, there = tmp_path / "source", tmp_path / "target"
    for first in (0, 20, 40):
        fill(source, "flights", numbered(first, first + 20), partitions=2, codec=Codec.ZSTD, retention_ms="-1")
        fill(source, "flights", numbered(first, first + 20), partition=1)
        mirrored([directory(source)], target, streams=2)
    assert topics(there) == ["flights", "mirror-progress-one"]
    assert contents(there, "flights") == contents(source, "flights")
    assert encoded_records(there, "flights") == encoded_records(source, "flights")
    with LogManager.open(str(there)) as manager:
        assert manager.config("flights").retention_ms == -1


def test_aborted_records_and_open_transactions_of_a_directory_are_left_out(
    target: TargetSettings, tmp_path: Path
) -> None:
    with LogManager.open(str(tmp_path / "source"), create=True) as manager:
        manager.create_topic("t", partitions=1)
        log = manager.open_log("t", 0)
        for epoch, (value, commit) in enumerate([(b"aborted", False), (b"committed", True), (b"open", None)]):
            fields = BatchFields(producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True)
            log.append_records(Records.to_append([b"k"], [value], int(time.time() * 1000)), fields)
            if commit is not None:
                log.end_transaction(Producer(7, epoch + 1), commit=commit)
    mirrored([directory(tmp_path / "source")], target)
    assert contents(tmp_path / "target", "t") == {0: [(b"k", b"committed")]}


def test_a_directory_is_followed_while_others_write_to_it_and_topics_come_and_go(
    target: TargetSettings, tmp_path: Path
) -> None:
    source, there = tmp_path / "source", tmp_path / "target"
    fill(source, "flights", numbered(0, 5))
    with Following([directory(source)], target) as following:
        following.wait_until(lambda: "flights" in topics(there) and contents(there, "flights")[0] == numbered(0, 5))
        fill(source, "later", numbered(0, 7))
        with LogManager.open(str(source)) as manager:
            add_partitions(manager, "flights", 2)
        fill(source, "flights", numbered(5, 9), partition=1)
        following.wait_until(lambda: "later" in topics(there) and contents(there, "later")[0] == numbered(0, 7))
        following.wait_until(lambda: contents(there, "flights").get(1) == numbered(5, 9))
        with LogManager.open(str(source)) as manager:
            delete_topic(manager, "later")
        fill(source, "flights", numbered(9, 12), partition=1)
        following.wait_until(lambda: contents(there, "flights")[1] == numbered(5, 12))


def test_where_a_directory_deleted_what_is_next_the_mirror_goes_on_and_says_so(
    target: TargetSettings, tmp_path: Path
) -> None:
    fill(tmp_path / "source", "t", numbered(0, 5))
    mirrored([directory(tmp_path / "source")], target)
    for first in (5, 10):
        fill(tmp_path / "source", "t", numbered(first, first + 5))
    with LogManager.open(str(tmp_path / "source")) as manager:
        manager.open_log("t", 0).delete_records(10)
    said: list[str] = []
    mirrored([directory(tmp_path / "source")], target, report=said.append)
    assert ["has offsets 10 to 15, but 5 is next to mirror; going on at 10" in each for each in said] == [True]
    assert contents(tmp_path / "target", "t") == {0: numbered(0, 5) + numbered(10, 15)}


def test_offsets_that_a_directory_lost_end_the_mirror_before_what_follows_them(
    target: TargetSettings, tmp_path: Path
) -> None:
    for first in (0, 5, 10):
        fill(tmp_path / "source", "t", numbered(first, first + 5))
    with LogManager.open(str(tmp_path / "source")) as manager:
        manager.open_log("t", 0).roll()
    path = tmp_path / "source" / "t-0" / f"{0:020}.log"
    data = path.read_bytes()
    _, second, third = scan(np.frombuffer(data, dtype=np.uint8)).headers.table["position"].tolist()
    path.write_bytes(data[:second] + data[third:])
    with pytest.raises(MissingSegmentError, match="offsets 5 to 9 are missing"):
        mirrored([directory(tmp_path / "source")], target)
    assert contents(tmp_path / "target", "t")[0] in ([], numbered(0, 5))


def test_a_partition_that_is_gone_may_be_back_later(tmp_path: Path) -> None:
    fill(tmp_path / "source", "t", numbered(0, 5))
    opened = directory(tmp_path / "source").sources.open()
    ((partition,),) = [opened.partitions(each) for each in opened.topics()]
    assert opened.offsets([partition], -2) == {partition: 0}
    with LogManager.open(str(tmp_path / "source")) as manager:
        delete_topic(manager, "t")
    with pytest.raises(RetriableError, match=r"t-0 of .*source is gone"):
        opened.fetch({partition: 0})
    opened.close()
