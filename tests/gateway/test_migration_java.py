"""Java's consumer of Kafka 4.3.1: members of a group are rolled to the new protocol and back, one by one."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Producer

from pyspark_commitlog.gateway.server import Gateway
from tests.gateway.test_migration_clients import type_of
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.kafka.kafka_jvm import KAFKA_4, broker_jvm

pytestmark = pytest.mark.only_all

TIMEOUT_S = 60.0
PARTITIONS = 4
CLASSIC, NEW = "CLASSIC", "CONSUMER"
Record = tuple[int, int]  # partition and offset


class Member:
    """Kafka's verifiable consumer, which commits each batch that it has read, and prints what it does."""

    def __init__(self, gateway: Gateway, group: str, protocol: str, assignor: str) -> None:
        command = [*broker_jvm(release=KAFKA_4), "org.apache.kafka.tools.VerifiableConsumer"]
        command += ["--bootstrap-server", str(gateway.address), "--topic", group, "--group-id", group]
        command += ["--group-protocol", protocol]
        if protocol == CLASSIC:
            command += ["--assignment-strategy", f"org.apache.kafka.clients.consumer.{assignor}Assignor"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.events: list[dict[str, Any]] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def named(self, name: str) -> list[dict[str, Any]]:
        """Its events of a kind, in order."""
        return [each for each in [*self.events] if each["name"] == name]

    def leave(self) -> None:
        """Ends it as its user would, and waits until it has left."""
        self._process.terminate()
        self._process.wait(TIMEOUT_S)
        self._reading.join()

    @property
    def turns(self) -> Iterator[tuple[int, int, int]]:
        """Partitions with the times in ms from which and up to which it had them."""
        since: dict[int, int] = {}
        for event in [*self.events]:
            for each in event["partitions"] if event["name"].startswith("partitions_") else ():
                if event["name"] == "partitions_assigned":
                    since[each["partition"]] = event["timestamp"]
                else:
                    yield each["partition"], since.pop(each["partition"]), event["timestamp"]
        yield from ((partition, start, 2**63) for partition, start in since.items())

    @property
    def owned(self) -> list[int]:
        return [partition for partition, _, end in self.turns if end == 2**63]


class Group:
    """A group of at most two members, and the records that they are to read: one a round and partition."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        self._gateway, self.name, self.sent = gateway, name, 0
        self.members: list[Member] = []
        self.gone: list[Member] = []
        self._producer = Producer({"bootstrap.servers": str(gateway.address), "linger.ms": 0})

    @property
    def all_members(self) -> list[Member]:
        return [*self.gone, *self.members]

    def enter(self, protocol: str, assignor: str) -> None:
        """A member joins; if there are two, the older one leaves before."""
        if len(self.members) == 2:
            self.leave()
        self.members.append(Member(self._gateway, self.name, protocol, assignor))

    def leave(self) -> None:
        self.gone.append(self.members.pop(0))
        self.gone[-1].leave()

    def round(self) -> None:
        """Waits until the partitions are shared, and then until a record of each was read and committed."""
        share = PARTITIONS // len(self.members)
        until(lambda: [len(each.owned) for each in self.members] == [share] * len(self.members), "nothing is shared")
        for number in range(PARTITIONS):
            self._producer.produce(self.name, value=b"%d" % self.sent, partition=number)
        assert self._producer.flush(TIMEOUT_S) == 0
        self.sent += 1
        until(lambda: self._committed() == dict.fromkeys(range(PARTITIONS), self.sent), "records are not committed")

    def _committed(self) -> dict[int, int]:
        """The next offset of each partition, by commits that were answered."""
        found: dict[int, int] = {}
        for each in (event for member in self.all_members for event in member.named("offsets_committed")):
            for offset in each["offsets"] if each["success"] else ():
                found[offset["partition"]] = max(found.get(offset["partition"], 0), offset["offset"])
        return found


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {"group_consumer_heartbeat_interval_ms": 200, "group_initial_rebalance_delay_ms": 0}
    with serving(tmp_path_factory.mktemp("log"), **settings) as started:
        yield started


@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
def test_javas_members_are_rolled_to_the_new_protocol_and_back(gateway: Gateway, assignor: str) -> None:
    group, types = Group(gateway, f"rolled-{assignor}"), list[str]()
    with WireClient(gateway) as client:
        create_topic(client, group.name, PARTITIONS)
    try:
        for protocol in (CLASSIC, CLASSIC, NEW, NEW, CLASSIC, CLASSIC):
            group.enter(protocol, assignor)
            group.round()
            types.append(type_of(gateway, group.name))
    finally:
        while group.members:
            group.leave()
    assert types == [CLASSIC, CLASSIC, NEW, NEW, NEW, CLASSIC]
    read, refused = _read_and_refused(group.gone)
    assert {*read} == {(partition, offset) for partition in range(PARTITIONS) for offset in range(group.sent)}
    assert {each for each, times in read.items() if times > 1} <= refused
    assert not _overlaps(group.gone)


def until(holds: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end_s, what
        time.sleep(0.05)


def _read_and_refused(members: list[Member]) -> tuple[Counter[Record], set[Record]]:
    """How often each record was read, and those whose commit was refused, so that they may be read again."""
    read, refused = Counter[Record](), set[Record]()
    for member in members:
        last: list[Record] = []  # not committed yet
        for event in member.events:
            if event["name"] == "records_consumed":
                ranges = ((each["partition"], each["minOffset"], each["maxOffset"]) for each in event["partitions"])
                last = [(partition, offset) for partition, first, to in ranges for offset in range(first, to + 1)]
                read.update(last)
            elif event["name"] == "offsets_committed" and not event["success"]:
                refused.update(last)
    return read, refused


def _overlaps(members: list[Member]) -> list[tuple[int, int]]:
    """Partitions, with the time in ms, which a member got while another had them."""
    turns = sorted(each for member in members for each in member.turns)
    return [
        (before[0], after[1]) for before, after in pairwise(turns) if before[0] == after[0] and after[1] < before[2]
    ]
