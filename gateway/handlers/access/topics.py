"""Authorization of requests about topics, their partitions and configs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ....protocol.bodies import ErrorCode
from ....storage import is_reserved
from ...security.rules import Operation, Resource
from ..configs.changes import malformed
from ..configs.resources import Resource as ConfigResource, is_of_no_kind
from ..metadata import is_legal
from .asking import DENIED, Asking, Body, parted, refused_topic

_NO_OFFSET = {"offset": -1, "timestamp": -1, "leader_epoch": -1, "end_offset": -1, "low_watermark": -1}
_NO_SETTINGS = {"num_partitions": -1, "replication_factor": -1, "configs": ()}
_HIDDEN = {**_NO_SETTINGS, "topic_config_error_code": DENIED[Resource.TOPIC]}
_NOT_OF_GROUP = {"error_code": DENIED[Resource.GROUP], "error_message": "Authorization failed."}
_NOT_OF_CLUSTER = {"error_code": DENIED[Resource.CLUSTER], "error_message": "Authorization failed."}


def partitions(asking: Asking, *, operation: Operation, topic: str = "name", part: str = "partition_index") -> None:
    """Checks topics whose partitions a request lists, and adds an error for each partition of a denied one."""
    _partitions(asking, lambda name: asking.may_topic(operation, name), topic, part)


def changed_partitions(asking: Asking, *, operation: Operation) -> None:
    """Like :func:`partitions`, for a request that changes the partitions or their data."""
    _partitions(asking, lambda name: asking.may_change(operation, name), "name", "partition_index")


def described_producers(asking: Asking) -> None:
    """Like :func:`partitions`, to READ; a name that no topic may have is left to the handler, as by ``KafkaApis``."""

    def is_allowed(name: str) -> bool:
        return not is_legal(name) or asking.may_topic(Operation.READ, name)

    _partitions(asking, is_allowed, "name", "partition_index")


def _partitions(asking: Asking, is_allowed: Callable[[str], bool], topic: str, part: str) -> None:
    allowed, denied = parted(asking.request.body.topics, lambda each: is_allowed(getattr(each, topic)))
    if denied:
        asking.narrow(topics=allowed)
        asking.add("topics", [_denied_partitions(each, topic, part) for each in denied])


def _denied_partitions(asked: Any, topic: str, part: str) -> Body:
    numbers = getattr(asked, "partition_indexes", None)
    if numbers is None:
        numbers = [getattr(each, part) for each in asked.partitions]
    name = getattr(asked, topic)
    error = {**_NO_OFFSET, "committed_offset": -1, **refused_topic(name), "active_producers": ()}
    return {topic: name, "partitions": [{part: number, **error} for number in numbers]}


def all_partitions(topics: Iterable[Any], code: ErrorCode) -> list[Body]:
    """Returns an error for each partition of some topics."""
    return [
        {
            "name": each.name,
            "partitions": [{"partition_index": one.partition_index, "error_code": code} for one in each.partitions],
        }
        for each in topics
    ]


# --- Topics by name


def metadata(asking: Asking) -> Body | None:
    """Checks topics: hides denied ones from a list of all; one that the request names gets an error."""
    body, request = asking.request.body, asking.request
    if body.topics is None or (request.version == 0 and not body.topics):
        asking.keep("topics", lambda each: asking.may_topic(Operation.DESCRIBE, each["name"]))
        return None
    topics = asking.context.topics
    there = topics.all()  # once: it looks at the files

    def is_allowed(each: Any) -> bool:
        topic_id = getattr(each, "topic_id", None)  # counts before the name
        name = each.name if topic_id is None else topics.last_name_of(topic_id)
        is_new = name is not None and name not in there and getattr(body, "allow_auto_topic_creation", True)
        creates = is_new and asking.context.config.auto_create_topics_enable
        return asking.may_topic(Operation.DESCRIBE, name) and (not creates or _may_create(asking, name))

    allowed, denied = parted(body.topics, is_allowed)
    refused = [
        {"name": each.name, "topic_id": getattr(each, "topic_id", None), "error_code": DENIED[Resource.TOPIC]}
        for each in denied
    ]
    if request.version == 0 and not allowed:  # an empty list would ask for all
        asking.narrow(topics=None)
        asking.change_answer(lambda body: {**body, "topics": refused})
        return None
    asking.narrow(topics=allowed)
    asking.add("topics", refused)
    return None


def _may_create(asking: Asking, name: str | None) -> bool:
    return asking.may(Operation.CREATE, Resource.CLUSTER) or asking.may_topic(Operation.CREATE, name)


def create_topics(asking: Asking) -> Body | None:
    """Checks topics: a client may create those that it may create by name, or all if the cluster allows CREATE.

    The answer hides the settings of those whose configs the client may not describe.
    """
    topics = asking.request.body.topics
    times = Counter(each.name for each in topics)

    def is_allowed(each: Any) -> bool:
        is_repeated = times[each.name] > 1  # the handler refuses repeated names to every client
        return is_repeated or (not is_reserved(each.name) and _may_create(asking, each.name))

    allowed, denied = parted(topics, is_allowed)
    hidden = {each.name for each in allowed if not asking.may_topic(Operation.DESCRIBE_CONFIGS, each.name)}

    def shown(answer: Body) -> Body:
        return {**answer, **_HIDDEN} if answer["name"] in hidden and not answer.get("error_code") else answer

    asking.narrow(topics=allowed)
    asking.change_answer(lambda body: {**body, "topics": [shown(each) for each in body["topics"]]})
    asking.add("topics", [{"name": each.name, **refused_topic(each.name), **_NO_SETTINGS} for each in denied])
    return None


def delete_topics(asking: Asking) -> Body | None:
    """Checks topics by name or id."""
    body, topics = asking.request.body, asking.context.topics
    if asking.request.version < 6:
        names, refused = parted(body.topic_names, lambda each: asking.may_change(Operation.DELETE, each))
        asking.narrow(topic_names=names)
        asking.add("responses", [{"name": each, **refused_topic(each)} for each in refused])
        return None

    def name_of(each: Any) -> str | None:
        return each.name if each.name is not None or each.topic_id is None else topics.name_of(each.topic_id)

    allowed, denied = parted(body.topics, lambda each: asking.may_change(Operation.DELETE, name_of(each)))
    asking.narrow(topics=allowed)
    refusals = [{"name": e.name, "topic_id": e.topic_id, **refused_topic(name_of(e))} for e in denied]
    asking.add("responses", refusals)
    return None


def create_partitions(asking: Asking) -> Body | None:
    """Checks topics by name."""
    allowed, denied = parted(asking.request.body.topics, lambda each: asking.may_change(Operation.ALTER, each.name))
    asking.narrow(topics=allowed)
    asking.add("results", [{"name": each.name, **refused_topic(each.name)} for each in denied])
    return None


def configs(asking: Asking, *, operation: Operation, field: str) -> Body | None:
    """Checks topics and groups for their configs, and the cluster for those of nodes."""

    may = asking.may_change if operation is Operation.ALTER_CONFIGS else asking.may_topic

    resources = asking.request.body.resources
    if operation is Operation.DESCRIBE_CONFIGS:
        if any(map(is_of_no_kind, resources)):  # the handler refuses all
            return None
        reason_of: Callable[[Any], str | None] = lambda _: None  # noqa: E731
    else:
        reason_of = malformed(resources)

    def is_allowed(each: Any) -> bool:
        if reason_of(each) is not None:  # the handler refuses it to all
            return True
        if each.resource_type == ConfigResource.TOPIC:
            return may(operation, each.resource_name)
        if each.resource_type == ConfigResource.GROUP:
            return asking.may(operation, Resource.GROUP, each.resource_name)
        return asking.may(operation, Resource.CLUSTER)

    allowed, denied = parted(resources, is_allowed)
    asking.narrow(resources=allowed)
    refused = []
    for each in denied:
        head = {"resource_type": each.resource_type, "resource_name": each.resource_name}
        refused.append({**head, **_refused_configs(each), "configs": ()})
    asking.add(field, refused)
    return None


def _refused_configs(asked: Any) -> Body:
    if asked.resource_type == ConfigResource.TOPIC:
        return refused_topic(asked.resource_name)
    return _NOT_OF_GROUP if asked.resource_type == ConfigResource.GROUP else _NOT_OF_CLUSTER


def log_dirs(asking: Asking) -> Body | None:
    """Checks the cluster: only clients that may describe it see the sizes of topics."""
    if asking.may(Operation.DESCRIBE, Resource.CLUSTER):
        return None
    return {"error_code": DENIED[Resource.CLUSTER], "results": ()}
