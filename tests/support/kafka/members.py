"""Members of groups on both protocols, as wire clients of a gateway and of a real broker, whose answers are compared.

Members have names here; the ids that a coordinator makes for them are left out of what is compared.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from pyspark_commitlog.gateway.consumer_groups.partitions import text_of
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.storage.format.internal.consumer_protocol import Assignment, decode_assignment, encode_assignment
from pyspark_commitlog.storage.format.internal.internal_topics import TopicPartitions
from tests.support.gateway import Listening, WireClient

SESSION_MS, REBALANCE_MS = 30_000, 60_000
Owned = Mapping[str, Iterable[int]]  # partitions by topic


def subscription(topics: Iterable[str], owned: Owned | None = None, rack: str | None = None) -> bytes:
    """The bytes of a subscription, in version 3."""
    names, had = [*topics], {**(owned or {})}

    def text(value: str) -> bytes:
        return struct.pack(">h", len(value)) + value.encode()

    data = struct.pack(">hi", 3, len(names)) + b"".join(map(text, names)) + struct.pack(">ii", -1, len(had))
    for name, numbers in had.items():
        data += text(name) + struct.pack(">i", len([*numbers])) + b"".join(struct.pack(">i", each) for each in numbers)
    return data + struct.pack(">i", -1) + (struct.pack(">h", -1) if rack is None else text(rack))


def assigned(topics: Owned, version: int = 3) -> bytes:
    """The bytes of an assignment."""
    return encode_assignment(version, Assignment(tuple(TopicPartitions(t, tuple(each)) for t, each in topics.items())))


class ClassicClient:
    """A member on the classic protocol: its connection and what it was answered."""

    def __init__(self, where: Listening, name: str, group: str, instance_id: str | None = None) -> None:
        self.name, self.group, self.instance_id = name, group, instance_id
        self.client = WireClient(where, name)
        self.id, self.generation, self.protocol, self.leader = "", -1, "range", ""
        self._sent = 0

    def ask(self, key: ApiKey, version: int, **fields: Any) -> Any:
        given = {"group_id": self.group, "member_id": self.id, "group_instance_id": self.instance_id}
        return self.client.ask(key, version, **{**given, **fields})

    def send_join(self, metadata: bytes, protocols: Iterable[str] = ("range",), **changes: Any) -> None:
        """Sends JoinGroup; first gets an id if it has none and is not static."""
        fields = self._fields(metadata, protocols, changes)
        if not self.id and self.instance_id is None:
            answer = self.client.ask(ApiKey.JOIN_GROUP, 9, **fields)
            if answer.error_code.name != "member_id_required":
                raise AssertionError(answer.error_code.name)
            self.id = answer.member_id
        self._sent = self.client.send(ApiKey.JOIN_GROUP, 9, **{**fields, "member_id": self.id})

    def _fields(self, metadata: bytes, protocols: Iterable[str], changes: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": each, "metadata": metadata} for each in protocols],
            **changes,
        }

    def join_at_once(self, metadata: bytes, protocols: Iterable[str] = ("range",), **changes: Any) -> Any:
        """Sends one JoinGroup as it is, and returns the answer."""
        return self.client.ask(ApiKey.JOIN_GROUP, 9, **self._fields(metadata, protocols, changes))

    def joined(self) -> Any:
        """Receives the answer to JoinGroup."""
        answer = self.client.answer(ApiKey.JOIN_GROUP, 9, self._sent)
        if not answer.error_code:
            self.id, self.generation, self.protocol = answer.member_id, answer.generation_id, answer.protocol_name
            self.leader = answer.leader
        return answer

    @property
    def is_leader(self) -> bool:
        return self.leader == self.id

    def sync(self, assignments: Mapping[str, bytes] | None = None, **changes: Any) -> Any:
        """Sends SyncGroup; ``assignments``: by member ids."""
        given = [{"member_id": each, "assignment": data} for each, data in (assignments or {}).items()]
        named = {"protocol_type": "consumer", "protocol_name": self.protocol, "assignments": given}
        return self.ask(ApiKey.SYNC_GROUP, 5, **{"generation_id": self.generation, **named, **changes})

    def heartbeat(self, **changes: Any) -> str:
        """Sends Heartbeat, and returns the name of the code."""
        answer = self.ask(ApiKey.HEARTBEAT, 4, **{"generation_id": self.generation, **changes})
        return str(answer.error_code.name)


class MixedSide:
    """One of the two: the members of a group by name, and what was answered."""

    def __init__(self, where: Listening) -> None:
        self.where = where
        self.client = WireClient(where)
        self.answers: list[tuple[str, Any]] = []
        self.group = ""
        self.classic: dict[str, ClassicClient] = {}
        topics = self.client.ask(ApiKey.METADATA, 12, topics=None).topics
        self.topic_ids: dict[str, UUID] = {each.name: each.topic_id for each in topics}

    def begin(self, group: str) -> None:
        """Begins with another group."""
        self.group, self.classic, self.answers = group, {}, []

    def note(self, what: str, found: Any) -> None:
        """Keeps an answer, to be compared."""
        self.answers.append((what, found))

    # On the classic protocol

    def member(self, name: str) -> ClassicClient:
        """The member of a name; one named ``i@x`` is static, with instance id i."""
        if name not in self.classic:
            instance_id = name.split("@", maxsplit=1)[0] if "@" in name else None
            self.classic[name] = ClassicClient(self.where, name, self.group, instance_id)
        return self.classic[name]

    def join(self, *names: str, topics: Iterable[str] = ("t",), owned: Mapping[str, Owned] | None = None) -> None:
        """Members join on the classic protocol, at the same time."""
        for name in names:
            self.member(name).send_join(subscription(topics, (owned or {}).get(name)))
        for name in names:
            answer = self.classic[name].joined()
            is_leader = bool(answer.members)
            known = answer.leader in {each.id for each in self.classic.values()}
            found = answer.error_code.name, answer.generation_id, answer.protocol_name, len(answer.members)
            self.note(f"{name} joins", (*found, is_leader, known, answer.protocol_type, answer.skip_assignment))

    def sync(self, *names: str, gives: Mapping[str, Owned] | None = None, **changes: Any) -> None:
        """Members send SyncGroup; if ``gives``, the leader is sent first, with these assignments."""
        given = {self.classic[name].id: assigned(topics) for name, topics in (gives or {}).items()}
        for name in sorted(names, key=lambda each: not self.classic[each].is_leader):
            member = self.classic[name]
            answer = member.sync(given if member.is_leader else None, **changes)
            data = bytes(answer.assignment)
            found = {each.topic: sorted(each.partition_ids) for each in decode_assignment(data).assigned_partitions}
            facts = answer.error_code.name, answer.protocol_type, answer.protocol_name, sorted(found.items())
            self.note(f"{name} syncs", (*facts, len(data)))

    def ping(self, *names: str, **changes: Any) -> None:
        """Members send Heartbeat."""
        for name in names:
            self.note(f"{name} heartbeats", self.classic[name].heartbeat(**changes))

    def leave(self, *members: tuple[str, str | None]) -> None:
        """Members, or those of instance ids, leave; a name stands for its id, if it has one."""
        given = [{"member_id": self._id(each), "group_instance_id": instance} for each, instance in members]
        answer = self.client.ask(ApiKey.LEAVE_GROUP, 5, group_id=self.group, members=given)
        codes = [each.error_code.name for each in answer.members]
        self.note(f"{members} leave", (answer.error_code.name, codes))

    def _id(self, name: str) -> str:
        return self.classic[name].id if name in self.classic else name

    def try_join(
        self, name: str, what: str, metadata: bytes, protocols: Iterable[str] = ("range",), **changes: Any
    ) -> None:
        """One JoinGroup of a member that may have no id."""
        answer = self.member(name).join_at_once(metadata, protocols, **changes)
        if answer.error_code.name == "member_id_required":
            self.classic[name].id = answer.member_id
        found = answer.error_code.name, answer.generation_id, answer.protocol_name, bool(answer.member_id)
        self.note(f"{name} {what}", found)

    # On the new protocol

    def beat(self, member: str, epoch: int, owned: Owned | None = None, **fields: Any) -> None:
        """A ConsumerGroupHeartbeat; the name is the id."""
        parts = (
            None
            if owned is None
            else [{"topic_id": self.topic_ids[topic], "partitions": [*numbers]} for topic, numbers in owned.items()]
        )
        given = {"group_id": self.group, "member_id": member, "member_epoch": epoch, "topic_partitions": parts}
        answer = self.client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **{**given, **fields})
        topics = None if answer.assignment is None else answer.assignment.topic_partitions
        found = None if topics is None else self._named(topics)
        self.note(f"{member} {epoch}", (answer.error_code.name, answer.error_message, answer.member_epoch, found))

    def enter(self, member: str, *topics: str, **fields: Any) -> None:
        """A member joins on the new protocol."""
        given = {"rebalance_timeout": REBALANCE_MS, "subscribed_topic_names": topics, **fields}
        self.beat(member, 0, {}, **given)

    def _named(self, topics: Iterable[Any]) -> list[tuple[str, list[int]]]:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        return sorted((names[each.topic_id], sorted(each.partitions)) for each in topics)

    # Asking

    def describe(self) -> None:
        """The group as ConsumerGroupDescribe, DescribeGroups and ListGroups show it."""
        (one,) = self.client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[self.group]).groups
        members = sorted(
            (
                self._name(each),
                each.member_type,
                each.member_epoch,
                each.instance_id,
                [*each.subscribed_topic_names],
                self._named(each.assignment.topic_partitions),
                self._named(each.target_assignment.topic_partitions),
            )
            for each in one.members
        )
        facts = one.error_code.name, one.group_state, one.group_epoch, one.assignment_epoch, one.assignor_name
        (old,) = self.client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[self.group]).groups
        shown = old.error_code.name, old.group_state, old.protocol_type, old.protocol_data, len(old.members)
        listed = [
            (each.protocol_type, each.group_state, each.group_type)
            for each in self.client.ask(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups
            if each.group_id == self.group
        ]
        self.note("described", (facts, members, shown, listed))

    def _name(self, member: Any) -> str:
        by_id = {each.id: name for name, each in self.classic.items()}
        return by_id.get(member.member_id, member.member_id)

    def commit(self, member: str, generation: int, version: int = 9, partition: int = 0) -> None:
        """Commits an offset, and fetches it as the member."""
        topics = [{"name": "t", "partitions": [{"partition_index": partition, "committed_offset": 1}]}]
        given = {"group_id": self.group, "member_id": self._id(member), "generation_id_or_member_epoch": generation}
        answer = self.client.ask(ApiKey.OFFSET_COMMIT, version, **given, topics=topics)
        code = answer.topics[0].partitions[0].error_code.name
        asked = {"group_id": self.group, "member_id": self._id(member), "member_epoch": generation, "topics": None}
        fetched = self.client.ask(ApiKey.OFFSET_FETCH, 9, groups=[asked]).groups[0].error_code.name
        self.note(f"{member} commits in {generation}, version {version}", (code, fetched))

    @property
    def ids(self) -> dict[str, str]:
        """Names by what differs between two logs: ids of members and topics."""
        members = {each.id: name for name, each in self.classic.items()}
        return {**members, **{text_of(topic_id): name for name, topic_id in self.topic_ids.items()}}


def compared(sides: Iterable[MixedSide], group: str, steps: Callable[[MixedSide], None]) -> None:
    """Takes the same steps with both sides, ours first; fails with the answers that differ."""
    for side in sides:
        side.begin(group)
        steps(side)
    ours, theirs = (side.answers for side in sides)
    different = [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b]
    shown = "\n".join(f"ours:   {a}\nKafka's: {b}" for a, b in different)
    assert not different, f"\n{shown}"
