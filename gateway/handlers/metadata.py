"""Metadata: topics, partitions and their leaders; creates topics that clients ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError, code_of
from ...storage import InvalidTopicError, LogManager, LogStoreError, TopicExistsError, check_topic_name
from ..cluster.view import NOBODY
from ..context import Context, Mutations
from ..partitions.topics import TopicInfo
from ..request import Request
from ..security.rules import Resource
from .authorized_operations import NOT_ASKED, authorized_operations
from .cluster import nodes
from .epochs import leader_epoch

FEW_MAX = 100  # topics that the thread of administrators creates, which takes a third of a second
ALWAYS_STRICT = 0  # an exhausted quota refuses in all versions, as a broker asks its controller by a new CreateTopics
IDS_FROM = 12  # the first version in which topics may be asked for by id


def metadata(request: Request, context: Context) -> Mapping[str, Any] | None:
    """Answers with the topics asked for; null means all topics, and so does an empty list in version 0."""
    body = request.body
    asked: Sequence[Any] | None = body.topics
    if asked is None or (request.version == 0 and not asked):
        topics = context.topics.all().values()
        partitions = sum(len(topic.partitions) for topic in topics)
        context.answer_with(
            request, lambda: _answer(request, context, [_found(topic, context) for topic in topics]), partitions
        )
        return None
    if request.version < IDS_FROM and any(each.name is None or getattr(each, "topic_id", None) for each in asked):
        return _refused(asked)
    once = {(each.name, getattr(each, "topic_id", None)): each for each in asked}
    _answer_named(request, context, tuple(once.values()))
    return None


def _answer_named(request: Request, context: Context, asked: Sequence[Any]) -> None:
    """Answers with topics that were named, each once; creates those that are missing, if the client wants that."""
    names, there = [name for each in asked if (name := _name(each)) is not None], context.topics.all()
    known = {name: there[name] for name in names if name in there}
    missing = [name for name in names if name not in known]
    creates = context.config.auto_create_topics_enable and getattr(request.body, "allow_auto_topic_creation", True)

    def answer(errors: Mapping[str, ErrorCode]) -> Mapping[str, Any]:
        there = context.topics.all()  # once: it looks at the files
        return _answer(request, context, [_described(each, there, context, errors) for each in asked])

    mutations = context.mutations(request, ALWAYS_STRICT)

    def create(manager: LogManager, name: str) -> tuple[str, ErrorCode | None]:
        return name, _create(manager, context, name, mutations)

    if missing and creates:
        worker = context.workers.admin if len(missing) <= FEW_MAX else context.workers.creations
        worker.answer_each(
            request, missing, create, lambda made: answer({name: error for name, error in made if error is not None})
        )
    else:
        partitions = sum(len(topic.partitions) for topic in known.values())
        context.answer_with(request, lambda: answer({}), partitions + len(asked))


def _refused(asked: Sequence[Any]) -> Mapping[str, Any]:
    """Returns the answer to a request by ids in a version without ids; the connection stays for a retry."""
    code = ErrorCode.invalid_request
    topics = [{"error_code": code, "name": each.name or "", "topic_id": each.topic_id} for each in asked]
    return {"controller_id": NOBODY, "topics": topics}


def _name(asked: Any) -> str | None:
    """Returns the name in a request; None if it has an id, which then counts instead."""
    return None if getattr(asked, "topic_id", None) else asked.name


def _create(manager: LogManager, context: Context, name: str, mutations: Mutations) -> ErrorCode | None:
    if not is_legal(name):
        return ErrorCode.invalid_topic_exception
    partitions = context.config.partitions_of(name)
    try:
        mutations.record(partitions)
        manager.create_topic(name, partitions=partitions)
    except TopicExistsError:  # another client was faster, or created a name that differs only in a dot
        return None if context.topics.find(name) is not None else ErrorCode.invalid_topic_exception
    except RequestError:  # the quota is used up: the client waits and asks again, as for a topic that is being created
        return ErrorCode.unknown_topic_or_partition
    except (LogStoreError, OSError) as error:
        return code_of(error)
    return None


def _described(
    asked: Any, there: Mapping[str, TopicInfo], context: Context, errors: Mapping[str, ErrorCode]
) -> Mapping[str, Any]:
    """Returns one topic of the answer, or its error."""
    name, topic_id = _name(asked), getattr(asked, "topic_id", None)
    if name is None:
        found = None if topic_id is None else context.topics.last_name_of(topic_id)
        topic = None if found is None else there.get(found)
        if topic is None:
            return {"error_code": ErrorCode.unknown_topic_id, "name": None, "topic_id": topic_id}
        return _found(topic, context)
    topic = there.get(name)
    if topic is None:
        return {"error_code": errors.get(name, _missing(name)), "name": name}
    return _found(topic, context)


def _missing(name: str) -> ErrorCode:
    return ErrorCode.unknown_topic_or_partition if is_legal(name) else ErrorCode.invalid_topic_exception


def is_legal(name: str) -> bool:
    """Whether Kafka allows a topic of this name."""
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


def _found(topic: TopicInfo, context: Context) -> Mapping[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(topic.name, number, context) for number in topic.partitions],
    }


def _partition(topic: str, number: int, context: Context) -> Mapping[str, Any]:
    node = context.cluster.leader(topic, number).node
    nodes = () if node == NOBODY else (node,)
    return {
        "error_code": ErrorCode.none if nodes else ErrorCode.leader_not_available,
        "partition_index": number,
        "leader_id": node,
        "leader_epoch": leader_epoch(topic, number, context),
        "replica_nodes": nodes,
        "isr_nodes": nodes,
    }


def _answer(request: Request, context: Context, topics: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {
        "brokers": nodes(request, context, "node_id"),
        "cluster_id": context.cluster_id,
        "controller_id": context.cluster.controller,
        "topics": [{**each, "topic_authorized_operations": _operations(request, context, each)} for each in topics],
        "cluster_authorized_operations": authorized_operations(request, context, Resource.CLUSTER, kind="cluster_"),
    }


def _operations(request: Request, context: Context, topic: Mapping[str, Any]) -> int:
    if topic["name"] is None:
        return NOT_ASKED
    return authorized_operations(request, context, Resource.TOPIC, topic["name"], kind="topic_")
