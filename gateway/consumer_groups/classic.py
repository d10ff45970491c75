"""Members of Kafka 4's groups that still use the classic protocol: their requests and the answers to them.

They join, sync and send heartbeats as in a classic group, but the coordinator assigns. No member waits for others: each
gets at once the partitions that are free for it, and must join again when it has to give up partitions or can get more.
Checks and their order are those of Kafka 4.3.1 (``GroupMetadataManager``, ``classicGroup…ToConsumerGroup``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import (
    CONSUMER,
    Assignment,
    InvalidRecordError,
    Subscription,
    TopicPartitions,
    consumer_protocol_version,
    decode_whole_subscription,
    encode_assignment,
)
from .group import ConsumerGroup
from .heartbeat import advanced
from .member import ConsumerMember, MemberState
from .partitions import Catalog, Part


@dataclass(frozen=True)
class ClassicMember:
    """A member as the classic protocol has it, or as it asks to join; timeouts in ms."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]]  # names with metadata, in the order of preference
    assignment: bytes = b""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The fields of the record about what only the classic protocol has."""
        protocols = tuple({"name": name, "metadata": metadata} for name, metadata in self.protocols)
        return {"sessionTimeoutMs": self.session_timeout_ms, "supportedProtocols": protocols}


class Joining(NamedTuple):
    """How a member joins."""

    is_named: bool  # it has an id already
    is_last_replaced: bool  # it is static, and before this join it was the last member on the new protocol


def supports(group: ConsumerGroup, protocol_type: str, protocols: Iterable[tuple[str, bytes]]) -> bool:
    """Whether a member can join: all members on the classic protocol must have one of its protocols in common."""
    members = [each for each in group.members.values() if each.is_classic]
    counted = Counter(name for each in members for name in {name for name, _ in each.protocols})
    return protocol_type == CONSUMER and any(counted[name] == len(members) for name, _ in protocols)


def joined(
    group: ConsumerGroup, given: ClassicMember, how: Joining, catalog: Catalog, *, assignor: str, now_ms: int
) -> ConsumerMember:
    """Returns the joined member after its next step; the group notes what changes.

    ``assignor``: the default. Raises RequestError, with nothing changed.
    """
    member = _known(group, given, how)
    subscription = _subscription(given)
    if given.instance_id is not None and not how.is_named and given.instance_id in group.static_ids:
        member = group.replace_static(given.instance_id, given.id)
    updated = replace(
        member,
        instance_id=given.instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=given.client_id,
        client_host=given.client_host,
        rebalance_timeout_ms=given.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        classic=given.metadata,
    )
    owned = parts_among(subscription.owned_partitions, catalog)
    return advanced(
        *(group, member, updated, owned, catalog), assignor=assignor, now_ms=now_ms, is_last_step=how.is_last_replaced
    )


def _known(group: ConsumerGroup, given: ClassicMember, how: Joining) -> ConsumerMember:
    if given.instance_id is not None and how.is_named:
        return checked_member(group, given.id, given.instance_id)
    return group.members.get(given.id) or ConsumerMember(given.id)


def _subscription(given: ClassicMember) -> Subscription:
    try:
        return decode_whole_subscription(given.protocols[0][1])
    except InvalidRecordError as error:
        raise RequestError(ErrorCode.unknown_server_error, f"the subscription does not decode: {error}") from None


def checked_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Returns the member that sent a request. Raises RequestError if it is unknown or fenced."""
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = group.members.get(group.static_ids.get(instance_id, ""))
        if member is not None and member.id != member_id:
            raise RequestError(ErrorCode.fenced_instance_id, f"instance id {instance_id} is of member {member.id}")
    if member is None:
        raise RequestError(ErrorCode.unknown_member_id, f"{member_id} is no member of group {group.name}")
    return member


def checked_classic(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    """Like :func:`checked_member`, for a member on the classic protocol; its generation is its epoch."""
    member = checked_member(group, member_id, instance_id)
    if not member.is_classic:
        raise RequestError(ErrorCode.unknown_member_id, f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        text = f"The request generation id {generation} is not equal to the member epoch {member.epoch}."
        raise RequestError(ErrorCode.illegal_generation, text)
    return member


def is_behind(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a member must join again, because there is a newer target.

    If all members are on the classic protocol, only joins compute targets, so a newer epoch is enough.
    """
    is_all = all(each.is_classic for each in group.members.values())
    return member.epoch < (group.epoch if is_all else group.target_epoch)


def must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a heartbeat of a member is to be answered with REBALANCE_IN_PROGRESS."""
    is_served = member.state is MemberState.UNRELEASED_PARTITIONS and not group.is_waiting(member)
    return is_behind(group, member) or member.state is MemberState.UNREVOKED_PARTITIONS or is_served


def assignment_of(parts: Collection[Part], subscription: bytes, catalog: Catalog) -> bytes:
    """Returns partitions encoded for the client that sent ``subscription``.

    Raises InvalidRecordError if that has no version. Topics that were deleted are left out.
    """
    names = {each.id: each.name for each in catalog.values()}
    found: dict[str, list[int]] = {}
    for part in sorted(parts):
        if part.topic_id in names:
            found.setdefault(names[part.topic_id], []).append(part.partition)
    topics = tuple(TopicPartitions(name, tuple(numbers)) for name, numbers in sorted(found.items()))
    return encode_assignment(consumer_protocol_version(subscription), Assignment(topics))


def parts_among(topics: Iterable[TopicPartitions], catalog: Catalog) -> frozenset[Part]:
    """Returns the partitions that a client names, of topics that exist."""
    there = [(catalog[each.topic].id, each.partition_ids) for each in topics if each.topic in catalog]
    return frozenset(Part(topic_id, number) for topic_id, numbers in there for number in numbers)
