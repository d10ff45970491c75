"""Consumers of Kafka 0.8.2.2 whose offsets move from ZooKeeper to the log and back, while records are produced."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from pyspark_commitlog.gateway.server import Gateway
from tests.gateway.clients.programs import printed
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.kafka import old_kafka
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

TOPIC, GROUP, PARTITIONS = "moving", "old", (0, 1)
PAUSE_S = 0.02  # between two records
IN_ZOOKEEPER, IN_LOG = 0, 1  # versions of OffsetFetch


class Storage(NamedTuple):
    """Where consumers keep their offsets."""

    settings: dict[str, str]
    places: Sequence[int]  # that they read at their start: the larger offset counts


ZOOKEEPER = Storage({"offsets.storage": "zookeeper"}, [IN_ZOOKEEPER])
BOTH = Storage({"offsets.storage": "kafka", "dual.commit.enabled": "true"}, [IN_ZOOKEEPER, IN_LOG])
LOG = Storage({"offsets.storage": "kafka", "dual.commit.enabled": "false"}, [IN_LOG])


class World(NamedTuple):
    """A gateway with a real ZooKeeper, and who produces."""

    home: Path
    connect: str
    gateway: Gateway
    producing: Producing

    def committed(self, place: int) -> list[int]:
        """The offset of each partition; 0: none."""
        with WireClient(self.gateway) as client:
            topics = [{"name": TOPIC, "partition_indexes": PARTITIONS}]
            (found,) = client.ask(9, place, group_id=GROUP, topics=topics).topics
        return [
            max(each.committed_offset, 0) for each in sorted(found.partitions, key=lambda part: part.partition_index)
        ]

    def have_begun(self) -> bool:
        """Whether an offset of each partition is in ZooKeeper. The first consumers begin at the end of the topic."""
        path = f"/consumers/{GROUP}/offsets/{TOPIC}"
        return None not in [self.gateway.context.registry.find(f"{path}/{partition}") for partition in PARTITIONS]

    def owners(self) -> int:
        """How many consumers have a partition, if each partition has one."""
        registry = self.gateway.context.registry
        found = [registry.find(f"/consumers/{GROUP}/owners/{TOPIC}/{partition}") for partition in PARTITIONS]
        return 0 if None in found else len({each.data for each in found if each is not None})


class Producing:
    """Produces to both partitions until it ends; a value is its partition and its offset."""

    def __init__(self, address: str) -> None:
        self.sent = 0  # to each partition
        self._ending = threading.Event()
        self._producer = Producer({"bootstrap.servers": address, "max.in.flight": 1, "linger.ms": 0})
        self._errors: list[object] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ending.wait(PAUSE_S):
            for partition in PARTITIONS:
                self._producer.produce(TOPIC, f"{partition} {self.sent}", None, partition, self._delivered)
            self._producer.poll(0)
            self.sent += 1
        self._producer.flush(60)

    def _delivered(self, error: object, _: object) -> None:
        self._errors.extend([error] if error else [])

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        assert not self._errors, self._errors[:3]


class Member:
    """A console consumer; what it has read is in ``read``, once it has ended."""

    def __init__(self, world: World, number: int, storage: Storage) -> None:
        config = world.home / f"{number}.properties"
        settings = {"group.id": GROUP, "zookeeper.connect": world.connect, "auto.offset.reset": "smallest"}
        settings |= {"auto.commit.interval.ms": "500", "rebalance.max.retries": "20", **storage.settings}
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        places = [world.committed(place) for place in storage.places]
        self.begins = [max(offsets) for offsets in zip(*places, strict=True)]  # what was committed before it began
        self._output = world.home / f"{number}.out"
        arguments = ["--zookeeper", world.connect, "--consumer.config", str(config), "--topic", TOPIC]
        command = [*old_kafka.jvm("0.8.2.2"), "kafka.tools.ConsoleConsumer", *arguments]
        with self._output.open("w") as output:
            self.process = subprocess.Popen(command, stdout=output)

    def stop(self) -> None:
        """Lets it commit, and end."""
        self.process.terminate()
        self.process.wait(60)

    @property
    def read(self) -> list[tuple[int, int]]:
        """Partitions and offsets."""
        lines = self._output.read_text().splitlines()
        return [(int(partition), int(offset)) for partition, offset in map(str.split, lines)]


class Group:
    """The consumers, of which two run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.all: list[Member] = []
        self.running: list[Member] = []

    def start(self, storage: Storage) -> None:
        member = Member(self._world, len(self.all), storage)
        self.all.append(member)
        self.running.append(member)

    def settle(self) -> None:
        """Waits until each consumer has a partition, and all of them have gone on."""
        sent = self._world.producing.sent
        soon(lambda: self._world.owners() == len(self.running))
        soon(lambda: {sent} <= {each for _, each in self.all_read()} and not self.have_ended())

    def have_ended(self) -> bool:
        return any(member.process.poll() is not None for member in self.running)

    def restart_each(self, storage: Storage) -> None:
        """One after the other, as documented."""
        for _ in range(len(self.running)):
            self.running.pop(0).stop()
            self.start(storage)
            self.settle()

    def stop(self) -> None:
        while self.running:
            self.running.pop().stop()

    def all_read(self) -> list[tuple[int, int]]:
        return [each for member in self.all for each in member.read]

    def check(self) -> None:
        """No record was skipped, and none read by a consumer that began with a larger offset."""
        sent = self._world.producing.sent
        read = Counter(self.all_read())
        missing = {(partition, offset) for partition in PARTITIONS for offset in range(sent)} - set(read)
        assert not missing, f"skipped: {sorted(missing)[:5]}"
        for member in self.all:
            again = [each for each in member.read if each[1] < member.begins[each[0]]]
            assert not again, f"read though {member.begins} were committed: {again[:5]}"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(tmp_path / "zookeeper"))
        gateway = stack.enter_context(
            serving(tmp_path / "log", zookeeper_connect=zookeeper.connect, inter_broker_protocol_version="2.8")
        )
        with WireClient(gateway) as client:
            create_topic(client, TOPIC, len(PARTITIONS), message_format_version="0.8.2")
        producing = Producing(gateway.bootstrap_servers)
        stack.callback(producing.end)
        yield World(tmp_path, zookeeper.connect, gateway, producing)


