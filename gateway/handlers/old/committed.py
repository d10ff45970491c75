"""OffsetCommit and OffsetFetch of version 0: offsets in the registry, where consumers that used ZooKeeper keep them.

Later versions keep them in the log. As on a broker, the two may have different offsets for a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....protocol.bodies import ErrorCode, by_topic
from ....protocol.errors import RequestError, code_of
from ....registry import kafka_nodes
from ....registry.errors import InvalidPathError
from ....registry.operations import put
from ....registry.port import checked_path
from ....storage import TopicPartition
from ...context import Context
from ...request import Request

_UNKNOWN = {"committed_offset": -1, "metadata": "", "error_code": ErrorCode.unknown_topic_or_partition}


def commit_to_registry(request: Request, context: Context) -> None:
    """Commits offsets. The client's metadata is not kept, as on a broker."""
    asked = {
        TopicPartition(topic.name, each.partition_index): each
        for topic in request.body.topics
        for each in topic.partitions
    }

    exists = context.topics.existence()

    def commit(partition: TopicPartition) -> Mapping[str, Any]:
        each = asked[partition]
        if not exists(partition):
            return {"error_code": ErrorCode.unknown_topic_or_partition}
        if len(each.committed_metadata or "") > context.config.offset_metadata_max_bytes:
            return {"error_code": ErrorCode.offset_metadata_too_large}
        path = _path(request, partition)
        put(context.registry, path, str(each.committed_offset).encode())
        return {"error_code": ErrorCode.none}

    _answer(request, context, list(asked), commit)


def fetch_from_registry(request: Request, context: Context) -> None:
    """Answers with committed offsets; a partition without one gets UNKNOWN_TOPIC_OR_PARTITION, as on a broker."""

    exists = context.topics.existence()

    def fetch(partition: TopicPartition) -> Mapping[str, Any]:
        if not exists(partition):
            return _UNKNOWN
        found = context.registry.find(_path(request, partition))
        if found is None or not found.data:
            return _UNKNOWN
        return {**_UNKNOWN, "committed_offset": int(found.data), "error_code": ErrorCode.none}

    asked = [TopicPartition(topic.name, each) for topic in request.body.topics for each in topic.partition_indexes]
    _answer(request, context, asked, fetch)


def _path(request: Request, partition: TopicPartition) -> str:
    """Returns the path of a committed offset.

    Raises RequestError for a group whose nodes were those of another, or that no node can have, as a broker answers.
    """
    group: str = request.body.group_id
    if "/" in group:
        raise RequestError(ErrorCode.invalid_group_id)
    try:
        return checked_path(kafka_nodes.offset_path(group, *partition))
    except InvalidPathError as error:
        raise RequestError(ErrorCode.unknown_server_error) from error


def _answer(
    request: Request,
    context: Context,
    partitions: list[TopicPartition],
    task: Callable[[TopicPartition], Mapping[str, Any]],
) -> None:
    """Answers with the result of ``task`` for each partition; it runs in the thread that may wait for ZooKeeper."""

    def result(partition: TopicPartition) -> Mapping[str, Any]:
        try:
            return task(partition)
        except Exception as error:
            return {**_UNKNOWN, "error_code": code_of(error)}

    context.workers.registrar.run(
        lambda: request.answer({"topics": by_topic((each, result(each)) for each in partitions)})
    )
