"""ConsumerGroup: a group of Kafka 4 (KIP-848): members, epochs, targets, and the records that they are stored in.

A group has an epoch, which grows with each change of members, subscriptions or topics; a target assignment for an
epoch; and what each member has now. A change is made in memory and noted, until :meth:`ConsumerGroup.take_changes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from ...storage import TOMBSTONE_ORDER, GroupRecordKey, GroupRecordKind as Kind, decode_record, encode_record
from .assignors import ASSIGNORS, Subscriber
from .member import NO_EPOCH, STATIC_LEAVING, ConsumerMember, MemberState, preferred
from .partitions import NO_HASH, Catalog, Part, Topic, by_topic, parts_of, topics_hash

FIRST_EPOCH = 1  # the epoch of a newly created group, before its first member changes it


class ConsumerState(Enum):
    """The state of a group; values are Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Change(NamedTuple):
    """A record to write."""

    key: GroupRecordKey
    value: bytes | None  # None: a tombstone
    before: bytes | None  # the value in the log now


@dataclass(eq=False)
class ConsumerGroup:
    """A group. Only for the coordinator's thread."""

    name: str
    epoch: int = FIRST_EPOCH
    target_epoch: int = FIRST_EPOCH
    hash: int = NO_HASH  # of the topics that members read
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, frozenset[Part]] = field(default_factory=dict)  # by the ids of members
    static_ids: dict[str, str] = field(default_factory=dict)  # member ids by instance id
    owners: dict[Part, str] = field(default_factory=dict)  # the member that has a partition, or has not given it up yet
    found: dict[str, frozenset[str]] = field(default_factory=dict)  # names of topics by regular expression
    is_held: bool = False  # commands are kept away
    _seen: Catalog | None = None  # the topics from which the hash was computed
    _found_in: dict[str, Catalog] = field(default_factory=dict)  # the topics that a regular expression was matched with
    _stored: dict[GroupRecordKey, bytes] = field(default_factory=dict)
    _changes: dict[GroupRecordKey, Change] = field(default_factory=dict)

    @classmethod
    def restored(cls, name: str, records: Mapping[GroupRecordKey, bytes]) -> ConsumerGroup:
        """Returns the group in its records. Raises InvalidRecordError for one that does not decode."""
        group = cls(name)
        group._stored.update(records)
        fields = {(key.kind, key.name): decode_record(key.kind, value) for key, value in records.items()}
        about = fields.get((Kind.CONSUMER_GROUP, None), {})
        group.epoch, group.hash = about.get("epoch", FIRST_EPOCH), about.get("metadataHash", NO_HASH)
        target = fields.get((Kind.CONSUMER_TARGET, None), {})
        group.target_epoch = target.get("assignmentEpoch", FIRST_EPOCH)
        for (kind, key), each in fields.items():
            if kind == Kind.CONSUMER_MEMBER and key is not None:
                current = fields.get((Kind.CONSUMER_MEMBER_CURRENT, key), {})
                group._hold(ConsumerMember.restored(key, each, current))
            elif kind == Kind.CONSUMER_MEMBER_TARGET and key is not None:
                group.targets[key] = parts_of(each["topicPartitions"])
            elif kind == Kind.CONSUMER_REGEX and key is not None:
                group.found[key] = frozenset(each["topics"])
        return group

    @classmethod
    def founded(cls, name: str, epoch: int, members: Sequence[ConsumerMember], catalog: Catalog) -> ConsumerGroup:
        """Returns a group whose members already have their target assignments, and notes all its records."""
        group = cls(name, epoch, epoch)
        for each in members:
            group._hold(each)
            group.put(Kind.CONSUMER_MEMBER, each.id, each.about())
        group.hash = topics_hash(group._topics(catalog))
        group.put(Kind.CONSUMER_GROUP, None, {"epoch": epoch, "metadataHash": group.hash})
        for each in members:
            group._aim(each.id, frozenset(each.assigned))
        group.put(Kind.CONSUMER_TARGET, None, {"assignmentEpoch": epoch, "assignmentTimestamp": 0})
        for each in members:
            group.put(Kind.CONSUMER_MEMBER_CURRENT, each.id, each.current())
        return group

    @property
    def key(self) -> GroupRecordKey:
        """The key of the record that has the group's epoch."""
        return GroupRecordKey(Kind.CONSUMER_GROUP, self.name)

    def keys_of(self, member_id: str) -> list[GroupRecordKey]:
        """Returns the key of the record with a member's current assignment; empty if it is not a member."""
        key = GroupRecordKey(Kind.CONSUMER_MEMBER_CURRENT, self.name, member_id)
        return [key] if key in self._stored else []

    @staticmethod
    def is_in(name: str, keys: Container[object]) -> bool:
        """Whether records contain a group of this kind, even if its first epoch is not stored yet."""
        return GroupRecordKey(Kind.CONSUMER_GROUP, name) in keys

    @property
    def state(self) -> ConsumerState:
        """The state that Kafka computes from the epochs."""
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        is_reconciled = all(
            each.state is MemberState.STABLE and each.epoch == self.target_epoch for each in self.members.values()
        )
        return ConsumerState.STABLE if is_reconciled else ConsumerState.RECONCILING

    def assignor(self, default: str) -> str:
        """Returns the assignor that most members ask for; ``default`` if none asks."""
        return preferred(self.members.values(), default)

    def subscribed(self, member: ConsumerMember) -> frozenset[str]:
        """Returns the names of the topics that a member reads, whether or not they exist."""
        return frozenset(member.topics) | self.found.get(member.regex or "", frozenset())

    def is_subscribed(self, topic: str) -> bool:
        """Whether any member reads a topic."""
        return any(topic in self.subscribed(each) for each in self.members.values())

    def is_waiting(self, member: ConsumerMember) -> bool:
        """Whether others still have partitions that belong to a member's target."""
        wanted = self.targets.get(member.id, frozenset()) - member.assigned.keys()
        return any(part in self.owners for part in wanted)

    # Records

    def end(self) -> None:
        """Notes that all records of the group are deleted, because it continues as a classic group."""
        for each in self.to_delete():
            self.put(Kind(each.kind), each.name, None)

    def put(self, kind: Kind, name: str | None, fields: Mapping[str, Any] | None) -> None:
        """Notes a record; ``fields`` None: its tombstone. Does nothing if the log has the same one."""
        key = GroupRecordKey(kind, self.name, name)
        value = None if fields is None else encode_record(kind, fields)
        before = self._stored.get(key)
        noted = self._changes.pop(key, None)
        if value != before:
            first = before if noted is None else noted.before
            self._changes[key] = Change(key, value, first)
            if value is None:
                self._stored.pop(key, None)
            else:
                self._stored[key] = value
        elif noted is not None:
            self._changes[key] = noted

    def take_changes(self) -> list[Change]:
        """Returns what was noted since the last call, in order."""
        changes, self._changes = [*self._changes.values()], {}
        return changes

    def before(self, changes: Iterable[Change]) -> Mapping[GroupRecordKey, bytes | None]:
        """Returns the records of the group before its last changes; None for a record that did not exist."""
        return {**self._stored, **{each.key: each.before for each in changes}}

    @property
    def stored(self) -> Mapping[GroupRecordKey, bytes]:
        """The records of the group, with all that was noted."""
        return self._stored

    def to_delete(self) -> Mapping[GroupRecordKey, bytes]:
        """Returns :attr:`stored` in the order of deletion; Kafka cannot load a partition with another order."""
        return dict(sorted(self._stored.items(), key=lambda record: TOMBSTONE_ORDER.index(record[0].kind)))

    # Members

    def _hold(self, member: ConsumerMember) -> None:
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.id
        self.owners.update(dict.fromkeys(member.held, member.id))

    def keep(self, member: ConsumerMember) -> None:
        """Replaces a member by its new state, and notes what has changed."""
        before = self.members.get(member.id)
        for part in before.held if before is not None else ():
            if self.owners.get(part) == member.id:
                del self.owners[part]
        if before is not None and before.instance_id not in (None, member.instance_id):
            self.static_ids.pop(before.instance_id, None)
        self._hold(member)
        if before is None or before.about() != member.about():
            self.put(Kind.CONSUMER_MEMBER, member.id, member.about())
        if before is not None and before.current() != member.current():
            self.put(Kind.CONSUMER_MEMBER_CURRENT, member.id, member.current())

    def keep_current(self, member: ConsumerMember) -> None:
        """Like :meth:`keep`, and notes the member's assignment even if it is empty."""
        self.keep(member)
        self.put(Kind.CONSUMER_MEMBER_CURRENT, member.id, member.current())

    def remove(self, member_ids: Iterable[str], catalog: Catalog) -> None:
        """Removes members: their partitions are free, and the group gets another epoch."""
        for each in member_ids:
            self._drop(each)
        self._forget_regexes()
        self._count(catalog)

    def _drop(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self.targets.pop(member_id, None)
        self.owners = {part: owner for part, owner in self.owners.items() if owner != member_id}
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        for kind in (Kind.CONSUMER_MEMBER_CURRENT, Kind.CONSUMER_MEMBER_TARGET, Kind.CONSUMER_MEMBER):
            self.put(kind, member_id, None)

    def replace_static(self, instance_id: str, member_id: str) -> ConsumerMember:
        """Replaces a static member by its new id, which has joined with epoch 0."""
        old = self.members[self.static_ids[instance_id]]
        target = self.targets.get(old.id, frozenset())
        self._drop(old.id)
        member = replace(old, id=member_id, epoch=0, previous_epoch=0)
        self.put(Kind.CONSUMER_MEMBER, member_id, member.about())
        self._aim(member_id, target)
        self._hold(member)
        self.put(Kind.CONSUMER_MEMBER_CURRENT, member_id, member.current())
        return member

    def leave_for_now(self, member: ConsumerMember) -> None:
        """Notes that a static member has left and will be back; its partitions stay its own.

        The returning member may commit for them with any epoch, so they have none.
        """
        assigned = dict.fromkeys(member.assigned, NO_EPOCH)
        self.keep(replace(member, epoch=STATIC_LEAVING, assigned=assigned, revoking={}))

    # Topics and targets

    def match(self, regex: str, catalog: Catalog, topics: frozenset[str]) -> bool:
        """Keeps the topics that a regular expression matches; returns whether they have changed."""
        self._found_in[regex] = catalog
        if self.found.get(regex) == topics:
            return False
        self.found[regex] = topics
        return True

    def knows(self, regex: str, catalog: Catalog) -> bool:
        """Whether a regular expression was matched with these topics."""
        return self._found_in.get(regex) is catalog

    def _forget_regexes(self) -> None:
        used = {each.regex for each in self.members.values()}
        for regex in [each for each in self.found if each not in used]:
            del self.found[regex]
            self._found_in.pop(regex, None)
            self.put(Kind.CONSUMER_REGEX, regex, None)

    def note_change(self, catalog: Catalog, *, is_changed: bool) -> None:
        """Begins another epoch if subscriptions have changed, or topics that members read."""
        if not is_changed and self._seen is catalog:
            return
        self._forget_regexes()
        if is_changed or self.hash != topics_hash(self._topics(catalog)):
            self._count(catalog)
        self._seen = catalog

    def _count(self, catalog: Catalog) -> None:
        self.epoch += 1
        self.hash = topics_hash(self._topics(catalog))
        self.put(Kind.CONSUMER_GROUP, None, {"epoch": self.epoch, "metadataHash": self.hash})

    def _topics(self, catalog: Catalog) -> list[Topic]:
        """Returns the topics that exist and that members read."""
        counted = Counter(name for each in self.members.values() for name in self.subscribed(each))
        return [catalog[name] for name in counted if name in catalog]

    def assign(self, catalog: Catalog, default: str, now_ms: int) -> None:
        """Computes the target of the group's epoch, if missing; ``default``: the assignor if no member asks for one."""
        if self.epoch <= self.target_epoch:
            return
        members = [self._subscriber(each, catalog) for each in self.members.values()]
        assigned = ASSIGNORS[self.assignor(default)](members, self._topics(catalog))
        for member_id, target in assigned.items():
            self._aim(member_id, target)
        self.target_epoch = self.epoch
        fields = {"assignmentEpoch": self.target_epoch, "assignmentTimestamp": now_ms}
        self.put(Kind.CONSUMER_TARGET, None, fields)

    def _subscriber(self, member: ConsumerMember, catalog: Catalog) -> Subscriber:
        ids = frozenset(catalog[name].id for name in self.subscribed(member) if name in catalog)
        return Subscriber(member.id, member.instance_id, ids, self.targets.get(member.id, frozenset()))

    def _aim(self, member_id: str, target: frozenset[Part]) -> None:
        self.targets[member_id] = target
        self.put(Kind.CONSUMER_MEMBER_TARGET, member_id, {"topicPartitions": by_topic(target)})

    def reconcile(self, member: ConsumerMember, owned: frozenset[Part] | None) -> ConsumerMember:
        """Takes a member's next step towards its target, and returns it."""
        target = self.targets.get(member.id, frozenset())
        after = member.reconciled(self.target_epoch, target, owned, lambda part: part not in self.owners)
        if after is not member:
            self.keep(after)
        return after
