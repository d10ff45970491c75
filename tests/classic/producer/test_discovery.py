"""A producer that runs while brokers of 0.7 come, go and move in a real ZooKeeper, or behind one address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from pyspark_commitlog.classic.errors import NoBrokersForPartitionError
from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.entries import encode_set, messages_in
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.classic.producer import Producer, ProducerData
from pyspark_commitlog.classic.requests_0_7 import Fetch, Produce
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.classic.wire.kafka_0_7 import PositionBroker
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
from tests.registry.test_zookeeper import expire
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.waiting import soon

CHROOTS = count()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started


class Site:
    """Brokers of 0.7 over directories of their own; their topics have two partitions each."""

    def __init__(self, directory: Path, connect: str) -> None:
        self.connect, self._directory = connect, directory
        self._running: dict[int, tuple[PositionGateway, ExitStack]] = {}

    def start(self, broker: int) -> None:
        logs = PositionLogSettings(num_partitions=2, flush_interval=1)
        config = PositionGatewayConfig(port=0, threads=1, broker_id=broker, zk_connect=self.connect, logs=logs)
        stack = ExitStack()
        server = stack.enter_context(PositionGateway(str(self._directory / str(broker)), config))
        self._running[broker] = server, stack

    def stop(self, broker: int) -> None:
        self._running.pop(broker)[1].close()

    def has(self, topic: str) -> dict[int, list[bytes]]:
        """What consumers get of a topic, by broker; of all partitions."""
        return {broker: sorted(fetched(server, topic)) for broker, (server, _) in self._running.items()}

    def take_up(self, broker: int, topic: str) -> None:
        """Another producer sends the broker a message of the topic."""
        with closing(Connection(Address(*self._running[broker][0].address))) as connection:
            PositionBroker(connection).produce([Produce(topic, 0, encode_set([b"other"]))])

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *exc: object) -> None:
        for broker in [*self._running]:
            self.stop(broker)


def fetched(server: PositionGateway, topic: str) -> list[bytes]:
    with closing(Connection(Address(*server.address))) as connection:
        answers = PositionBroker(connection).multi_fetch([Fetch(topic, each, 0, 1 << 20) for each in (0, 1)])
    return [one.payload for answer in answers for one in messages_in(answer.message_set)]


@pytest.fixture
def site(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[Site]:
    with Site(tmp_path, f"{zookeeper.connect}/discovery/{next(CHROOTS)}") as made:
        yield made


@contextmanager
def producing(site: Site, kind: str = "sync", **settings: object) -> Iterator[Producer]:
    given = {"zk.connect": site.connect, "producer.type": kind, "queue.time": 10, "zk.sessiontimeout.ms": 2000}
    with Producer({**given, **settings}, partitioner=Number()) as producer:
        yield producer


class Number:
    """The key is the index into the sorted list of partitions."""

    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_brokers_and_topics_are_followed_while_a_producer_runs(site: Site, kind: str) -> None:
    site.start(0)
    with producing(site, kind, **{"num.retries": 20}) as producer:  # the news of a stop may come after the next send
        producer.send([ProducerData("t", key, b"%d" % key) for key in range(2)])  # nobody has it: partition 0 of each
        soon(lambda: site.has("t") == {0: [b"0", b"1"]})

        site.start(1)  # a new broker
        producer.send(ProducerData("u", 1, b"0"))
        soon(lambda: site.has("u")[0] == [b"0"] or site.has("u")[1] == [b"0"])
        soon(lambda: sent_to(producer, site, "v", 1) == 1)  # a new topic goes to both

        site.take_up(1, "t")  # it takes up a known topic: 0-0, 0-1, 1-0, 1-1
        soon(lambda: sent_to(producer, site, "t", 3) == 1)

        site.stop(0)  # a broker goes: 1-0, 1-1
        producer.send([ProducerData("t", key, b"after %d" % key) for key in range(4)])
        soon(lambda: [each for each in site.has("t")[1] if each.startswith(b"after")] == after(4))

        site.start(0)  # and comes again elsewhere, with another port
        soon(lambda: sent_to(producer, site, "t", 0) == 0)
    assert producer.figures.lost_events == 0


def after(number: int) -> list[bytes]:
    return [b"after %d" % key for key in range(number)]


NUMBERS = count()


def sent_to(producer: Producer, site: Site, topic: str, index: int) -> int:
    """Sends a message, and returns the broker that has it."""
    value = b"probe %d" % next(NUMBERS)
    producer.send(ProducerData(topic, index, value))
    soon(lambda: any(value in values for values in site.has(topic).values()))
    return next(broker for broker, values in site.has(topic).items() if value in values)


def test_after_its_session_expired_a_producer_follows_again(site: Site, zookeeper: ZooKeeper) -> None:
    site.start(0)
    with (
        ZooKeeperRegistry(site.connect) as registry,
        Producer({"zk.connect": "not used"}, partitioner=Number(), registry=registry) as producer,
    ):
        assert sent_to(producer, site, "t", 0) == 0
        expire(registry, zookeeper)
        site.start(1)
        site.take_up(1, "t")
        soon(lambda: sent_to(producer, site, "t", 2) == 1)


@pytest.mark.only_all
def test_while_zookeeper_is_silent_messages_go_to_the_brokers_that_are_known(site: Site, tmp_path: Path) -> None:
    with ZooKeeper(tmp_path / "zookeeper") as silent, Site(tmp_path, silent.connect) as other:
        other.start(0)
        with producing(other) as producer:
            assert sent_to(producer, other, "t", 0) == 0
            silent.kill()
            for _ in range(3):
                assert sent_to(producer, other, "t", 0) == 0
            silent.start()
            other.start(1)
            soon(lambda: sent_to(producer, other, "new", 1) == 1)


def test_without_a_broker_a_send_fails(site: Site) -> None:
    with producing(site) as producer, pytest.raises(NoBrokersForPartitionError, match="topic t"):
        producer.send(ProducerData("t", 0, b"1"))


class Balancer:
    """A balancer of layer 4: each connection goes to the next of its servers."""

    def __init__(self, *servers: tuple[str, int]) -> None:
        self._servers = servers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._servers[self.connections % len(self._servers)])
            self.connections += 1
            threading.Thread(target=_copy, args=(client, server), daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _copy(client: socket.socket, server: socket.socket) -> None:
    with client, server:
        while data := client.recv(1 << 16):
            server.sendall(data)


def test_behind_one_address_a_producer_has_one_connection_to_one_broker(tmp_path: Path) -> None:
    logs = PositionLogSettings(num_partitions=1, flush_interval=1)
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                PositionGateway(str(tmp_path / name), PositionGatewayConfig(port=0, threads=1, logs=logs))
            )
            for name in ("a", "b")
        ]
        balancer = stack.enter_context(closing(Balancer(*(each.address for each in servers))))
        producers = [stack.enter_context(Producer({"broker.list": f"0:127.0.0.1:{balancer.port}"})) for _ in range(2)]
        for number in range(10):
            for producer in producers:
                producer.send(ProducerData("t", None, b"%d" % number))
        wanted = [b"%d" % number for number in range(10)]
        soon(lambda: [fetched(each, "t") for each in servers] == [wanted, wanted])
        assert balancer.connections == 2
