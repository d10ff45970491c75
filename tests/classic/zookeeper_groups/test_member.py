"""Members of a group in a registry: the recorded groups again, as members that come and go, and what may go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyspark_commitlog.classic.errors import ConsumerIdInUseError, ConsumerRebalanceFailedError
from pyspark_commitlog.classic.topic_filters import Blacklist, Whitelist
from pyspark_commitlog.classic.zookeeper_groups.assignment import Partition, Strategy
from pyspark_commitlog.classic.zookeeper_groups.member import GroupMember, GroupSettings
from pyspark_commitlog.classic.zookeeper_groups.registered import consumer_id
from pyspark_commitlog.classic.zookeeper_groups.subscription import Subscription
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.errors import ConnectionLossError
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.kafka_nodes import RegisteredBroker
from pyspark_commitlog.registry.operations import put, tree_of
from pyspark_commitlog.registry.port import Registry, Watch
from tests.support.classic.zookeeper_groups import Case, Reading, cases, situations
from tests.support.waiting import soon

LOOK_S = 0.005
QUICK = GroupSettings(backoff_ms=10, retries_max=200, session_timeout_ms=100)

Open = Callable[[], Registry]


@pytest.fixture
def open_registry(tmp_path: Path) -> Iterator[Open]:
    """Opens sessions of one registry."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(FileRegistry(str(tmp_path), look_s=LOOK_S))


class Group:
    """Members in sessions of their own, in a registry whose brokers and topics are written by hand."""

    def __init__(self, open_registry: Open, settings: GroupSettings = QUICK, group: str = "g") -> None:
        self._open, self.settings, self.name = open_registry, settings, group
        self.registry = open_registry()
        self.members: dict[str, GroupMember[list[Partition]]] = {}
        self.readings: dict[str, Reading] = {}
        self.sessions: dict[str, Registry] = {}

    def broker(self, number: int = 0) -> None:
        data = kafka_nodes.encode_broker(RegisteredBroker.plain("h", 1), self.settings.kafka)
        put(self.registry, kafka_nodes.broker_path(number), data)

    def topic(self, name: str, partitions: int, broker: int = 0) -> None:
        if self.settings.kafka < (0, 8):
            put(self.registry, kafka_nodes.old_topic_path(name, broker), b"%d" % partitions)
            return
        data = kafka_nodes.encode_topic({each: [broker] for each in range(partitions)}, None, self.settings.kafka)
        put(self.registry, kafka_nodes.topic_path(name), data)

    def join(self, name: str, subscription: Subscription | Mapping[str, int]) -> Reading:
        wanted = subscription if isinstance(subscription, Subscription) else Subscription(subscription)
        reading, session = Reading(), self._open()
        member = GroupMember(session, self.name, consumer_id(self.name, name), wanted, reading, self.settings)
        member.join()
        self.members[name], self.readings[name], self.sessions[name] = member, reading, session
        return reading

    def leave(self, name: str) -> None:
        self.members.pop(name).leave()
        self.readings.pop(name)
        self.sessions.pop(name).close()

    def lose_session(self, name: str) -> None:
        """As a killed process: its nodes go, and it says nothing."""
        member = self.members.pop(name)
        member._leaving.set()
        member._wake()
        self.readings.pop(name)
        self.sessions.pop(name).close()

    def owners(self) -> dict[str, str]:
        """What the registry says."""
        found = {}
        for path, node in tree_of(self.registry, f"/consumers/{self.name}/owners").items():
            if node.owner is not None:
                found["/".join(path.split("/")[4:])] = (node.data or b"").decode()
        return found

    def read(self) -> dict[str, str]:
        """What the holders read."""
        return {str(each): str(stream) for reading in self.readings.values() for each, stream in reading.owned.items()}

    def settles(self, wanted: Mapping[str, str]) -> None:
        soon(lambda: self.owners() == wanted and self.read() == wanted)

    def close(self) -> None:
        for name in list(self.members):
            self.leave(name)


