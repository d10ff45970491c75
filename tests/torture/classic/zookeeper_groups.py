"""One group of real consumers of Kafka 0.8.2.2 and 0.10.2.2, and ours, that meet in ZooKeeper.

Consumers come, go and are killed, and topics are made, while messages are produced. Once the group has settled, each
partition has the owner that the rule of Kafka gives it. In the end every message was read; who was killed may have
handed one out that it had committed but not printed. Nothing is read twice but what was not committed at a kill.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from pyspark_commitlog.classic.wire import calls
from pyspark_commitlog.classic.wire.broker import Broker
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.classic.zookeeper_groups.assignment import Strategy, assign
from pyspark_commitlog.classic.zookeeper_groups.registered import Registered, streams_by_topic
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.operations import put
from pyspark_commitlog.registry.zookeeper import ZooKeeperRegistry
from pyspark_commitlog.storage import LogStoreError, TopicPartition
from pyspark_commitlog.storage.format.legacy import v0
from tests.support.kafka import old_kafka
from tests.support.kafka.zookeeper import ZooKeeper
from tests.support.logs.building import records
from tests.support.waiting import soon
from tests.torture.suite import Run, Suite

GROUP, WHITELIST, PARTITIONS = "mixed", "t-.*", 3
KINDS = ("0.8.2.2", "0.10.2.2", "ours", "ours")
MEMBERS_MAX = 4
PAUSE_S = 0.02  # between two rounds of messages
SETTINGS = {
    "group.id": GROUP,
    "auto.offset.reset": "smallest",
    "auto.commit.interval.ms": 200,
    "rebalance.backoff.ms": 200,
    "rebalance.max.retries": 100,
    "zookeeper.session.timeout.ms": 2000,
    "zookeeper.connection.timeout.ms": 20_000,
    "zookeeper.sync.time.ms": 200,
}
Place = tuple[str, int, int]  # topic, partition, number of the message, which is its offset


class Member:
    """A consumer in a process of its own; what it has read is in its output."""

    def __init__(self, home: Path, number: int, kind: str, connect: str, streams: int) -> None:
        self.kind = kind
        self._output = home / f"{number}-{kind}.out"
        settings = {**SETTINGS, "zookeeper.connect": connect}
        if kind == "ours":
            program = [sys.executable, "-m", "tests.torture.classic.reader"]
            command = [*program, json.dumps(settings), WHITELIST, str(streams)]
        else:
            config = home / f"{number}.properties"
            config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            arguments = ["--zookeeper", connect, "--consumer.config", str(config), "--whitelist", WHITELIST]
            command = [*old_kafka.jvm(kind), "kafka.tools.ConsoleConsumer", *arguments]
        with self._output.open("w") as output, (home / f"{number}-{kind}.err").open("w") as errors:
            self.process = subprocess.Popen(command, stdout=output, stderr=errors)

    def end(self, *, kill: bool) -> None:
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait(60)

    def read(self) -> list[Place]:
        """What it printed; a line that a kill cut off is left out."""
        *lines, _ = self._output.read_text().split("\n")
        return [(topic, int(partition), int(number)) for topic, partition, number in map(str.split, lines)]


class Producing:
    """Produces to all partitions of the topics, which it creates."""

    def __init__(self, address: Address) -> None:
        self._connection = Connection(address)
        self._broker = Broker(self._connection)
        self.sent: dict[TopicPartition, int] = {}
        self._lock, self._ending = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: Exception | None = None

    def create(self, topic: str) -> None:
        """The broker creates a topic that is asked for."""
        places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        soon(lambda: [self._leader(each) >= 0 for each in places] == [True] * PARTITIONS, LogStoreError)
        with self._lock:
            self.sent |= dict.fromkeys(places, 0)

    def _leader(self, place: TopicPartition) -> int:
        found = calls.cluster(self._broker, [place.topic]).partitions.get(place)
        return -1 if found is None else found.leader

    def _run(self) -> None:
        try:
            while not self._ending.wait(PAUSE_S):
                with self._lock:
                    places = dict(self.sent)
                values = {
                    place: v0.encode(records([f"{place.topic} {place.partition} {number}".encode()])).tobytes()
                    for place, number in places.items()
                }
                for place, found in calls.produce(self._broker, values).items():
                    calls.check(found.error, str(place))
                    assert found.offset == places[place]
                with self._lock:
                    for place, number in places.items():
                        self.sent[place] = number + 1
        except Exception as error:
            self.error = error

    def __enter__(self) -> Producing:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._thread.join()
        self._connection.close()
        if self.error is not None:
            raise self.error


class Killed(NamedTuple):
    """What was committed once a member was killed."""

    committed: dict[TopicPartition, int]
    read_before: dict[TopicPartition, int]  # how many messages of each partition it had printed at most: its last + 1


class Group:
    """The members, and the tree in which they meet."""

    def __init__(self, home: Path, connect: str, producing: Producing) -> None:
        self._home, self._connect, self._producing = home, connect, producing
        self.registry = ZooKeeperRegistry(connect)
        self._registered = Registered(self.registry, GROUP, (0, 8, 2), lambda: None)
        self.all: list[Member] = []
        self.living: list[Member] = []
        self.kills: list[Killed] = []

    def create(self, topic: str) -> None:
        """Creates a topic whose offsets are committed as 0: Kafka's console consumer begins at the end otherwise."""
        for partition in range(PARTITIONS):
            put(self.registry, kafka_nodes.offset_path(GROUP, topic, partition), b"0")
        self._producing.create(topic)

    def join(self, kind: str, streams: int) -> None:
        member = Member(self._home, len(self.all), kind, self._connect, streams)
        self.all.append(member)
        self.living.append(member)

    def end(self, member: Member, *, kill: bool) -> None:
        self.living.remove(member)
        member.end(kill=kill)
        if kill:
            last: dict[TopicPartition, int] = {}
            for topic, partition, number in member.read():
                last[TopicPartition(topic, partition)] = number + 1
            self.kills.append(Killed(self.committed(), last))

    def committed(self) -> dict[TopicPartition, int]:
        found = {}
        for place in dict(self._producing.sent):
            node = self.registry.find(kafka_nodes.offset_path(GROUP, *place))
            found[place] = int(node.data or b"0") if node is not None else 0
        return found

    def is_settled(self) -> bool:
        """Whether those who live are registered, and each partition has the owner that the rule gives it."""
        for each in self.living:
            assert each.process.poll() is None, f"a consumer of kind {each.kind} ended"
        there = self._registered.subscriptions(exclude_internal=True)
        topics = [each for each in self._registered.topics() if each.startswith("t-")]
        if len(there) != len(self.living):
            return False
        partitions = {topic: self._registered.partitions(topic) for topic in topics}
        wanted = assign(Strategy.RANGE, partitions, streams_by_topic(there, topics))
        owners = {
            f"{topic}/{name}": owner for topic in topics for name, owner in self._registered.owners(topic).items()
        }
        return owners == {str(partition): str(stream) for partition, stream in wanted.items()}

    def settle(self) -> None:
        soon(self.is_settled, LogStoreError)  # it changes while it is read

    def has_read_all(self) -> bool:
        return self.committed() == self._producing.sent

    def close(self) -> None:
        for each in self.living:
            each.process.kill()
            each.process.wait()
        self.registry.close()


