"""The same requests to the gateway and to Kafka 3.9.1: every answer must be the same, but for ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.storage import parse_address
from tests.support.gateway import WireClient, serving
from tests.support.kafka.broker import Broker

TOPIC, OTHER = "t", "u"
SUBSCRIPTION = bytes.fromhex("0000 00000001 0001 74 ffffffff")  # to TOPIC
WITHOUT_ZOOKEEPER = 1  # the first version of OffsetCommit and OffsetFetch that a broker without ZooKeeper serves
UNEQUAL = {"throttle_time", "authorized_operations"}
RANGE, BOTH = [{"name": "range", "metadata": b"m"}], [{"name": each, "metadata": b"m"} for each in ("range", "x")]

REFUSED = "refused"  # a group that Kafka keeps until it looks for expired offsets, though nobody ever joined it


class Side:
    """Connections to one of the two, and what they were answered."""

    def __init__(self, where: Any) -> None:
        self.seen: list[tuple[str, Any]] = []
        self._where = where
        self._clients: dict[str, WireClient] = {}
        self._ids: dict[str, str] = {}
        self._waiting: dict[str, tuple[int, int, int]] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.socket.close()

    def client(self, name: str) -> WireClient:
        if name not in self._clients:
            self._clients[name] = WireClient(self._where)
        return self._clients[name]

    def ask(self, key: ApiKey, version: int, *, by: str = "main", **fields: Any) -> Any:
        """Sends a request, and notes the answer."""
        self.send(key, version, by=by, **fields)
        return self.answer(by)

    def send(self, key: ApiKey, version: int, *, by: str, **fields: Any) -> None:
        self._waiting[by] = (key, version, self.client(by).send(key, version, **fields))

    def answer(self, by: str) -> Any:
        key, version, sent = self._waiting.pop(by)
        found = self.client(by).answer(key, version, sent)
        self.seen.append((f"{ApiKey(key).name} {version}", self._plain(found)))
        return found

    def _plain(self, value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            names = [each.name for each in dataclasses.fields(value) if each.name not in UNEQUAL]
            return {name: self._named(name, getattr(value, name)) for name in names}
        if isinstance(value, tuple):
            listed = (each for each in value if getattr(each, "group_id", None) != REFUSED)
            return sorted((self._plain(each) for each in listed), key=repr)
        return value.name if isinstance(value, Enum) else value

    def _named(self, name: str, value: Any) -> Any:
        if name in ("member_id", "leader") and value and value.count("-") > 4:
            return self._ids.setdefault(value, f"id {len(self._ids)} of {value.rsplit('-', 5)[0]}")
        return self._plain(value)

    # Requests with what they usually have

    def join(self, group: str, version: int = 9, *, by: str = "main", wait: bool = True, **changes: Any) -> Any:
        fields = {
            "group_id": group,
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "member_id": "",
            **changes,
        }
        self.send(ApiKey.JOIN_GROUP, version, by=by, **fields)
        return self.answer(by) if wait else None

    def join_twice(self, group: str, *, by: str = "main", wait: bool = True, **changes: Any) -> Any:
        """As a client does: the second time with the id it was given."""
        return self.join(group, by=by, wait=wait, member_id=self.join(group, by=by, **changes).member_id, **changes)

    def sync(self, group: str, joined: Any, version: int = 5, *, by: str = "main", **changes: Any) -> Any:
        fields = {
            "group_id": group,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "protocol_type": "consumer",
            "protocol_name": joined.protocol_name,
            "assignments": [{"member_id": each.member_id, "assignment": b"a"} for each in joined.members],
            **changes,
        }
        return self.ask(ApiKey.SYNC_GROUP, version, by=by, **fields)

    def heartbeat(self, group: str, joined: Any, version: int = 4, **changes: Any) -> Any:
        fields = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id, **changes}
        return self.ask(ApiKey.HEARTBEAT, version, **fields)

    def leave(self, group: str, *members: Any, version: int = 5) -> Any:
        return self.ask(ApiKey.LEAVE_GROUP, version, group_id=group, members=list(members))

    def commit(self, group: str, joined: Any = None, version: int = 9, **changes: Any) -> Any:
        places = [{"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 1, "committed_metadata": "m"}]
        member = {} if joined is None else {"member_id": joined.member_id}
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": -1 if joined is None else joined.generation_id,
            "topics": [{"name": TOPIC, "partitions": places}],
            **member,
            **changes,
        }
        return self.ask(ApiKey.OFFSET_COMMIT, version, **fields)

    def fetch(self, group: str, version: int = 9, *, topics: Any = None) -> Any:
        if version >= 8:
            return self.ask(ApiKey.OFFSET_FETCH, version, groups=[{"group_id": group, "topics": topics}])
        return self.ask(ApiKey.OFFSET_FETCH, version, group_id=group, topics=topics)

    def describe(self, *groups: str, version: int = 5) -> Any:
        return self.ask(ApiKey.DESCRIBE_GROUPS, version, groups=list(groups))

    def delete(self, *groups: str, version: int = 2) -> Any:
        return self.ask(ApiKey.DELETE_GROUPS, version, groups_names=list(groups))

    def delete_offsets(self, group: str, *topics: str) -> Any:
        asked = [{"name": each, "partitions": [{"partition_index": 0}]} for each in topics]
        return self.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=asked)


def versions(key: ApiKey) -> range:
    return range(APIS[key].lowest, APIS[key].highest + 1)


# --- situations


def joins_that_are_refused(side: Side) -> None:
    for version in versions(ApiKey.JOIN_GROUP):
        side.join(REFUSED, version, session_timeout=5_999)
        side.join(REFUSED, version, protocols=[])
        side.join(REFUSED, version, protocol_type="")
        side.join(REFUSED, version, member_id="nobody")
        side.join("", version)
    side.join(REFUSED, member_id="nobody", group_instance_id="i")


def the_life_of_one_member(side: Side) -> None:
    joined = side.join_twice("life")
    side.describe("life")
    side.heartbeat("life", joined)
    side.commit("life", joined)
    side.sync("life", joined)
    side.sync("life", joined)
    side.describe("life")
    for version in versions(ApiKey.HEARTBEAT):
        side.heartbeat("life", joined, version)
        side.heartbeat("life", joined, version, generation_id=joined.generation_id + 1)
        side.heartbeat("life", joined, version, member_id="nobody")
    side.heartbeat("life", joined, group_instance_id="i")
    for changes in ({"generation_id": 7}, {"member_id": "x"}, {"protocol_name": "x"}, {"protocol_type": "x"}):
        side.sync("life", joined, **changes)
    side.sync("life", joined, protocol_name=None)
    for version in versions(ApiKey.OFFSET_COMMIT)[WITHOUT_ZOOKEEPER:]:
        side.commit("life", joined, version)
        side.commit("life", joined, version, generation_id_or_member_epoch=9)
        side.commit("life", None, version)
    side.commit("life", joined, group_instance_id="i")
    for version in versions(ApiKey.OFFSET_FETCH)[WITHOUT_ZOOKEEPER:]:
        side.fetch("life", version, topics=[{"name": TOPIC, "partition_indexes": [0, 1, 9]}])
    side.delete("life")
    side.delete_offsets("life", TOPIC)
    side.join("life", member_id=joined.member_id)  # the leader: a rebalance
    side.leave("life", {"member_id": joined.member_id}, {"member_id": joined.member_id})
    side.describe("life")
    side.commit("life", joined)
    side.heartbeat("life", joined)
    side.sync("life", joined)
    side.join("life", member_id=joined.member_id)
    side.commit("life")
    side.delete("life")
    side.fetch("life")
    side.describe("life")


def members_that_come_and_go(side: Side) -> None:
    first = side.join_twice("two", by="a")
    side.sync("two", first, by="a")
    pending = side.join("two", by="b")
    side.heartbeat("two", first)
    side.join("two", by="b", wait=False, member_id=pending.member_id)
    while side.heartbeat("two", first).error_code.name == "none":
        side.seen.pop()
    side.sync("two", first, by="a")
    side.commit("two", first)
    side.describe("two")
    again = side.join("two", by="a", member_id=first.member_id)
    second = side.answer("b")
    side.commit("two", second)
    side.join("two", by="b", member_id=second.member_id)
    side.send(ApiKey.SYNC_GROUP, 3, by="b", group_id="two", generation_id=2, member_id=second.member_id, assignments=[])
    side.sync("two", again, by="a")
    side.answer("b")
    side.join("two", by="b", member_id=second.member_id)
    side.join("two", by="c", member_id="", protocols=[{"name": "other", "metadata": b""}])
    side.join("two", by="c", member_id="", protocol_type="connect")
    side.leave("two", {"member_id": second.member_id}, {"member_id": "nobody"})
    side.heartbeat("two", again)
    side.join("two", by="a", member_id=first.member_id)


def static_members(side: Side) -> None:
    for version in (9, 5):
        group = f"static {version}"
        first = side.join(group, version, group_instance_id="i")
        side.sync(group, first, group_instance_id="i")
        second = side.join(group, version, group_instance_id="i")
        for changes in ({"group_instance_id": "i"}, {"group_instance_id": "other"}, {}):
            side.heartbeat(group, first, **changes)
            side.commit(group, first, **changes)
            side.sync(group, first, **changes)
            side.join(group, version, member_id=first.member_id, **changes)
            side.heartbeat(group, second, **changes)
        side.sync(group, second, group_instance_id="i")
        side.describe(group)
        side.leave(group, {"member_id": first.member_id, "group_instance_id": "i"})
        side.leave(group, {"member_id": "", "group_instance_id": "other"}, {"member_id": ""})
        side.join(group, version, group_instance_id="i", protocols=BOTH)
        side.leave(group, {"member_id": "", "group_instance_id": "i"})
        side.describe(group)


def ids_that_are_given_out(side: Side) -> None:
    first = side.join("ids")
    side.describe("ids")
    side.heartbeat("ids", first, generation_id=0)
    side.commit("ids")
    side.commit("ids", first, generation_id_or_member_epoch=0)
    side.leave("ids", {"member_id": first.member_id}, {"member_id": first.member_id})
    side.join("ids", member_id=first.member_id)
    for version in (3, 2, 1, 0):
        joined = side.join(f"old {version}", version)
        side.sync(f"old {version}", joined, version)
        side.ask(ApiKey.LEAVE_GROUP, version % 3, group_id=f"old {version}", member_id=joined.member_id)
        side.ask(ApiKey.LEAVE_GROUP, version % 3, group_id=f"old {version}", member_id=joined.member_id)
    for version in range(3, 6):
        side.leave("no such group", {"member_id": "x"}, version=version)
        side.leave("", {"member_id": "x"}, version=version)


def offsets_of_clients_outside_of_groups(side: Side) -> None:
    side.fetch("outside")
    side.fetch("outside", topics=[{"name": TOPIC, "partition_indexes": [0]}])
    for changes in (
        {},
        {"generation_id_or_member_epoch": 0},
        {"generation_id_or_member_epoch": 3, "member_id": "x"},
        {"member_id": "x"},
        {"group_instance_id": "i"},
        {"topics": []},
    ):
        side.commit("outside", **changes)
        side.fetch("outside")
    places = [
        {"partition_index": each, "committed_offset": each, "committed_metadata": "x" * 4097 * (each == 1)}
        for each in (0, 1, 9)
    ]
    side.commit("outside", topics=[{"name": TOPIC, "partitions": places}, {"name": "never", "partitions": places}])
    side.commit("outside", topics=[{"name": "never", "partitions": places}])
    for version in versions(ApiKey.OFFSET_FETCH)[WITHOUT_ZOOKEEPER:]:
        side.fetch("outside", version, topics=[{"name": each, "partition_indexes": [0, 1, 9]} for each in (TOPIC, "n")])
        side.fetch("outside", version, topics=[])
        if version > 1:
            side.fetch("outside", version)
    asked = [{"group_id": each, "topics": None} for each in ("outside", "no such group", "")]
    side.ask(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=True)
    side.commit("")
    side.fetch("")
    side.describe("outside", "", "no such group")
    side.delete_offsets("outside", TOPIC, "never")
    side.fetch("outside")
    side.delete_offsets("no such group", TOPIC)
    side.delete_offsets("", TOPIC)
    side.delete_offsets("outside")
    side.commit("outside")
    for version in versions(ApiKey.DELETE_GROUPS):
        side.delete("outside", "no such group", version=version)
        side.commit("outside")
    side.delete("", "outside")
    side.describe("outside")


def offsets_that_are_deleted(side: Side) -> None:
    joined = side.join_twice("deleted", protocol_type="connect")
    side.sync("deleted", joined, protocol_type="connect")
    places = [{"partition_index": each, "committed_offset": 3, "committed_metadata": None} for each in (0, 1)]
    side.commit("deleted", joined, topics=[{"name": TOPIC, "partitions": places}])
    side.delete_offsets("deleted", TOPIC)
    side.leave("deleted", {"member_id": joined.member_id})
    side.delete_offsets("deleted", TOPIC, "never")
    side.describe("deleted")
    one = [{"name": TOPIC, "partitions": [{"partition_index": 1}]}]
    side.ask(ApiKey.OFFSET_DELETE, 0, group_id="deleted", topics=one)
    side.describe("deleted")
    side.ask(ApiKey.OFFSET_DELETE, 0, group_id="deleted", topics=one)
    reader = side.join_twice("reader", protocols=[{"name": "range", "metadata": SUBSCRIPTION}])
    side.sync("reader", reader)
    side.commit("reader", reader, topics=[{"name": each, "partitions": places[:1]} for each in (TOPIC, OTHER)])
    side.delete_offsets("reader", TOPIC, OTHER)
    side.fetch("reader")


def lists_and_descriptions(side: Side) -> None:
    joined = side.join_twice("shown")
    side.sync("shown", joined)
    side.commit("shown of offsets")
    for version in versions(ApiKey.LIST_GROUPS):
        side.ask(ApiKey.LIST_GROUPS, version)
    for states in ([], ["Stable"], ["stable", "EMPTY"], ["Dead"], ["nonsense"]):
        side.ask(ApiKey.LIST_GROUPS, 4, states_filter=states)
    for types in ([], ["classic"], ["Classic", "consumer"], ["consumer"]):
        side.ask(ApiKey.LIST_GROUPS, 5, types_filter=types, states_filter=["Stable"])
    for version in versions(ApiKey.DESCRIBE_GROUPS):
        side.describe("shown", "shown of offsets", "no such group", version=version)
    side.describe()


def votes(side: Side) -> None:
    first = side.join_twice("votes", by="a", protocols=BOTH)
    side.sync("votes", first, by="a")
    given = side.join("votes", by="b", protocols=BOTH[::-1])
    side.join("votes", by="b", protocols=BOTH[1:], member_id=given.member_id, wait=False)
    while side.heartbeat("votes", first).error_code.name == "none":
        side.seen.pop()
    side.join("votes", by="a", protocols=BOTH, member_id=first.member_id)
    side.answer("b")
    side.join("votes", by="c", protocols=RANGE)


SITUATIONS: list[Callable[[Side], None]] = [
    joins_that_are_refused,
    the_life_of_one_member,
    members_that_come_and_go,
    static_members,
    ids_that_are_given_out,
    offsets_of_clients_outside_of_groups,
    votes,
    offsets_that_are_deleted,
    lists_and_descriptions,
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1", "num.partitions": "2"}
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        broker.start(props=settings)
        yield SimpleNamespace(address=parse_address("", broker.bootstrap))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("gateway") / "log", group_initial_rebalance_delay_ms=0) as started:
        yield started


def seen(where: Any, situation: Callable[[Side], None]) -> list[tuple[str, Any]]:
    side = Side(where)
    try:
        with WireClient(where) as client:
            topics = [{"name": each, "num_partitions": 2, "replication_factor": 1} for each in (TOPIC, OTHER)]
            client.ask(ApiKey.CREATE_TOPICS, 4, topics=topics)
            while client.ask(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=["g"], key_type=0).coordinators[0].error_code:
                pass  # makes the topic of offsets
            while client.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0].error_code:
                pass  # loads it
        situation(side)
    finally:
        side.close()
    return side.seen


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.__name__)
def test_answers_are_those_of_kafka(kafka: Any, gateway: Gateway, situation: Callable[[Side], None]) -> None:
    ours, theirs = seen(gateway, situation), seen(kafka, situation)
    assert len(ours) == len(theirs)
    for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        assert our == their, f"answer {number}"
