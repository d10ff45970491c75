"""Group: the members, generation and state of one group (Kafka's ``GroupMetadata``).

States and their transitions: Empty and Stable → PreparingRebalance, when a member joins or leaves; PreparingRebalance →
CompletingRebalance, when all have joined, or → Empty; CompletingRebalance → Stable, when the leader's assignment is
stored, or → PreparingRebalance; each → Dead, when the group is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Protocol

from ...protocol.bodies import ErrorCode
from ...storage import (
    CONSUMER,
    Clock,
    GroupMetadataValue,
    InvalidRecordError,
    MemberMetadata,
    decode_subscription,
)
from ..threads.worker import Timer
from .member import JoinResult, Member, Protocols, SyncResult, large_bytes

NO_TIMESTAMP = -1


class State(Enum):
    """The state of a group; values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Reserved(Protocol):
    """A member id that was assigned to a client."""

    def end(self) -> None:
        """Stops the timer; the id is free again."""
        ...


_BEFORE: Mapping[State, Collection[State]] = {
    State.EMPTY: (State.PREPARING_REBALANCE, State.DEAD),  # DEAD: a deletion failed
    State.PREPARING_REBALANCE: (State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY),
    State.COMPLETING_REBALANCE: (State.PREPARING_REBALANCE,),
    State.STABLE: (State.COMPLETING_REBALANCE,),
    State.DEAD: tuple(State),
}


