"""Requests of administrators: ListGroups, DescribeGroups, DeleteGroups, OffsetDelete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....protocol.bodies import ErrorCode, by_topic
from ....protocol.errors import RequestError
from ....storage import SINK_PREFIX, TopicPartition
from ...context import Context
from ...groups.coordinator import DescribedGroup, GroupCoordinator, ListedGroup
from ...request import Request
from ...security.rules import Resource
from ..authorized_operations import NOT_ASKED, authorized_operations
from .asking import ask, ask_each

_MEMBER_BYTES = 200  # approximate size of a member in an answer, without its metadata


def list_groups(request: Request, context: Context) -> None:
    """Answers with all groups, or those in some states or of some types."""

    @request.or_fail
    def done(error: ErrorCode, groups: Sequence[ListedGroup]) -> None:
        listed = [
            {"group_id": name, "protocol_type": protocol_type, "group_state": state, "group_type": type_}
            for name, protocol_type, state, type_ in groups
        ]
        context.answer(request, {"error_code": error, "groups": listed}, len(listed))

    states, types = (getattr(request.body, f"{each}_filter", ()) or () for each in ("states", "types"))
    ask(request, context, lambda coordinator: coordinator.list(done, states=states, types=types))


def describe_groups(request: Request, context: Context) -> None:
    """Answers with the members of groups; a group that does not exist is Dead."""
    names = request.body.groups

    def question(coordinator: GroupCoordinator, name: str, put: Callable[[Mapping[str, Any]], None]) -> None:
        coordinator.describe(name, request.or_fail(lambda group: put(_described(request, context, name, group))))

    ask_each(request, context, names, question, lambda groups: context.answer(request, {"groups": groups}, len(groups)))


def _described(request: Request, context: Context, name: str, group: DescribedGroup) -> Mapping[str, Any]:
    try:
        request.reserve(sum(_MEMBER_BYTES + len(each.metadata) + len(each.assignment) for each in group.members))
    except RequestError as error:
        return {"group_id": name, "error_code": error.code}
    operations = authorized_operations(request, context, Resource.GROUP, name)
    return {
        "error_code": group.error,
        "group_id": name,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": each.id,
                "group_instance_id": each.instance_id,
                "client_id": each.client_id,
                "client_host": each.client_host,
                "member_metadata": each.metadata,
                "member_assignment": each.assignment,
            }
            for each in group.members
        ],
        "authorized_operations": NOT_ASKED if group.error else operations,
    }


def delete_groups(request: Request, context: Context) -> None:
    """Answers, for each group, whether it was deleted."""
    names = request.body.groups_names

    def done(codes: Sequence[ErrorCode]) -> None:
        results = [{"group_id": name, "error_code": code} for name, code in zip(names, codes, strict=True)]
        context.answer(request, {"results": results}, len(results))

    ask_each(request, context, names, GroupCoordinator.delete, done)


def delete_offsets(request: Request, context: Context) -> None:
    """Answers, for each partition, whether the group's offset was deleted."""
    body = request.body
    asked = [TopicPartition(topic.name, each.partition_index) for topic in body.topics for each in topic.partitions]
    exists = context.topics.existence()
    known = [each for each in asked if each.topic.startswith(SINK_PREFIX) or exists(each)]

    @request.or_fail
    def done(error: ErrorCode, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        code_of = {} if error else {each: codes.get(each, ErrorCode.unknown_topic_or_partition) for each in asked}
        topics = by_topic((each, {"error_code": code}) for each, code in code_of.items())
        request.answer({"error_code": error, "topics": topics})

    ask(request, context, lambda coordinator: coordinator.offsets.delete(body.group_id, known, done))
