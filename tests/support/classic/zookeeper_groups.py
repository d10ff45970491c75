"""Recorded groups of real consumers (``tests/golden/zookeeper-groups``), and a holder of partitions for tests."""

from __future__ import annotations

import json
import lzma
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark_commitlog.classic.zookeeper_groups.assignment import Partition, Stream
from pyspark_commitlog.registry.kafka_nodes import KafkaVersion

GOLDEN = Path(__file__).parents[2] / "golden" / "zookeeper-groups"
RELEASES: Mapping[str, KafkaVersion] = {"0.7.2": (0, 7, 2), "0.8.2.2": (0, 8, 2), "0.10.2.2": (0, 10, 2)}


class Step(NamedTuple):
    """What happened, and who owned what afterwards: names of streams by ``topic/partition``."""

    kind: str  # joined, left, broker_added
    what: Any
    owners: Mapping[str, str]


class Case(NamedTuple):
    """One recorded group."""

    release: str
    group: str
    strategy: str
    brokers: Mapping[str, Mapping[int, int]]  # by topic: partitions by broker; of later Kafkas, broker 0
    members: Mapping[str, Mapping[str, int]]  # streams by topic
    steps: list[Step]
    tree: list[dict[str, Any]]  # when all were there; only of 0.7

    @property
    def kafka(self) -> KafkaVersion:
        return RELEASES[self.release]

    @property
    def is_old(self) -> bool:
        return self.kafka < (0, 8)

    def partitions(self, topic: str, brokers: Mapping[int, int]) -> list[Partition]:
        if not self.is_old:
            return [Partition(topic, each) for each in range(brokers[0])]
        return [Partition(topic, each, broker) for broker, count in brokers.items() for each in range(count)]


def cases() -> list[Case]:
    """All recorded groups."""
    return [_case(release, one) for release in RELEASES for one in _recorded(release)]


def _recorded(release: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lzma.decompress((GOLDEN / f"{release}.json.xz").read_bytes()))
    return found


def _case(release: str, one: dict[str, Any]) -> Case:
    fields = {name.partition(" ")[0]: value for name, value in one.items()}
    brokers = {
        topic: {int(broker): count for broker, count in there.items()} if isinstance(there, dict) else {0: there}
        for topic, there in fields["topics"].items()
    }
    steps = [
        Step(kind, step[kind], step["owners"])
        for step in fields["steps"]
        for kind in ("joined", "left", "broker_added")
        if kind in step
    ]
    tree = fields.get("tree_when_all_present", [])
    return Case(release, fields["group"], fields.get("strategy", "range"), brokers, fields["members"], steps, tree)


class Situation(NamedTuple):
    """A group at one moment of a recording."""

    step: Step
    members: Collection[str]
    brokers: Mapping[str, Mapping[int, int]]


def situations(case: Case) -> Iterator[Situation]:
    """The group after each step."""
    members: set[str] = set()
    brokers = {topic: dict(there) for topic, there in case.brokers.items()}
    for step in case.steps:
        if step.kind == "joined":
            members.add(step.what)
        elif step.kind == "left":
            members.discard(step.what)
        else:
            for topic, added in step.what.items():
                brokers[topic] |= {int(broker): count for broker, count in added.items()}
        yield Situation(step, set(members), {topic: dict(there) for topic, there in brokers.items()})


class Reading:
    """A holder that reads nothing, and notes what it is asked to. For any thread."""

    def __init__(self) -> None:
        self.owned: Mapping[Partition, Stream] = {}
        self.calls: list[str] = []
        self.can_prepare = True
        self._lock = threading.Lock()

    def stop(self) -> None:
        with self._lock:
            self.calls.append("stop")
            self.owned = {}

    def prepare(self, partitions: Collection[Partition]) -> list[Partition] | None:
        with self._lock:
            self.calls.append("prepare")
            return sorted(partitions) if self.can_prepare else None

    def start(self, owned: Mapping[Partition, Stream], prepared: list[Partition]) -> None:
        with self._lock:
            assert prepared == sorted(owned)
            self.calls.append("start")
            self.owned = owned