@contextmanager
def consuming(world: World) -> Iterator[Group]:
    """Two consumers that keep their offsets in ZooKeeper; at the end all that was produced is read, and compared."""
    group = Group(world)
    try:
        for _ in PARTITIONS:
            group.start(ZOOKEEPER)
        soon(world.have_begun)
        world.producing.start()
        group.settle()
        yield group
        world.producing.end()
        soon(lambda: len(set(group.all_read())) == len(PARTITIONS) * world.producing.sent)
        group.stop()
        group.check()
    finally:
        for member in group.running:
            member.process.kill()


def test_offsets_move_to_the_log_and_back_by_dual_commits_while_consumers_run(world: World) -> None:
    with consuming(world) as group:
        for storage in (BOTH, LOG, BOTH, ZOOKEEPER):
            group.restart_each(storage)


def test_offsets_move_to_the_log_and_back_by_the_command_while_records_are_produced(world: World) -> None:
    with consuming(world) as group:
        for source, target, storage in (("zookeeper", "log", LOG), ("log", "zookeeper", ZOOKEEPER)):
            group.stop()
            soon(lambda: world.owners() == 0)
            where = ["--log-dir", world.gateway.log_dir, "--zookeeper-connect", world.connect]
            move = ["--migrate-offsets", "--from", source, "--to", target, "--group", GROUP, "--execute"]
            printed([str(Path(sys.executable).with_name("commitlog")), "groups", *where, *move])
            assert world.committed(IN_ZOOKEEPER) == world.committed(IN_LOG)
            for _ in PARTITIONS:
                group.start(storage)
            group.settle()