@pytest.fixture
def group(open_registry: Open) -> Iterator[Group]:
    found = Group(open_registry)
    found.broker()
    yield found
    found.close()


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.release}-{case.group}")
def test_recorded_groups_come_to_the_recorded_owners(case: Case, open_registry: Open) -> None:
    settings = GroupSettings(case.kafka, Strategy(case.strategy), 200, 10, 100)
    group = Group(open_registry, settings, case.group)
    for broker in {each for there in case.brokers.values() for each in there}:
        group.broker(broker)
    for topic, there in case.brokers.items():
        for broker, partitions in there.items():
            group.topic(topic, partitions, broker)
    for step, members, _ in situations(case):
        if step.kind == "joined":
            group.join(step.what, case.members[step.what])
        elif step.kind == "left":
            group.leave(step.what)
        else:
            for topic, added in step.what.items():
                for broker, partitions in added.items():
                    group.broker(int(broker))
                    group.topic(topic, partitions, int(broker))
        group.settles(step.owners)
        if case.tree and len(members) == len(case.members) and step.kind == "joined":
            assert_like_the_recorded_tree(group, case)
    group.close()
    assert group.owners() == {}
    assert group.registry.children(kafka_nodes.consumers_path(case.group)) == []


def assert_like_the_recorded_tree(group: Group, case: Case) -> None:
    """The nodes of members and owners are those that real consumers made; committed offsets are not a member's."""
    wanted = {node["path"]: (node["ephemeral"], node["data"]) for node in case.tree if "/offsets" not in node["path"]}
    found = {
        path: (node.owner is not None, None if not node.data else node.data.decode())
        for path, node in tree_of(group.registry, "/consumers").items()
    }
    assert {path: each for path, each in found.items() if "/offsets" not in path} == wanted


def test_a_killed_member_gives_its_partitions_to_the_others(group: Group) -> None:
    group.topic("t", 4)
    group.join("a", {"t": 1})
    group.join("b", {"t": 1})
    group.settles({"t/0": "g_a-0", "t/1": "g_a-0", "t/2": "g_b-0", "t/3": "g_b-0"})
    group.lose_session("a")
    group.settles({f"t/{each}": "g_b-0" for each in range(4)})


def test_a_topic_that_comes_later_or_grows_is_read(group: Group) -> None:
    group.join("a", {"t": 1})
    group.settles({})
    group.topic("t", 1)
    group.settles({"t/0": "g_a-0"})
    group.topic("t", 2)
    group.settles({"t/0": "g_a-0", "t/1": "g_a-0"})


def test_a_broker_that_comes_later_is_waited_for(open_registry: Open) -> None:
    group = Group(open_registry)
    group.topic("t", 1)
    group.join("a", {"t": 1})
    assert group.owners() == {}
    group.broker()
    group.settles({"t/0": "g_a-0"})
    group.close()


def test_filters_choose_topics_that_come_later(group: Group) -> None:
    group.topic("white-1", 1)
    group.topic("__consumer_offsets", 1)
    group.join("a", Subscription({}, Whitelist("white.*"), 2))
    group.join("b", Subscription({}, Blacklist("white.*"), 1))
    group.join("c", Subscription({"static": 1}))
    group.settles({"white-1/0": "g_a-0"})
    group.topic("white-2", 2)
    group.topic("black", 1)
    group.settles({"white-1/0": "g_a-0", "white-2/0": "g_a-0", "white-2/1": "g_a-1", "black/0": "g_b-0"})
    assert group.registry.get("/consumers/g/ids/g_a").data is not None
    assert b'"pattern":"white_list"' in (group.registry.get("/consumers/g/ids/g_a").data or b"")


def test_what_does_not_change_for_a_member_does_not_stop_it(group: Group) -> None:
    group.topic("t", 1)
    reading = group.join("a", {"t": 1})
    assert reading.calls == ["stop", "prepare", "start"]
    other = group.join("b", {"t": 1})
    group.settles({"t/0": "g_a-0"})
    soon(lambda: not group.members["a"]._changed.is_set())
    with group.members["a"]._lock:
        assert reading.calls == ["stop", "prepare", "start"]
    assert other.owned == {}


def test_offsets_that_cannot_be_read_yet_are_tried_again(open_registry: Open) -> None:
    group = Group(open_registry, GroupSettings(backoff_ms=1, retries_max=3))
    group.broker()
    group.topic("t", 1)
    reading = Reading()
    reading.can_prepare = False
    member = GroupMember(open_registry(), "g", "g_a", Subscription({"t": 1}), reading, group.settings)
    with pytest.raises(ConsumerRebalanceFailedError, match="after 3 tries: the committed offsets cannot be read yet"):
        member.join()
    assert reading.calls.count("prepare") == 3
    assert group.owners() == {}


