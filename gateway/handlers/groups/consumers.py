"""Requests about groups of Kafka 4: ConsumerGroupHeartbeat of their members, ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError
from ...consumer_groups.group import ConsumerGroup
from ...consumer_groups.heartbeat import Heartbeat, HeartbeatResult
from ...consumer_groups.member import ConsumerMember
from ...consumer_groups.partitions import Part, by_topic, text_of, uuid_of
from ...context import Context
from ...groups.coordinator import GroupCoordinator
from ...request import Request
from ...security.rules import Resource
from ..access.guards import may_describe
from ..authorized_operations import NOT_ASKED, authorized_operations
from .asking import ask, ask_each
from .members import warn

CONSUMER = "consumer"
IS_OFF = "the consumer protocol of KIP-848 is off (group.coordinator.rebalance.protocols): set group.protocol=classic"
_OWN_IDS = 1  # the first version of ConsumerGroupHeartbeat in which a member makes its id itself
_MEMBER_BYTES = 300  # approximate size of a member in an answer, without its topics and partitions
_PART_BYTES = 8
_CONSUMER_MEMBER, _CLASSIC_MEMBER = 1, 0
_REFUSED = {  # heartbeats that a person must mend
    ErrorCode.group_id_not_found,
    ErrorCode.group_max_size_reached,
    ErrorCode.invalid_regular_expression,
    ErrorCode.invalid_request,
    ErrorCode.unsupported_assignor,
}


def consumer_group_heartbeat(request: Request, context: Context) -> Mapping[str, Any] | None:
    """Answers with the member's epoch, and with its partitions if they have changed or its request is full."""
    if CONSUMER not in context.config.group_coordinator_rebalance_protocols:
        warn(request, context, f"cannot join the group {request.body.group_id!r}: {IS_OFF}")
        return {"error_code": ErrorCode.unsupported_version, "error_message": IS_OFF}
    beat = _heartbeat(request, context)

    @request.or_fail
    def done(result: HeartbeatResult) -> None:
        if result.error in _REFUSED:
            warn(request, context, f"may not join the group {beat.group!r}: {result.message}")
        request.answer(_answer(result))

    ask(request, context, lambda coordinator: coordinator.consumers.heartbeat(beat, done))
    return None


def _heartbeat(request: Request, context: Context) -> Heartbeat:
    body = request.body
    is_unnamed = request.version < _OWN_IDS and not body.member_id and body.member_epoch == 0
    owned = body.topic_partitions
    return Heartbeat(
        body.group_id,
        text_of(uuid4()) if is_unnamed else body.member_id,
        body.member_epoch,
        request.version,
        body.instance_id,
        body.rack_id,
        request.client_id or "",
        f"/{request.client_host}",
        body.rebalance_timeout // timedelta(milliseconds=1),
        body.subscribed_topic_names,
        getattr(body, "subscribed_topic_regex", None),
        body.server_assignor,
        None if owned is None else frozenset(Part(text_of(t.topic_id), each) for t in owned for each in t.partitions),
        partial(may_describe, request, context),
    )


def _answer(result: HeartbeatResult) -> Mapping[str, Any]:
    topics = result.assignment
    return {
        "error_code": result.error,
        "error_message": result.message,
        "member_id": result.member_id,
        "member_epoch": result.epoch,
        "heartbeat_interval": result.interval_ms,
        "assignment": None
        if topics is None
        else {"topic_partitions": [{**_topic(each), "partitions": each["partitions"]} for each in topics]},
    }


def _topic(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"topic_id": uuid_of(entry["topicId"])}


def describe_consumer_groups(request: Request, context: Context) -> Mapping[str, Any] | None:
    """Answers with the members of groups of Kafka 4, their current and their target assignments."""
    names = request.body.group_ids
    if CONSUMER not in context.config.group_coordinator_rebalance_protocols:
        return {"groups": [{"group_id": each, "error_code": ErrorCode.unsupported_version} for each in names]}

    def question(coordinator: GroupCoordinator, name: str, put: Callable[[Mapping[str, Any]], None]) -> None:
        @request.or_fail
        def found(error: ErrorCode, group: ConsumerGroup | None) -> None:
            text = coordinator.consumers.missing(name) if error is ErrorCode.group_id_not_found else None
            put(
                _described(request, context, name, group)
                if group is not None and not error
                else _none(name, error, text)
            )

        coordinator.consumers.describe(name, found)

    ask_each(request, context, names, question, lambda groups: context.answer(request, {"groups": groups}, len(groups)))
    return None


def _none(name: str, error: ErrorCode, text: str | None = None) -> Mapping[str, Any]:
    return {"group_id": name, "error_code": error, "error_message": text, "authorized_operations": NOT_ASKED}


def _described(request: Request, context: Context, name: str, group: ConsumerGroup) -> Mapping[str, Any]:
    try:
        request.reserve(sum(map(_bytes_of, group.members.values())))
    except RequestError as refused:
        return _none(name, refused.code)
    names = {each.id: each.name for each in context.topics.catalog().values()}
    return {
        "error_code": ErrorCode.none,
        "group_id": name,
        "group_state": group.state.value,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "assignor_name": group.assignor(context.config.consumer_assignors[0]),
        "members": [_member(each, group, names) for each in group.members.values()],
        "authorized_operations": authorized_operations(request, context, Resource.GROUP, name),
    }


def _bytes_of(member: ConsumerMember) -> int:
    return _MEMBER_BYTES + sum(map(len, member.topics)) + 2 * _PART_BYTES * len(member.assigned)


def _member(member: ConsumerMember, group: ConsumerGroup, names: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "member_id": member.id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topics,
        "subscribed_topic_regex": member.regex,
        "assignment": {"topic_partitions": _named(by_topic(member.held), names)},
        "target_assignment": {"topic_partitions": _named(by_topic(group.targets.get(member.id, ())), names)},
        "member_type": _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    }


def _named(topics: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Returns topics with their names; those that were deleted are left out, as by Kafka."""
    return [
        {**_topic(each), "topic_name": names[each["topicId"]], "partitions": each["partitions"]}
        for each in topics
        if each["topicId"] in names
    ]
