"""Clients and tools of Kafka 0.8.2.2 and 0.10.2.2, which send no ApiVersions or old ones: each does its work."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager
from tests.gateway.clients.programs import TIMEOUT_S
from tests.support.gateway import LOCAL, WireClient, create_topic, serving
from tests.support.kafka import kafka_jvm, old_kafka
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.logs import building
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

LINES = [f"line {number}" for number in range(200)]
PATIENT = ("--request-timeout-ms", "60000")  # on a busy machine an answer takes longer than the default allows
# The loggers that warn of options which the tools themselves set.
OWN_WARNINGS = ("(kafka.utils.VerifiableProperties)", "(org.apache.kafka.clients.producer.ProducerConfig)")
CONSOLE_CONSUMER = {
    "0.10.2.2": "kafka.tools.ConsoleConsumer",
    "3.9.1": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}


FOLLOWS = {"inter_broker_protocol_version": "2.8"}  # so that topics may have old formats


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("gateway") / "log", **FOLLOWS, group_initial_rebalance_delay_ms=0) as started:
        yield started


def create(gateway: Gateway, topic: str, partitions: int = 1, **configs: str) -> None:
    with WireClient(gateway) as client:
        create_topic(client, topic, partitions, **configs)


def run(release: str, main: str, *arguments: str, stdin: str = "") -> str:
    """What a tool prints. It must succeed, and warn of nothing but options of its own that it does not know."""
    command = [*old_kafka.jvm(release), main, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    problems = [line for line in done.stderr.splitlines() if not line.endswith(OWN_WARNINGS)]
    assert (done.returncode, [line for line in problems if "WARN" in line or "ERROR" in line]) == (0, []), done.stderr
    return done.stdout


def produce(gateway: Gateway, release: str, topic: str, *options: str) -> None:
    arguments = ["--broker-list", gateway.bootstrap_servers, "--topic", topic, *options]
    arguments += ["--request-required-acks", "1", *PATIENT]
    run(release, "kafka.tools.ConsoleProducer", *arguments, stdin="".join(f"{line}\n" for line in LINES))


def values(gateway: Gateway, topic: str) -> list[bytes | None]:
    with LogManager.open(gateway.context.log_dir) as manager, manager.open_reader(topic, 0) as reader:
        return [value for _, value in building.rows(reader)]


TODAY = "3.0-IV1"
PRODUCERS = [
    ("0.8.2.2", (), "0.8.2"),
    ("0.8.2.2", (), "0.10.2"),
    ("0.8.2.2", (), TODAY),
    ("0.8.2.2", ("--new-producer",), TODAY),
    ("0.10.2.2", (), "0.8.2"),
    ("0.10.2.2", (), "0.10.2"),
    ("0.10.2.2", (), TODAY),
    ("0.10.2.2", ("--old-producer",), TODAY),
]


@pytest.mark.parametrize(("release", "options", "stored_as"), PRODUCERS)
def test_console_producers_and_the_simple_consumer(
    gateway: Gateway, release: str, options: tuple[str, ...], stored_as: str
) -> None:
    topic = f"t-{release}-{len(options)}-{stored_as}"
    create(gateway, topic, message_format_version=stored_as)
    produce(gateway, release, topic, *options, "--compression-codec", "gzip")
    assert values(gateway, topic) == [line.encode() for line in LINES]
    where = ["--broker-list", gateway.bootstrap_servers, "--topic", topic]
    for reader in old_kafka.CLIENTS:
        arguments = [*where, "--partition", "0", "--max-messages", "200", "--no-wait-at-logend"]
        assert run(reader, "kafka.tools.SimpleConsumerShell", *arguments, "--offset", "0").splitlines()[-200:] == LINES
    ends = run(release, "kafka.tools.GetOffsetShell", *where, "--time", "-1", "--offsets", "5")
    assert ends.split() == [f"{topic}:0:200,0"]
    assert run(release, "kafka.tools.GetOffsetShell", *where, "--time", "-2").split() == [f"{topic}:0:0"]


def consumer(gateway: Gateway, release: str, group: str, topic: str) -> subprocess.Popen[str]:
    """A consumer that ends when nothing came for a while."""
    start = kafka_jvm.jvm() if release == "3.9.1" else old_kafka.jvm(release)
    arguments = ["--bootstrap-server", gateway.bootstrap_servers, "--topic", topic, "--from-beginning"]
    arguments += ["--timeout-ms", "20000", "--consumer-property", f"group.id={group}"]
    return subprocess.Popen([*start, CONSOLE_CONSUMER[release], *arguments], stdout=subprocess.PIPE, text=True)


def await_members(gateway: Gateway, members: list[subprocess.Popen[str]], group: str) -> None:
    """Waits until all are in the group, and it is stable."""
    with WireClient(gateway) as client:
        while all(member.poll() is None for member in members):
            found = client.ask(15, 0, groups=[group]).groups[0]
            if found.group_state == "Stable" and len(found.members) == len(members):
                return
            time.sleep(0.1)
    pytest.fail("a consumer has ended")


def test_consumers_of_0_10_and_of_today_share_a_group(gateway: Gateway) -> None:
    create(gateway, "shared", 2)
    members = [consumer(gateway, release, "mixed", "shared") for release in CONSOLE_CONSUMER]
    try:
        await_members(gateway, members, "mixed")
        produce(gateway, "0.10.2.2", "shared", "--batch-size", "10", "--sync")
        shares = [member.communicate(timeout=100)[0].splitlines() for member in members]
    finally:
        for member in members:
            member.kill()
    assert sorted(shares[0] + shares[1]) == sorted(LINES)
    assert all(shares)
    assert committed(gateway, 1, "mixed", "shared") == 200


def committed(gateway: Gateway, version: int, group: str, topic: str) -> int:
    """The sum of the offsets of both partitions, as a version of OffsetFetch answers them."""
    with WireClient(gateway) as client:
        topics = [{"name": topic, "partition_indexes": (0, 1)}]
        answer = client.ask(9, version, group_id=group, topics=topics)
    return sum(each.committed_offset for each in answer.topics[0].partitions)


def zookeeper_consumer(release: str, connect: str, config: Path, topic: str) -> subprocess.Popen[str]:
    arguments = ["--zookeeper", connect, "--consumer.config", str(config), "--topic", topic]
    command = [*old_kafka.jvm(release), "kafka.tools.ConsoleConsumer", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def await_owners(
    gateway: Gateway, members: list[subprocess.Popen[str]], group: str, topic: str, partitions: Iterable[int] = (0, 1)
) -> None:
    """Waits until each partition has an owner, and each of two consumers a partition."""
    path = f"/consumers/{group}/owners/{topic}"
    while all(member.poll() is None for member in members):
        found = [gateway.context.registry.find(f"{path}/{partition}") for partition in partitions]
        if None not in found and len({each.data for each in found if each is not None}) == 2:
            return
        time.sleep(0.1)
    pytest.fail("a consumer has ended")


@pytest.mark.parametrize(
    ("storage", "versions"), [pytest.param("zookeeper", [0], marks=pytest.mark.matrix), ("kafka", [0, 1])]
)
def test_consumers_with_zookeeper_of_0_8_and_0_10_share_a_group(
    tmp_path: Path, storage: str, versions: list[int]
) -> None:
    """With offsets.storage=kafka they commit to both places."""
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper:
        settings = {"group.id": "old", "zookeeper.connect": zookeeper.connect, "auto.offset.reset": "smallest"}
        settings |= {"offsets.storage": storage, "rebalance.max.retries": "20", "consumer.timeout.ms": "20000"}
        config = tmp_path / "consumer.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with serving(tmp_path / "log", **FOLLOWS, zookeeper_connect=zookeeper.connect) as gateway:
            create(gateway, "shared", 2, message_format_version="0.8.2")
            members = [
                zookeeper_consumer(release, zookeeper.connect, config, "shared") for release in old_kafka.CLIENTS
            ]
            try:
                await_owners(gateway, members, "old", "shared")
                produce(gateway, "0.10.2.2", "shared", "--batch-size", "10", "--sync")
                shares = [member.communicate(timeout=100)[0].splitlines() for member in members]
            finally:
                for member in members:
                    member.kill()
            assert sorted(shares[0] + shares[1]) == sorted(LINES)
            assert all(shares)
            assert [committed(gateway, version, "old", "shared") for version in versions] == [200] * len(versions)


@contextmanager
def three_nodes(directory: Path, connect: str) -> Iterator[dict[int, Gateway]]:
    """Gateways over one directory, by their ids."""
    found: dict[int, Gateway] = {}

    def start(node: int) -> Gateway:
        settings = {"zookeeper.connect": connect, "node.id": node, "listeners": LOCAL}
        settings |= {"inter.broker.protocol.version": "2.8"}
        gateway = Gateway(str(directory), GatewayConfig.from_mapping(settings), create=True)
        gateway.start()
        return gateway

    try:
        for node in (1, 2, 3):
            found[node] = start(node)
        yield found
    finally:
        for gateway in found.values():
            gateway.stop()


def test_consumers_of_0_8_and_0_10_read_from_three_nodes_of_which_one_stops(tmp_path: Path) -> None:
    """Two groups: one with ZooKeeper of both releases, one of 0.10 with the gateways. Each reads all, once."""
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper, three_nodes(tmp_path / "log", zookeeper.connect) as nodes:
        config = tmp_path / "consumer.properties"
        settings = {"group.id": "old", "zookeeper.connect": zookeeper.connect, "consumer.timeout.ms": "20000"}
        settings |= {"rebalance.max.retries": "20", "auto.commit.interval.ms": "500"}
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        create(nodes[1], "spread", 12, message_format_version="0.8.2")
        leaders = [nodes[1].context.cluster.leader("spread", number).node for number in range(12)]
        assert set(leaders) == {1, 2, 3}
        members = [zookeeper_consumer(release, zookeeper.connect, config, "spread") for release in old_kafka.CLIENTS]
        others = [consumer(nodes[2], "0.10.2.2", "own", "spread")]
        try:
            await_owners(nodes[1], members, "old", "spread", range(12))
            soon(lambda: has_begun(nodes[1], "old", "spread", range(12)))
            bootstrap = ",".join(each.bootstrap_servers for each in nodes.values())
            producer = Producer({"bootstrap.servers": bootstrap, "max.in.flight": 1})
            for number, line in enumerate(LINES):
                producer.produce("spread", line, partition=number % 12)
                producer.poll(0)
                time.sleep(0.02)
                if number == 100:
                    nodes.pop(3).stop()
            assert producer.flush(60) == 0
            shares = [member.communicate(timeout=100)[0].splitlines() for member in members]
            (own,) = [member.communicate(timeout=100)[0].splitlines() for member in others]
        finally:
            for member in (*members, *others):
                member.kill()
        assert sorted(shares[0] + shares[1]) == sorted(LINES)
        assert all(shares)
        assert sorted(own) == sorted(LINES)


def has_begun(gateway: Gateway, group: str, topic: str, partitions: Iterable[int]) -> bool:
    """Whether an offset of each partition is in ZooKeeper."""
    path = f"/consumers/{group}/offsets/{topic}"
    return all(gateway.context.registry.find(f"{path}/{partition}") is not None for partition in partitions)
