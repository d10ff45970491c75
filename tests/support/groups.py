"""A coordinator of groups without threads: its time moves when told, and its disk can be slow or broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from pyspark_commitlog.gateway.cluster.homes import Homes
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.consumer_groups.heartbeat import Heartbeat, HeartbeatResult
from pyspark_commitlog.gateway.consumer_groups.partitions import Catalog, Part, Topic, text_of
from pyspark_commitlog.gateway.groups.coordinator import GroupCoordinator
from pyspark_commitlog.gateway.groups.member import Join, JoinResult, Leaving, Sync, SyncResult
from pyspark_commitlog.gateway.groups.offsets import Commit
from pyspark_commitlog.gateway.groups.store import GroupStore
from pyspark_commitlog.gateway.threads.worker import Task, Timer
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import (
    GROUP_METADATA_TOPIC,
    CoordinatedGroups,
    GroupKey,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupValue,
    LogManager,
    OffsetCommitValue,
    TopicPartition,
)
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem

G = "g"


def topic_id(name: str) -> str:
    """The id of a topic, as Kafka prints it."""
    return text_of(uuid5(NAMESPACE_DNS, name))


def parts(name: str, *numbers: int) -> frozenset[Part]:
    """Partitions of a topic."""
    return frozenset(Part(topic_id(name), each) for each in numbers)


def told(result: HeartbeatResult | None) -> frozenset[Part] | None:
    """The partitions that an answer gives to a member; None if it says nothing of them."""
    assert result is not None
    topics = result.assignment
    return None if topics is None else frozenset(Part(t["topicId"], each) for t in topics for each in t["partitions"])


SESSION_MS, REBALANCE_MS = 10_000, 60_000
PROTOCOLS = (("range", b"subscription"),)


class Home:
    """The coordinator's thread: what it is to run, it runs at once, and what is due as time moves."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()

    is_patient = False

    def run(self, task: Task) -> None:
        task()

    def later(self, delay_s: float, task: Task) -> Timer:
        timer = Timer(task)
        self._timers.append((self.clock.now_ms() + delay_s * 1000, next(self._numbers), timer))
        return timer

    @property
    def timers(self) -> int:
        """How many timers wait."""
        return sum(timer.task is not None for _, _, timer in self._timers)

    def advance(self, duration_ms: int) -> None:
        """Moves the time, stopping at each timer."""
        end_ms = self.clock.now_ms() + duration_ms
        while due := sorted(each for each in self._timers if each[0] <= end_ms):
            self._timers.remove(due[0])
            self.clock.advance(max(0, int(due[0][0]) - self.clock.now_ms()))
            if due[0][2].task is not None:
                due[0][2].task()
        self.clock.advance(end_ms - self.clock.now_ms())


class DiskThread:
    """The thread of the disk: what it is to run, it runs at once, or it ``waits`` until :meth:`work`."""

    def __init__(self, opened: CoordinatedGroups) -> None:
        self.opened = opened
        self.waits = False
        self._held: list[Task] = []

    def run(self, task: Task) -> None:
        if self.waits:
            self._held.append(task)
        else:
            task()

    run_patient = run

    def work(self, *, once: bool = False) -> None:
        """Does what waits; with ``once``, what that causes waits again."""
        self.waits = once
        held, self._held = self._held, []
        for task in held:
            task()


