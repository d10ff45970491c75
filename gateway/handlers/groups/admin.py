"""Requests of administrators: ListGroups, DescribeGroups, DeleteGroups, OffsetDelete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ....protocol import ErrorCode
from ....storage import SINK_PREFIX, TopicPartition
from ...context import Context
from ...groups import DescribedGroup, GroupCoordinator, ListedGroup
from ...request import Request
from ...security import Resource
from ...threads import gathering
from ..access import NOT_ASKED, authorized_operations
from .asking import ask, by_topic


def list_groups(request: Request, context: Context) -> None:
    """Answers with all groups, or those in some states or of some types."""

    def done(error: ErrorCode, groups: Sequence[ListedGroup]) -> None:
        listed = [
            {"group_id": name, "protocol_type": protocol_type, "group_state": state, "group_type": type_}
            for name, protocol_type, state, type_ in groups
        ]
        request.answer({"error_code": error, "groups": listed})

    states, types = (getattr(request.body, f"{each}_filter", ()) or () for each in ("states", "types"))
    ask(request, context, lambda coordinator: coordinator.list(done, states=states, types=types))


def describe_groups(request: Request, context: Context) -> None:
    """Answers with the members of groups; a group that does not exist is Dead."""
    names = list(request.body.groups)
    put: Callable[[int, Mapping[str, Any]], None] = gathering(
        len(names), lambda groups: request.answer({"groups": groups})
    )

    def done(index: int, group: DescribedGroup) -> None:
        operations = authorized_operations(request, context, Resource.GROUP, names[index])
        answer = {
            "error_code": group.error,
            "group_id": names[index],
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
        put(index, answer)

    def describe(coordinator: GroupCoordinator) -> None:
        for index, name in enumerate(names):
            coordinator.describe(name, partial(done, index))

    ask(request, context, describe)


def delete_groups(request: Request, context: Context) -> None:
    """Answers, for each group, whether it was deleted."""
    names = list(dict.fromkeys(request.body.groups_names))

    def done(codes: Sequence[ErrorCode]) -> None:
        results = zip(names, codes, strict=True)
        request.answer({"results": [{"group_id": name, "error_code": code} for name, code in results]})

    put = gathering(len(names), done)

    def delete(coordinator: GroupCoordinator) -> None:
        for index, name in enumerate(names):
            coordinator.delete(name, partial(put, index))

    ask(request, context, delete)


def delete_offsets(request: Request, context: Context) -> None:
    """Answers, for each partition, whether the group's offset was deleted."""
    body = request.body
    asked = [TopicPartition(topic.name, each.partition_index) for topic in body.topics for each in topic.partitions]
    known = [each for each in asked if each.topic.startswith(SINK_PREFIX) or context.topics.has(each)]

    def done(error: ErrorCode, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        code_of = {} if error else {each: codes.get(each, ErrorCode.unknown_topic_or_partition) for each in asked}
        topics = by_topic((each, {"error_code": code}) for each, code in code_of.items())
        request.answer({"error_code": error, "topics": topics})

    ask(request, context, lambda coordinator: coordinator.offsets.delete(body.group_id, known, done))
