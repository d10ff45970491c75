"""Clusters for tests of streams: our gateways, with a registry in files where consumers meet as in ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.entries import encode_set
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.classic.requests_0_7 import Produce
from pyspark_commitlog.classic.streams import ConsumerConnector, KafkaStream
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.classic.wire.kafka_0_7 import PositionBroker
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.kafka_nodes import RegisteredBroker
from pyspark_commitlog.registry.operations import put
from pyspark_commitlog.registry.port import Registry
from tests.support.gateway import WireClient, create_topic, produce_fields, serving
from tests.support.logs.building import batch

LOOK_S = 0.01
QUICK = {
    "groupid": "g",
    "consumer.timeout.ms": 120_000,
    "rebalance.backoff.ms": 20,
    "rebalance.retries.max": 500,
    "autooffset.reset": "smallest",
    "fetcher.backoff.ms": 5,
    "fetch.wait.max.ms": 20,
    "refresh.leader.backoff.ms": 20,
    "offsets.channel.backoff.ms": 20,
    "autocommit.interval.ms": 60_000,
}


class OldCluster:
    """A cluster of one broker, of 0.7 or of 0.8; partitions of 0.7 are on broker 0."""

    def __init__(self, kind: str, directory: Path, address: tuple[str, int]) -> None:
        self.kind, self.directory, self.address = kind, directory, Address(*address)
        self.opened = ExitStack()
        self.registry = self.session()

    def session(self) -> Registry:
        return self.opened.enter_context(FileRegistry(str(self.directory), look_s=LOOK_S))

    @property
    def broker(self) -> int | None:
        return 0 if self.kind == "0.7" else None

    def create(self, topic: str, partitions: int = 1) -> None:
        if self.kind == "0.7":
            put(self.registry, kafka_nodes.old_topic_path(topic, 0), b"%d" % partitions)
            return
        with WireClient(self) as client:
            create_topic(client, topic, partitions)
        data = kafka_nodes.encode_topic({each: [1] for each in range(partitions)}, None, (0, 8, 2))
        put(self.registry, kafka_nodes.topic_path(topic), data)

    def produce(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        if self.kind == "0.7":
            with Connection(self.address) as connection:
                broker = PositionBroker(connection)
                broker.produce([Produce(topic, partition, encode_set(list(values)))])
                broker.multi_fetch([])  # its answer comes once the sets are written
            return
        with WireClient(self) as client:
            answer = client.ask(0, 8, **produce_fields(topic, batch(*values).tobytes(), partition=partition))
            assert not answer.responses[0].partition_responses[0].error_code

    def connect(self, start_offsets: Any = None, **settings: object) -> ConsumerConnector:
        """A consumer, shut down with the cluster at the latest; ``settings``: by names with ``_`` in place of dots."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        cluster = {"0.7": "zk.connect", "0.8": "zookeeper.connect"}[self.kind]
        config = {**QUICK, **given, cluster: "a registry of the test's"}
        created = ConsumerConnector.create(config, registry=self.session(), start_offsets=start_offsets)
        return self.opened.enter_context(created)

    def committed(self, topic: str, partition: int = 0, group: str = "g") -> int | None:
        """What old tools find in ZooKeeper."""
        node = self.registry.find(kafka_nodes.offset_path(group, topic, partition, self.broker))
        return None if node is None or node.data is None else int(node.data)


@contextmanager
def old_cluster(kind: str, directory: Path) -> Iterator[OldCluster]:
    """``kind``: 0.7 or 0.8."""
    gateway: Gateway | PositionGateway
    with ExitStack() as started:
        if kind == "0.7":
            settings = PositionLogSettings.from_mapping({"log.flush.interval": 1, "num.partitions": 4})
            config = PositionGatewayConfig(port=0, threads=2, logs=settings)
            gateway = started.enter_context(PositionGateway(str(directory / "log"), config))
            cluster = OldCluster(kind, directory, gateway.address)
            started.callback(cluster.opened.close)
            broker = RegisteredBroker.plain(*gateway.address)
            put(cluster.registry, kafka_nodes.broker_path(0), kafka_nodes.encode_broker(broker, (0, 7)))
        else:
            gateway = started.enter_context(serving(directory, offsets_topic_num_partitions=1))
            cluster = OldCluster(kind, directory, gateway.address)
            started.callback(cluster.opened.close)
        yield cluster


class Collected:
    """Reads a stream in a thread until it ends."""

    def __init__(self, stream: KafkaStream[bytes, bytes]) -> None:
        self.messages: list[Any] = []
        self.error: Exception | None = None
        self._stream = stream
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            for message in self._stream:
                self.messages.append(message)
        except Exception as error:
            self.error = error

    @property
    def values(self) -> list[bytes]:
        return [each.message for each in self.messages]