class Bench:
    """A coordinator with its answers."""

    def __init__(
        self,
        disk: Any = None,
        *,
        directory: str = "/logs",
        now_ms: int | None = None,
        homes: Homes | None = None,
        **settings: Any,
    ) -> None:
        """``settings``: by the names of fields of the config. ``homes``: which groups it coordinates; None: all."""
        self.disk = disk or MemoryFileSystem()
        self.clock = ManualClock() if now_ms is None else ManualClock(now_ms)
        self.home = Home(self.clock)
        self.manager = LogManager.open(directory, create=True, clock=self.clock, filesystem=self.disk)
        if GROUP_METADATA_TOPIC not in self.manager.topics():
            self.manager.create_topic(GROUP_METADATA_TOPIC, partitions=1)
        self.groups = CoordinatedGroups(self.manager)
        self.disk_thread = DiskThread(self.groups)
        config = GatewayConfig(**{"group_initial_rebalance_delay_ms": 0, **settings})
        self.store = GroupStore(self.disk_thread, self.home, config.offsets_commit_timeout_ms)
        self.ids: Iterator[object] = count(1)  # what makes ids of members unique
        self.catalog: Catalog = {}  # the topics that groups of Kafka 4 can read
        self.coordinator = GroupCoordinator(
            *(config, self.clock, self.home, self.store, lambda: next(self.ids), homes), catalog=lambda: self.catalog
        )
        self.answers: dict[str, Any] = {}

    def started(self) -> Bench:
        self.coordinator.load()
        return self

    def restarted(self, **settings: Any) -> Bench:
        """Another coordinator over what is on the disk."""
        return Bench(self.disk, **settings).started()

    # Requests; the name says whose answer it is

    def join(self, name: str, member_id: str = "", **changes: Any) -> JoinResult | None:
        """Sends JoinGroup; returns the answer, None while it waits (it is in ``answers`` later)."""
        self.answers[name] = None
        fields: dict[str, Any] = {
            "group": G,
            "member_id": member_id,
            "instance_id": None,
            "client_id": name,
            "client_host": "/127.0.0.1",
            "rebalance_timeout_ms": REBALANCE_MS,
            "session_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": PROTOCOLS,
            "requires_member_id": False,
        }
        self.coordinator.membership.join(Join(**{**fields, **changes}), lambda result: self._note(name, result))
        found: JoinResult | None = self.answers[name]
        return found

    def sync(
        self, name: str, joined: JoinResult, assignments: Mapping[str, bytes] | None = None, **changes: Any
    ) -> SyncResult | None:
        """Sends SyncGroup for a member as it was answered."""
        self.answers[name] = None
        fields: dict[str, Any] = {
            "group": G,
            "generation": joined.generation,
            "member_id": joined.member_id,
            "instance_id": None,
            "protocol_type": joined.protocol_type,
            "protocol": joined.protocol,
            "assignments": assignments or {},
        }
        self.coordinator.membership.sync(Sync(**{**fields, **changes}), lambda result: self._note(name, result))
        found: SyncResult | None = self.answers[name]
        return found

    def heartbeat(self, joined: JoinResult, *, instance_id: str | None = None) -> ErrorCode:
        return self.coordinator.membership.heartbeat(G, joined.member_id, instance_id, joined.generation)

    def leave(self, *members: JoinResult | Leaving) -> list[ErrorCode]:
        leaving = [Leaving(each.member_id) if isinstance(each, JoinResult) else each for each in members]
        answers: list[tuple[ErrorCode, Sequence[ErrorCode]]] = []
        self.coordinator.membership.leave(G, leaving, lambda error, codes: answers.append((error, codes)))
        ((error, codes),) = answers
        assert not error
        return list(codes)

    def commit(
        self, offset: int, joined: JoinResult | None = None, *, group: str = G, topic: str = "t", **changes: Any
    ) -> ErrorCode | None:
        """Commits an offset of partition 0; without a member, from outside of the group. ``by``: whose answer it is."""
        name = f"commit {changes.pop('by', group)}"
        self.answers[name] = None
        place = TopicPartition(topic, 0)
        value = OffsetCommitValue(offset, changes.pop("metadata", ""), self.clock.now_ms())
        generation, member_id = (-1, "") if joined is None else (joined.generation, joined.member_id)
        ids = (
            changes.pop("generation", generation),
            changes.pop("member_id", member_id),
            changes.pop("instance_id", None),
        )
        commit = Commit(group, *ids, {place: value}, **changes)
        self.coordinator.offsets.commit(commit, lambda codes: self._note(name, codes[place]))
        found: ErrorCode | None = self.answers[name]
        return found

    def fetched(self, group: str = G, topic: str = "t", *, require_stable: bool = False) -> int | ErrorCode | None:
        """The offset that a fetch finds in partition 0, or its error."""
        place = TopicPartition(topic, 0)
        found: list[Any] = []
        self.coordinator.offsets.fetch(
            group, [place], lambda error, offsets: found.append(error or offsets[place]), require_stable=require_stable
        )
        return found[0].offset if isinstance(found[0], OffsetCommitValue) else found[0]

    def _note(self, name: str, result: object) -> None:
        assert self.answers[name] is None, "answered twice"
        self.answers[name] = result

    # Groups of Kafka 4

    def topics(self, **partitions: int) -> Bench:
        """Gives the log topics, with so many partitions; their ids are made of their names."""
        self.catalog = {name: Topic(name, topic_id(name), tuple(range(count))) for name, count in partitions.items()}
        return self

    def beat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatResult | None:
        """Sends ConsumerGroupHeartbeat; returns the answer, None while it waits (it is in ``answers`` later)."""
        self.answers[member_id] = None
        group = fields.pop("group", G)
        self.coordinator.consumers.heartbeat(
            Heartbeat(group, member_id, epoch, **fields), lambda result: self._note(member_id, result)
        )
        found: HeartbeatResult | None = self.answers[member_id]
        return found

    def enter(self, member_id: str, *topics: str, **fields: Any) -> HeartbeatResult:
        """A member joins a group of Kafka 4, and reads ``topics``."""
        joining = {"rebalance_timeout_ms": REBALANCE_MS, "topics": topics, "owned": frozenset(), **fields}
        result = self.beat(member_id, 0, **joining)
        assert result is not None
        return result

    # Whole groups

    def stable(self, *names: str, assignment: bytes | None = None, **changes: Any) -> list[JoinResult]:
        """Members that have joined a new group and got their names as assignments, or ``assignment``."""
        for name in names:
            self.join(name, **changes)
        self.home.advance(0)
        joined: list[JoinResult] = [self.answers[name] for name in names]
        assigned = [name.encode() if assignment is None else assignment for name in names]
        assignments = {each.member_id: some for each, some in zip(joined, assigned, strict=True)}
        for name, each in zip(names, joined, strict=True):
            self.sync(name, each, assignments)
        assert all(self.answers[name].error is ErrorCode.none for name in names)
        return joined

    @property
    def state(self) -> str:
        found: list[str] = []
        self.coordinator.describe(G, lambda group: found.append(group.state))
        return found[0]

    @property
    def stored(self) -> GroupMetadataValue | None:
        """The group's record in the log."""
        value = self.records().get(GroupMetadataKey(G))
        assert value is None or isinstance(value, GroupMetadataValue)
        return value

    def records(self, group: str = G) -> dict[GroupKey, GroupValue]:
        return self.groups.records(group)
