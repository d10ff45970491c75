"""Requests about offsets: OffsetCommit, OffsetFetch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ....protocol.bodies import ErrorCode, by_topic
from ....protocol.errors import RequestError
from ....storage import OffsetCommitValue, TopicPartition
from ...context import Context
from ...groups.coordinator import GroupCoordinator
from ...groups.offsets import Commit, Fetched
from ...request import Request
from ..old.committed import commit_to_registry, fetch_from_registry
from .asking import ask, ask_each

IN_REGISTRY = 0  # in this version of both kinds of request, offsets are in the registry, if the nodes share one
NO_OFFSET = NO_TIMESTAMP = -1
NO_EPOCH = NO_GENERATION = -1
_OFFSET_BYTES = 20
_OWN_RETENTION = range(2, 5)  # versions of OffsetCommit in which a client can say how long its offsets are kept
_FETCH_ERROR, _FETCH_SEVERAL = 2, 8  # first versions of OffsetFetch with an error of the whole, with several groups


def commit_offsets(request: Request, context: Context) -> None:
    """Commits offsets; those of partitions that do not exist are refused."""
    if request.version == IN_REGISTRY and not context.is_remote:
        commit_to_registry(request, context)
        return
    body, now_ms = request.body, context.clock.now_ms()
    expire_ms = _expire_ms(request, now_ms)
    asked = asked_offsets(body, now_ms, expire_ms)
    exists = context.topics.existence()
    known = {each: value for each, value in asked.items() if exists(each)}
    instance_id = getattr(body, "group_instance_id", None)
    generation = getattr(body, "generation_id_or_member_epoch", NO_GENERATION)
    commit = Commit(body.group_id, generation, getattr(body, "member_id", ""), instance_id, known, request.version)

    @request.or_fail
    def done(codes: Mapping[TopicPartition, ErrorCode]) -> None:
        code_of = {each: codes.get(each, ErrorCode.unknown_topic_or_partition) for each in asked}
        request.answer({"topics": by_topic((each, {"error_code": code}) for each, code in code_of.items())})

    if known:
        ask(request, context, lambda coordinator: coordinator.offsets.commit(commit, done))
    else:
        done({})


def asked_offsets(body: Any, now_ms: int, expire_ms: int = NO_TIMESTAMP) -> dict[TopicPartition, OffsetCommitValue]:
    """Returns the offsets that a request commits; ``expire_ms``: the time when they expire, -1 for the default rule."""
    return {
        TopicPartition(topic.name, each.partition_index): OffsetCommitValue(
            each.committed_offset,
            each.committed_metadata or "",
            _commit_ms(each, now_ms),
            getattr(each, "committed_leader_epoch", NO_EPOCH),
            expire_ms,
        )
        for topic in body.topics
        for each in topic.partitions
    }


def _commit_ms(asked: Any, now_ms: int) -> int:
    """Returns the time of a commit in ms: ``now_ms``, unless the client states one (version 1 of OffsetCommit)."""
    given: int = getattr(asked, "commit_timestamp", NO_TIMESTAMP)
    return now_ms if given == NO_TIMESTAMP else given


def _expire_ms(request: Request, now_ms: int) -> int:
    if request.version not in _OWN_RETENTION:
        return NO_TIMESTAMP
    retention_ms: int = request.body.retention_time // timedelta(milliseconds=1)
    return NO_TIMESTAMP if retention_ms < 0 else now_ms + retention_ms


def fetch_offsets(request: Request, context: Context) -> None:
    """Answers with the committed offsets of groups."""
    if request.version == IN_REGISTRY and not context.is_remote:
        fetch_from_registry(request, context)
        return
    body = request.body
    is_stable = getattr(body, "require_stable", False)

    def question(coordinator: GroupCoordinator, group: Any, put: Callable[[Mapping[str, Any]], None]) -> None:
        def done(error: ErrorCode, found: Fetched) -> None:
            put(_fetched(request, group, error, found))

        member = getattr(group, "member_id", None), getattr(group, "member_epoch", NO_EPOCH)
        wanted = _wanted(group)
        coordinator.offsets.fetch(
            group.group_id, wanted, request.or_fail(done), require_stable=is_stable, member=member
        )

    def answer(several: Sequence[Mapping[str, Any]]) -> None:
        offsets = sum(len(topic["partitions"]) for each in several for topic in each["topics"])
        found = {"groups": several} if request.version >= _FETCH_SEVERAL else several[0]
        context.answer(request, found, len(several) + offsets)

    ask_each(request, context, body.groups if request.version >= _FETCH_SEVERAL else [body], question, answer)


def _wanted(group: Any) -> Sequence[TopicPartition] | None:
    if group.topics is None:
        return None
    return [TopicPartition(topic.name, each) for topic in group.topics for each in topic.partition_indexes]


def _fetched(request: Request, group: Any, error: ErrorCode, found: Fetched) -> Mapping[str, Any]:
    """Returns the answer for one group. Versions without a field for the group's error get it in each partition."""
    version = request.version
    try:
        request.reserve(sum(map(_bytes_of, found.values())))
    except RequestError as refused:
        error, found = refused.code, {}
    if error and version < _FETCH_ERROR:
        found = dict.fromkeys(_wanted(group) or (), error)
    if version == IN_REGISTRY:  # in this version, a partition without an offset is unknown
        unknown = ErrorCode.unknown_topic_or_partition
        found = {each: unknown if value is None else value for each, value in found.items()}
    topics = [*by_topic((each, _offset(value)) for each, value in found.items())]
    if not error:  # a topic of which no partition is asked for
        topics += [{"name": each.name, "partitions": ()} for each in group.topics or () if not each.partition_indexes]
    return {"group_id": group.group_id, "topics": topics, "error_code": error}


def _bytes_of(value: OffsetCommitValue | ErrorCode | None) -> int:
    """Returns about how many bytes of an answer an offset takes, without the name of its topic."""
    return _OFFSET_BYTES + (len(value.metadata) if isinstance(value, OffsetCommitValue) else 0)


def _offset(value: OffsetCommitValue | ErrorCode | None) -> Mapping[str, Any]:
    if isinstance(value, OffsetCommitValue):
        return {
            "committed_offset": value.offset,
            "committed_leader_epoch": value.leader_epoch,
            "metadata": value.metadata,
            "error_code": ErrorCode.none,
        }
    code = ErrorCode.none if value is None else value
    return {"committed_offset": NO_OFFSET, "committed_leader_epoch": NO_EPOCH, "metadata": "", "error_code": code}