def test_a_partition_that_another_owns_is_waited_for_and_then_given_up(open_registry: Open) -> None:
    group = Group(open_registry, GroupSettings(backoff_ms=1, retries_max=3))
    group.broker()
    group.topic("t", 2)
    other = open_registry()
    other.create("/consumers/g/owners/t/1", b"g_stranger-0", ephemeral=True)
    with pytest.raises(ConsumerRebalanceFailedError, match="t/1 is still owned by g_stranger-0"):
        group.join("a", {"t": 1})
    assert group.owners() == {"t/1": "g_stranger-0"}  # not even partition 0


def test_an_owner_that_lets_go_is_followed(group: Group, open_registry: Open) -> None:
    group.topic("t", 2)
    other = open_registry()
    other.create("/consumers/g/owners/t/1", b"g_stranger-0", ephemeral=True)
    group._open = lambda: LetsGo(open_registry(), other)  # type: ignore[assignment, return-value]
    group.join("a", {"t": 1})
    group.settles({"t/0": "g_a-0", "t/1": "g_a-0"})


class InFront:
    """In front of a registry: what a class does not do itself, the registry does."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __getattr__(self, name: str) -> object:
        return getattr(self._registry, name)


class LetsGo(InFront):
    """A registry in which the other session ends once this one has met its node."""

    def __init__(self, registry: Registry, other: Registry) -> None:
        super().__init__(registry)
        self._other = other

    def create(self, path: str, data: bytes | None = None, **options: bool) -> str:
        try:
            return self._registry.create(path, data, **options)
        except Exception:
            self._other.close()
            raise


def test_a_session_that_ends_just_after_the_registration_is_noticed(group: Group, open_registry: Open) -> None:
    group.topic("t", 1)
    group._open = lambda: Expires(open_registry(), open_registry())  # type: ignore[assignment, return-value]
    group.join("a", {"t": 1})
    group.settles({"t/0": "g_a-0"})


class Expires(InFront):
    """A registry whose session ends once it has created its first node, and which then begins another one."""

    def __init__(self, registry: Registry, later: Registry) -> None:
        super().__init__(registry)
        self._later = later

    def create(self, path: str, data: bytes | None = None, **options: bool) -> str:
        made = self._registry.create(path, data, **options)
        if self._registry is not self._later:
            self._registry.close()
            self._registry = self._later
        return made


def test_a_member_reads_on_while_the_registry_does_not_answer(group: Group, open_registry: Open) -> None:
    group.topic("t", 1)
    registry = Silent(open_registry())
    group._open = lambda: registry  # type: ignore[assignment, return-value]
    reading = group.join("a", {"t": 1})
    registry.is_silent = True
    group.members["a"]._wake()
    soon(lambda: registry.unanswered > 3)
    registry.is_silent = False
    soon(lambda: not group.members["a"]._changed.is_set())
    with group.members["a"]._lock:
        assert reading.calls == ["stop", "prepare", "start"]
    group.settles({"t/0": "g_a-0"})


class Silent(InFront):
    """A registry that does not answer, and does not know its session, while it is silent, as ZooKeeper's."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.is_silent, self.unanswered = False, 0

    @property
    def session(self) -> str:
        self.unanswered += self.is_silent
        return "" if self.is_silent else self._registry.session

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        if self.is_silent:
            raise ConnectionLossError("no answer")
        return self._registry.children(path, watch)


def test_two_consumers_of_one_id_are_refused(group: Group) -> None:
    group.topic("t", 1)
    group.join("a", {"t": 1})
    with pytest.raises(ConsumerIdInUseError, match="its own id"):
        group.join("a", {"t": 1})


def test_roundrobin_refuses_unequal_subscriptions(open_registry: Open) -> None:
    group = Group(open_registry, GroupSettings(strategy=Strategy.ROUNDROBIN, backoff_ms=1, retries_max=2))
    group.broker()
    group.topic("t", 1)
    with pytest.raises(ConsumerRebalanceFailedError, match="use range"):
        group.join("a", {"t": 1, "u": 2})


def test_generated_ids_are_of_the_group_and_differ() -> None:
    one, other = consumer_id("g"), consumer_id("g")
    assert one != other
    assert one.startswith("g_")
    assert consumer_id("g", "me") == "g_me"
