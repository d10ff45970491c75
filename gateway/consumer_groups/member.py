"""ConsumerMember: a member of a group of Kafka 4, and the steps by which it comes to its target assignment.

The states and steps are those of Kafka 4.3.1 (``ConsumerGroupMember``, ``CurrentAssignmentBuilder``): a member first
gives up partitions that belong to others' targets, and gets a partition once its former owner has given it up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from ...protocol.bodies import ErrorCode
from .partitions import Epochs, Part, epochs_of, with_epochs

NO_EPOCH = JOINING = 0
LEAVING = -1
STATIC_LEAVING = -2  # the epoch of a static member that will be back
UNSET_MS = -1


class MemberState(IntEnum):
    """Where a member is on its way to its target; the numbers are those in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it still has partitions that it must give up
    UNRELEASED_PARTITIONS = 2  # others still have partitions of its target
    UNKNOWN = 127


@dataclass(frozen=True)
class ConsumerMember:
    """A member; each change makes another object."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = UNSET_MS
    topics: tuple[str, ...] = ()  # that it subscribed to by name
    regex: str | None = ""  # a regular expression that it subscribed to; empty or None: none
    assignor: str | None = None
    classic: Mapping[str, Any] | None = None  # session and protocols of a member on the classic protocol
    epoch: int = NO_EPOCH
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Epochs = field(default_factory=dict)
    revoking: Epochs = field(default_factory=dict)  # that it was asked to give up

    @property
    def held(self) -> set[Part]:
        """The partitions that no other member may get."""
        return {*self.assigned, *self.revoking}

    def may_commit(self, epoch: int, parts: Collection[Part]) -> bool:
        """Whether the member may commit offsets with an epoch: its own, or one in which it had all of ``parts``."""
        if epoch >= self.epoch:
            return epoch == self.epoch
        since = {**self.revoking, **self.assigned}
        return all(since.get(part, self.epoch) <= epoch for part in parts)

    # On the classic protocol

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.classic is not None

    @property
    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """The protocols of a classic member with its metadata, in its order; none of another member."""
        found = () if self.classic is None else self.classic["supportedProtocols"]
        return tuple((each["name"], each["metadata"]) for each in found)

    @property
    def classic_session_ms(self) -> int:
        """The session timeout that a classic member has asked for; 0 for another member."""
        return 0 if self.classic is None else int(self.classic["sessionTimeoutMs"])

    # Records

    def about(self) -> dict[str, Any]:
        """Returns the fields of the record about the member itself."""
        return {
            "instanceId": self.instance_id,
            "rackId": self.rack_id,
            "clientId": self.client_id,
            "clientHost": self.client_host,
            "subscribedTopicNames": self.topics,
            "subscribedTopicRegex": self.regex,
            "rebalanceTimeoutMs": self.rebalance_timeout_ms,
            "serverAssignor": self.assignor,
            "classicMemberMetadata": self.classic,
        }

    def current(self) -> dict[str, Any]:
        """Returns the fields of the record with the member's current assignment."""
        return {
            "memberEpoch": self.epoch,
            "previousMemberEpoch": self.previous_epoch,
            "state": int(self.state),
            "assignedPartitions": with_epochs(self.assigned),
            "partitionsPendingRevocation": with_epochs(self.revoking),
        }

    @classmethod
    def restored(cls, member_id: str, about: Mapping[str, Any], current: Mapping[str, Any]) -> ConsumerMember:
        """Returns the member in two records; ``current`` is empty if it has none yet."""
        epoch, state = current.get("memberEpoch", NO_EPOCH), current.get("state", 0)
        return cls(
            member_id,
            about["instanceId"],
            about["rackId"],
            about["clientId"],
            about["clientHost"],
            about["rebalanceTimeoutMs"],
            tuple(about["subscribedTopicNames"]),
            about["subscribedTopicRegex"],
            about["serverAssignor"],
            about.get("classicMemberMetadata"),
            epoch,
            current.get("previousMemberEpoch", NO_EPOCH),
            MemberState(state) if state in MemberState.__members__.values() else MemberState.UNKNOWN,
            epochs_of(current.get("assignedPartitions", ()), epoch),
            epochs_of(current.get("partitionsPendingRevocation", ()), epoch),
        )

    # Steps

    def reconciled(
        self,
        target_epoch: int,
        target: Collection[Part],
        owned: Collection[Part] | None,
        is_free: Callable[[Part], bool],
    ) -> ConsumerMember:
        """Returns the member after its next step, or itself if there is none.

        ``owned``: the partitions that its client reports to have; None: unchanged. ``is_free`` returns whether no
        member has a partition.
        """
        if self.state is MemberState.STABLE and self.epoch == target_epoch:
            return self
        if self.state is MemberState.UNREVOKED_PARTITIONS:
            if owned is None or not self.revoking.keys().isdisjoint(owned):
                return self
            return self._next(min(self.epoch + 1, target_epoch), target_epoch, target, owned, is_free)
        return self._next(self.epoch, target_epoch, target, owned, is_free)

    def _next(
        self,
        epoch: int,
        target_epoch: int,
        target: Collection[Part],
        owned: Collection[Part] | None,
        is_free: Callable[[Part], bool],
    ) -> ConsumerMember:
        kept = {part: since for part, since in self.assigned.items() if part in target}
        revoking = {part: since for part, since in self.assigned.items() if part not in target}
        if revoking and (owned is None or not revoking.keys().isdisjoint(owned)):
            return self._at(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
        wanted = [part for part in target if part not in kept]
        free = {part: target_epoch for part in wanted if is_free(part)}
        state = MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS
        return self._at(target_epoch, state, {**kept, **free}, {})

    def _at(self, epoch: int, state: MemberState, assigned: Epochs, revoking: Epochs) -> ConsumerMember:
        now = (epoch, state, dict(assigned), dict(revoking))
        if now == (self.epoch, self.state, dict(self.assigned), dict(self.revoking)) and self.previous_epoch == epoch:
            return self
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)


def preferred(members: Collection[ConsumerMember], default: str) -> str:
    """Returns the assignor that most members ask for; ``default`` if none asks."""
    asked = Counter(each.assignor for each in members if each.assignor is not None)
    return asked.most_common(1)[0][0] if asked else default


def other_epoch(member: ConsumerMember) -> ErrorCode:
    """Returns the error for a member that has sent another epoch than its own."""
    return ErrorCode.illegal_generation if member.is_classic else ErrorCode.stale_member_epoch
