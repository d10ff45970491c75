"""Heartbeats of members of Kafka 4's groups: the requests, the checks that refuse them, and how a group changes.

Checks, their order and texts are those of Kafka 4.3.1 (``GroupMetadataManager.consumerGroupHeartbeat``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import GroupRecordKind as Kind
from .assignors import ASSIGNORS
from .group import ConsumerGroup
from .member import JOINING, LEAVING, STATIC_LEAVING, UNSET_MS, ConsumerMember
from .partitions import Catalog, Part, by_topic

TEXT_CHARACTERS_MAX = 200  # of a client's text, in an error
OWN_IDS = 1  # the first version in which a member makes its id itself


@dataclass(frozen=True)
class Heartbeat:
    """A ConsumerGroupHeartbeat; None: unchanged since the member's last request. Times in ms."""

    group: str
    member_id: str
    epoch: int  # 0: it joins; -1: it leaves; -2: a static member leaves for now
    version: int = OWN_IDS
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = UNSET_MS
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[Part] | None = None
    may_see: Callable[[str], bool] = field(default=lambda _: True, repr=False, compare=False)  # topics, by name

    @property
    def is_leaving(self) -> bool:
        """Whether the member leaves."""
        return self.epoch in (LEAVING, STATIC_LEAVING)

    @property
    def is_full(self) -> bool:
        """Whether the request has all fields, as after an error; the answer then has the member's partitions."""
        is_subscribed = self.topics is not None or self.regex is not None
        is_whole = self.rebalance_timeout_ms != UNSET_MS and is_subscribed and self.owned is not None
        return self.epoch == JOINING or is_whole


