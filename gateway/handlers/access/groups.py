"""Authorization of requests about groups and their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ....protocol.bodies import ErrorCode
from ...security.rules import Operation, Resource
from .asking import DENIED, Asking, Body, parted
from .topics import all_partitions, changed_partitions, partitions


def group(asking: Asking, *, operation: Operation) -> Body | None:
    """Checks one group, for the whole request."""
    is_allowed = asking.may(operation, Resource.GROUP, asking.request.body.group_id)
    return None if is_allowed else {"error_code": DENIED[Resource.GROUP]}


def consumer_heartbeat(asking: Asking) -> Body | None:
    """Checks a group, and the topics to which a member subscribes by name."""
    refused = group(asking, operation=Operation.READ)
    names = asking.request.body.subscribed_topic_names or ()
    if refused is None and not all(asking.may_topic(Operation.DESCRIBE, each) for each in names):
        refused = {"error_code": DENIED[Resource.TOPIC]}
    return refused


def describe_consumers(asking: Asking) -> Body | None:
    """Checks groups by id; one whose members read a topic that the client may not see is refused, as by Kafka."""
    refused = several(asking, operation=Operation.DESCRIBE, asked="group_ids", answer="groups")

    def shown(described: Body) -> Body:
        members = described.get("members", ())
        assigned = [each[what]["topic_partitions"] for each in members for what in ("assignment", "target_assignment")]
        names = {topic["topic_name"] for topics in assigned for topic in topics}
        names.update(name for each in members for name in each["subscribed_topic_names"])
        if all(asking.may_topic(Operation.DESCRIBE, name) for name in names):
            return described
        text = "The group has described topic(s) that the client is not authorized to describe."
        return {"group_id": described["group_id"], "error_code": DENIED[Resource.TOPIC], "error_message": text}

    asking.change_answer(lambda answer: {**answer, "groups": [shown(each) for each in answer["groups"]]})
    return refused


def commit_offsets(asking: Asking) -> Body | None:
    """Checks a group, and the topics whose offsets are named."""
    body = asking.request.body
    if not asking.may(Operation.READ, Resource.GROUP, body.group_id):
        return {"topics": all_partitions(body.topics, DENIED[Resource.GROUP])}
    changed_partitions(asking, operation=Operation.READ)
    return None


def delete_offsets(asking: Asking) -> Body | None:
    """Checks a group, and the topics whose offsets are named; an error of the group is reported without them."""
    refused = group(asking, operation=Operation.DELETE)
    if refused is None:
        partitions(asking, operation=Operation.READ)
        asking.change_answer(lambda answer: {**answer, "topics": ()} if answer["error_code"] else answer)
    return refused


_SEVERAL_GROUPS = 8  # the first version of OffsetFetch that can ask for several groups


def fetch_offsets(asking: Asking) -> Body | None:
    """Checks groups and topics: hides denied topics, or gives those that are named an error."""
    body = asking.request.body
    if asking.request.version < _SEVERAL_GROUPS:
        return _fetch_offsets_of_one(asking)
    allowed, denied = parted(body.groups, lambda each: asking.may(Operation.DESCRIBE, Resource.GROUP, each.group_id))
    shown = {each.group_id: parted(each.topics or (), partial(_may_describe, asking)) for each in allowed}
    asking.narrow(
        groups=tuple(each if each.topics is None else replace(each, topics=shown[each.group_id][0]) for each in allowed)
    )
    refused = [{"group_id": each.group_id, "topics": (), "error_code": DENIED[Resource.GROUP]} for each in denied]

    def amended(answer: Body) -> Body:
        groups = [{**each, "topics": _shown(asking, each, shown[each["group_id"]][1])} for each in answer["groups"]]
        return {**answer, "groups": [*groups, *refused]}

    asking.change_answer(amended)
    return None


def _fetch_offsets_of_one(asking: Asking) -> Body | None:
    body = asking.request.body
    if not asking.may(Operation.DESCRIBE, Resource.GROUP, body.group_id):
        topics = [_with_code(each, DENIED[Resource.GROUP]) for each in body.topics or ()]
        return {"error_code": DENIED[Resource.GROUP], "topics": topics if asking.request.version < 2 else ()}
    allowed, denied = parted(body.topics or (), partial(_may_describe, asking))
    if body.topics is not None:
        asking.narrow(topics=allowed)
    asking.change_answer(lambda answer: {**answer, "topics": _shown(asking, answer, denied)})
    return None


def _may_describe(asking: Asking, topic: Any) -> bool:
    return asking.may_topic(Operation.DESCRIBE, topic.name)


def _shown(asking: Asking, answer: Body, denied: Sequence[Any]) -> list[Body]:
    """Returns the topics of an answer that the client may see, and errors for those that it named but may not see."""
    shown = [each for each in answer.get("topics", ()) if asking.may_topic(Operation.DESCRIBE, each["name"])]
    return [*shown, *(_with_code(each, DENIED[Resource.TOPIC]) for each in denied)]


def _with_code(topic: Any, code: ErrorCode) -> Body:
    nothing = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": "", "error_code": code}
    return {
        "name": topic.name,
        "partitions": [{"partition_index": number, **nothing} for number in topic.partition_indexes],
    }


def several(asking: Asking, *, operation: Operation, asked: str, answer: str) -> Body | None:
    """Checks groups by id."""
    groups = getattr(asking.request.body, asked)
    allowed, denied = parted(groups, lambda each: asking.may(operation, Resource.GROUP, each))
    asking.narrow(**{asked: allowed})
    asking.add(answer, [{"group_id": each, "error_code": DENIED[Resource.GROUP]} for each in denied])
    return None


def list_groups(asking: Asking) -> Body | None:
    """Shows all groups to clients that may describe the cluster, and to others the groups that they may describe."""
    if not asking.may(Operation.DESCRIBE, Resource.CLUSTER):
        asking.keep("groups", lambda each: asking.may(Operation.DESCRIBE, Resource.GROUP, each["group_id"]))
    return None


def find_coordinator(asking: Asking) -> Body | None:
    """Checks groups or transactional ids."""
    body = asking.request.body
    resource = Resource.TRANSACTIONAL_ID if getattr(body, "key_type", 0) == 1 else Resource.GROUP
    nowhere = {"node_id": -1, "host": "", "port": -1, "error_code": DENIED[resource], "error_message": ""}
    if hasattr(body, "key"):
        return None if asking.may(Operation.DESCRIBE, resource, body.key) else nowhere
    allowed, denied = parted(body.coordinator_keys, lambda each: asking.may(Operation.DESCRIBE, resource, each))
    asking.narrow(coordinator_keys=allowed)
    asking.add("coordinators", [{"key": each, **nowhere} for each in denied])
    return None