class Group:
    """A group. Only for the coordinator's thread."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.state = State.EMPTY
        self.state_since_ms = clock.now_ms()  # -1: unknown, in a group that an old broker stored
        self.generation = 0
        self.protocol_type: str | None = None  # None: no member ever joined
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}  # member ids by instance id
        self.pending: dict[str, Reserved] = {}  # reserved ids, with which no client has joined yet
        self.unsynced: set[str] = set()  # members that joined this generation and have not sent SyncGroup
        self.subscribed: frozenset[str] | None = None  # topics of a consumer group; None: unknown
        self.has_new_member = False  # a member joined during the first rebalance, which then waits longer
        self.is_held = False  # commands are kept away
        self.expected: GroupMetadataValue | None = None  # the stored group, as this coordinator last read or wrote it
        self.is_gathering = False  # the first rebalance waits for more members, although all known have joined
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self._clock = clock
        self._supported: Counter[str] = Counter()  # members by protocol; one that names it twice counts once
        self.large_bytes = 0  # of the protocols of members that have large ones

    @classmethod
    def restored(cls, name: str, value: GroupMetadataValue, clock: Clock) -> Group:
        """Returns the group in a stored record: Stable if it has members, else Empty."""
        group = cls(name, clock)
        group.expected = value
        group.generation = value.generation
        group.protocol = value.protocol
        for each in value.members:
            rebalance_ms = each.session_timeout if each.rebalance_timeout < 0 else each.rebalance_timeout
            ids = (each.member_id, each.group_instance_id, each.client_id, each.client_host)
            protocols = ((value.protocol or "", each.subscription),)
            member = Member(*ids, rebalance_ms, each.session_timeout, protocols, each.assignment)
            group.add(member, value.protocol_type)
        group.protocol_type = value.protocol_type or None
        group.leader = value.leader
        group.state = State.STABLE if group.members else State.EMPTY
        group.state_since_ms = value.current_state_timestamp
        group.subscribed = group._subscribed()
        return group

    @classmethod
    def continued(cls, name: str, generation: int, members: Sequence[Member], clock: Clock) -> Group:
        """Returns a stable group of consumers whose ``members``, one or more, were in a group of Kafka 4.

        They must have a protocol in common; their assignments may be set later.
        """
        group = cls(name, clock)
        group.generation = generation
        for member in members:
            group.add(member, CONSUMER)
        group.protocol = group.select_protocol()
        group.state = State.STABLE
        group.subscribed = group._subscribed()
        return group

    def stored(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        """Returns the record to store for the group; ``assignments``: by member id."""
        return GroupMetadataValue(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            tuple(
                MemberMetadata(
                    each.id,
                    each.client_id,
                    each.client_host,
                    each.session_timeout_ms,
                    each.metadata(self.protocol or ""),
                    assignments[each.id],
                    each.instance_id,
                    each.rebalance_timeout_ms,
                )
                for each in self.members.values()
            ),
            self.state_since_ms,
        )

    def enter(self, state: State) -> None:
        """Changes the state. Raises an error for a change that the state machine does not have."""
        if self.state not in _BEFORE[state]:
            raise RuntimeError(f"group {self.name!r} cannot go from {self.state.value} to {state.value}")
        self.state, self.state_since_ms = state, self._clock.now_ms()

    @property
    def is_unused(self) -> bool:
        """Whether no member ever joined and no id is reserved; then there is nothing to remember."""
        return self.state is State.EMPTY and self.expected is None and not (self.generation or self.pending)

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin."""
        return self.state in _BEFORE[State.PREPARING_REBALANCE]

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """Adds a member; the first one becomes the leader, and its ``protocol_type`` that of the group."""
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.id
        self.members[member.id] = member
        self._supported.update(member.protocol_names)
        self.large_bytes += large_bytes(member.protocols)
        self.leader = self.leader or member.id
        self.drop_pending(member.id)

    def remove(self, member_id: str) -> None:
        """Removes a member, also if it only has an id yet. If it was the leader, another member becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            member.stop_waiting()
            self._withdraw(member)
            if member.instance_id is not None:
                self.static_ids.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.drop_pending(member_id)
        self.unsynced.discard(member_id)

    def drop_pending(self, member_id: str) -> None:
        """Forgets a reserved id."""
        reserved = self.pending.pop(member_id, None)
        if reserved is not None:
            reserved.end()

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Replaces the protocols and timeouts of a member."""
        self._withdraw(member)
        member.protocols = protocols
        self._supported.update(member.protocol_names)
        self.large_bytes += large_bytes(member.protocols)
        member.rebalance_timeout_ms, member.session_timeout_ms = rebalance_timeout_ms, session_timeout_ms

    def _withdraw(self, member: Member) -> None:
        """Counts a member's protocols no longer; one that no member has is forgotten, because clients choose names."""
        names = member.protocol_names
        self._supported.subtract(names)
        self.large_bytes -= large_bytes(member.protocols)
        for each in names:
            if not self._supported[each]:
                del self._supported[each]

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> Member:
        """Gives a static member another id; requests that wait under the old one are fenced."""
        member = self.members.pop(old_id)
        member.answer_join(JoinResult(ErrorCode.fenced_instance_id, old_id))
        member.answer_sync(SyncResult(ErrorCode.fenced_instance_id))
        member.id = new_id
        self.members[new_id] = member
        self.static_ids[instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Returns the error for a request of a member that must be refused; otherwise ``ErrorCode.none``."""
        if instance_id is not None:
            known = self.static_ids.get(instance_id)
            if known is not None and known != member_id:
                return ErrorCode.fenced_instance_id
            if known is None:
                return ErrorCode.unknown_member_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    @property
    def has_all_joined(self) -> bool:
        """Whether all members have sent JoinGroup, including those that only have an id so far."""
        return not self.pending and all(each.join_done is not None for each in self.members.values())

    @property
    def waiting_count(self) -> int:
        """The number of members whose JoinGroup waits for an answer."""
        return sum(each.join_done is not None for each in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members, in ms; 0 without members."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def elect_joined(self) -> bool:
        """If the leader has not joined, makes a member that has the leader. Returns False if nobody has joined."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_done is None:
            joined = next((each.id for each in self.members.values() if each.join_done is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    # Protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join: all members must have one in common."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self._supported[name] == count for name, _ in protocols)

    def select_protocol(self) -> str:
        """Returns the protocol with the most votes.

        A member votes for the first of its protocols that all members have.
        """
        candidates = {name for name, count in self._supported.items() if count == len(self.members)}
        votes = Counter(each.vote(candidates) for each in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_generation(self) -> None:
        """Begins the next generation with the current members; without members, the group becomes Empty."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed = self._subscribed()
        self.unsynced.clear()
        self.enter(State.COMPLETING_REBALANCE if self.members else State.EMPTY)

    def _subscribed(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER:
            return None
        try:
            wanted = [decode_subscription(each.metadata(self.protocol or "")) for each in self.members.values()]
        except InvalidRecordError:  # a client with a format of its own
            return None
        return frozenset(topic for each in wanted for topic in each.topics)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may read a topic; True if that is unknown."""
        return self.subscribed is None or topic in self.subscribed

    # Answers

    def joined(self, member: Member, *, leader: str | None = None, skip_assignment: bool = False) -> JoinResult:
        """Returns the JoinGroup answer for a member of this generation.

        ``leader``: the id to report as the leader; None: the group's.
        """
        is_leader = leader is None and member.id == self.leader
        return JoinResult(
            ErrorCode.none,
            member.id,
            self.generation,
            self.protocol_type,
            self.protocol,
            leader or self.leader or "",
            skip_assignment,
            self._metadata_of_all() if is_leader else (),
        )

    def _metadata_of_all(self) -> Sequence[tuple[str, str | None, bytes]]:
        protocol = self.protocol or ""
        return [(each.id, each.instance_id, each.metadata(protocol)) for each in self.members.values()]