@dataclass(frozen=True)
class HeartbeatResult:
    """The answer to a ConsumerGroupHeartbeat."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Sequence[Any] | None = None  # topic ids with partitions, as in records; None: unchanged


def check_heartbeat(beat: Heartbeat, assignors: Collection[str] = tuple(ASSIGNORS)) -> None:
    """Raises RequestError for a heartbeat that no group would accept; ``assignors``: the configured ones."""
    if beat.version >= OWN_IDS or beat.epoch > 0 or beat.epoch == LEAVING:
        _check_text(beat.member_id, "MemberId")
    _check_text(beat.group, "GroupId")
    _check_text(beat.instance_id, "InstanceId")
    _check_text(beat.rack_id, "RackId")
    if beat.epoch < STATIC_LEAVING:
        raise _invalid("MemberEpoch is invalid.")
    if beat.epoch == STATIC_LEAVING and beat.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    if beat.epoch == JOINING:
        _check_join(beat)
    if beat.assignor is not None and beat.assignor not in assignors:
        known = ", ".join(assignors)
        text = f"ServerAssignor {beat.assignor} is not supported. Supported assignors: {known}."
        raise RequestError(ErrorCode.unsupported_assignor, text)


def _check_join(beat: Heartbeat) -> None:
    if beat.rebalance_timeout_ms == UNSET_MS:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if beat.owned is None or beat.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if beat.topics is None and beat.regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _check_text(text: str | None, what: str) -> None:
    if text is not None and all(each <= " " for each in text):  # as Java's trim, unlike strip
        raise _invalid(f"{what} can't be empty.")


def _invalid(text: str) -> RequestError:
    return RequestError(ErrorCode.invalid_request, text)


def beaten(group: ConsumerGroup, beat: Heartbeat, catalog: Catalog, *, assignor: str, now_ms: int) -> ConsumerMember:
    """Applies a heartbeat; returns its member after the next step. The group notes what changes.

    ``assignor``: the default. Raises RequestError, with nothing changed.
    """
    member = _known(group, beat)
    found = _matching(group, beat, member, catalog)
    if beat.instance_id is not None and beat.epoch == JOINING and beat.instance_id in group.static_ids:
        member = group.replace_static(beat.instance_id, beat.member_id)
    updated = _updated(member, beat)
    return advanced(group, member, updated, beat.owned, catalog, assignor=assignor, now_ms=now_ms, found=found)


def advanced(
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    owned: frozenset[Part] | None,
    catalog: Catalog,
    *,
    assignor: str,
    now_ms: int,
    found: frozenset[str] | None = None,
    is_last_step: bool = False,
) -> ConsumerMember:
    """Replaces ``member`` by ``updated``, and returns that after its next step. The group notes what changes.

    ``owned``: the partitions that its client reports to have; None: unchanged. ``found``: the topics that its regular
    expression now matches; None: unchanged. ``is_last_step``: the group then becomes a classic one, and gets no new
    target.
    """
    is_new = member.id not in group.members
    is_changed = (frozenset(member.topics), member.regex or "") != (frozenset(updated.topics), updated.regex or "")
    is_changed |= not is_new and updated.assignor != member.assignor
    group.keep(updated)
    if found is not None and group.match(updated.regex or "", catalog, found):
        is_changed = True
        fields = {"topics": sorted(found), "version": 0, "timestamp": now_ms}  # 0: another coordinator matches again
        group.put(Kind.CONSUMER_REGEX, updated.regex, fields)
    group.note_change(catalog, is_changed=is_changed)
    if is_last_step and group.epoch > group.target_epoch:
        return updated
    group.assign(catalog, assignor, now_ms)
    after = group.reconcile(updated, owned)
    if is_new:
        group.keep_current(after)
    return after


def _known(group: ConsumerGroup, beat: Heartbeat) -> ConsumerMember:
    """Returns the member that sent a heartbeat: a new one if it joins."""
    if beat.instance_id is not None:
        static_id = group.static_ids.get(beat.instance_id)
        if static_id is not None:
            return _known_static(group.members[static_id], beat)
        if beat.epoch != JOINING:
            raise RequestError(ErrorCode.unknown_member_id, f"Instance id {beat.instance_id} is unknown.")
    member = group.members.get(beat.member_id)
    if member is None:
        if beat.epoch != JOINING:
            text = f"Member {beat.member_id} is not a member of group {group.name}."
            raise RequestError(ErrorCode.unknown_member_id, text)
        return ConsumerMember(beat.member_id)
    check_epoch(member, beat)
    return member


def _known_static(member: ConsumerMember, beat: Heartbeat) -> ConsumerMember:
    who = f"Static member {beat.member_id} with instance id {beat.instance_id}"
    if beat.epoch == JOINING:
        if member.epoch != STATIC_LEAVING and not member.is_classic:
            text = f"{who} cannot join the group because the instance id is owned by {member.id} member."
            raise RequestError(ErrorCode.unreleased_instance_id, text)
        return member
    check_instance(member, beat)
    check_epoch(member, beat)
    return member


def check_instance(member: ConsumerMember, beat: Heartbeat) -> None:
    """Raises RequestError if another member has the instance id of a heartbeat."""
    if member.id != beat.member_id:
        text = f"Static member {beat.member_id} with instance id {beat.instance_id} was fenced by member {member.id}."
        raise RequestError(ErrorCode.fenced_instance_id, text)


def check_epoch(member: ConsumerMember, beat: Heartbeat) -> None:
    """Raises RequestError unless a heartbeat has the member's epoch.

    The member's previous epoch is accepted if the answer with the newer one may have been lost; epoch 0 is accepted
    from a member that has given up all of its partitions and joins again.
    """
    if beat.epoch in (member.epoch, JOINING):
        return
    word = "greater" if beat.epoch > member.epoch else "smaller"
    is_lost = beat.owned is not None and beat.owned <= member.assigned.keys()
    if word == "smaller" and beat.epoch == member.previous_epoch and is_lost:
        return
    text = (
        f"The consumer group member has a {word} member epoch ({beat.epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    raise RequestError(ErrorCode.fenced_member_epoch, text)


def _updated(member: ConsumerMember, beat: Heartbeat) -> ConsumerMember:
    def new(given: Any, known: Any) -> Any:
        return known if given is None else given

    is_unset = beat.rebalance_timeout_ms == UNSET_MS
    return replace(
        member,
        instance_id=new(beat.instance_id, member.instance_id),
        rack_id=new(beat.rack_id, member.rack_id),
        client_id=beat.client_id,
        client_host=beat.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if is_unset else beat.rebalance_timeout_ms,
        topics=new(None if beat.topics is None else tuple(sorted(set(beat.topics))), member.topics),
        regex=new(beat.regex, member.regex),
        assignor=new(beat.assignor, member.assignor),
        classic=None,  # it may have used the classic protocol before
    )


def _matching(group: ConsumerGroup, beat: Heartbeat, member: ConsumerMember, catalog: Catalog) -> frozenset[str] | None:
    """Returns the topics that a member's regular expression matches; None if it has none, or they are known."""
    regex = member.regex if beat.regex is None else beat.regex
    if not regex or group.knows(regex, catalog):
        return None
    return frozenset(name for name in matching(regex, catalog) if beat.may_see(name))


def matching(regex: str, names: Iterable[str]) -> list[str]:
    """Returns the names that a whole regular expression of RE2 matches, in time that grows with their length only.

    Raises RequestError for an invalid one.
    """
    import re2  # noqa: PLC0415  few groups need it, and no other part does

    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace")
        text = f"SubscribedTopicRegex `{regex[:TEXT_CHARACTERS_MAX]}` is not a valid regular expression: {reason}."
        raise RequestError(ErrorCode.invalid_regular_expression, text) from None
    return [each for each in names if pattern.fullmatch(each)]


def result_of(beat: Heartbeat, before: Collection[Part], after: ConsumerMember, interval_ms: int) -> HeartbeatResult:
    """Returns the answer for a member; ``before``: the partitions that its last answer had."""
    is_told = beat.is_full or {*before} != {*after.assigned}
    assignment = by_topic(after.assigned) if is_told else None
    return HeartbeatResult(ErrorCode.none, None, after.id, after.epoch, interval_ms, assignment)