def check(run: Run, group: Group, sent: dict[TopicPartition, int]) -> None:
    """Compares what was printed with what was sent."""
    seen: dict[Place, list[Member]] = {}
    for member in group.all:
        for place in member.read():
            seen.setdefault(place, []).append(member)
    wanted = {(topic, partition, number) for (topic, partition), upto in sent.items() for number in range(upto)}
    assert set(seen) <= wanted
    for topic, partition, number in sorted(wanted - set(seen)):
        place = TopicPartition(topic, partition)
        is_excused = any(kill.committed.get(place) == number + 1 for kill in group.kills)
        assert is_excused, f"message {number} of {place} was read by nobody"
        run.note("messages handed out at a kill")
    for (topic, partition, number), members in seen.items():
        place = TopicPartition(topic, partition)
        if len(members) > 1 and not any(
            kill.committed.get(place, 0) <= number < kill.read_before.get(place, 0) for kill in group.kills
        ):
            kinds = [each.kind for each in members]
            assert set(kinds) != {"ours"}, f"message {number} of {place} was read twice without a kill"
            run.note("messages that real consumers read twice")
    run.note("messages", len(wanted))


def live(run: Run, chance: Random, group: Group) -> None:
    """Lets members come and go until the case has had its events."""
    group.create("t-0")
    topics = 1
    for kind in ("0.10.2.2", "ours"):
        group.join(kind, 1)
    group.settle()
    while not run.enough:
        drawn = chance.random()
        if len(group.living) < 2 or (drawn < 0.4 and len(group.living) < MEMBERS_MAX):
            group.join(chance.choice(KINDS), chance.randint(1, 2))
        elif drawn < 0.85:
            is_killed = chance.random() < 0.5
            group.end(chance.choice(group.living), kill=is_killed)
            run.note("kills" if is_killed else "leaves")
        else:
            group.create(f"t-{topics}")
            topics += 1
            run.note("topics")
        if chance.random() < 0.3:
            run.passed()
            continue  # the next change comes before the group has settled
        group.settle()
        run.passed()
    if not group.living:
        group.join("ours", 1)
    group.settle()


@contextmanager
def world(home: Path) -> Iterator[tuple[Group, Producing]]:
    with ExitStack() as started:
        zookeeper = started.enter_context(ZooKeeper(home / "zookeeper"))
        settings = {"num.partitions": PARTITIONS}
        kafka = started.enter_context(
            old_kafka.OldBroker(home / "kafka", zookeeper.connect, release="0.10.2.2", settings=settings)
        )
        producing = Producing(Address("127.0.0.1", kafka.port))
        group = Group(home, zookeeper.connect, producing)
        started.callback(group.close)
        yield group, producing


def run(run: Run) -> None:
    for case in run.cases():
        home = run.directory / f"{case.number}"
        home.mkdir()
        with run.watching(case, "a group's life"), world(home) as (group, producing):
            with producing:
                live(run, case.chance, group)
            soon(group.has_read_all, LogStoreError)
            for member in list(group.living):
                group.end(member, kill=False)
            check(run, group, producing.sent)


SUITE = Suite("events", 50, run)
