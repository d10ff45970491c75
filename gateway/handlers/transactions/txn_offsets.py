"""TxnOffsetCommit: offsets of a group that count once the transaction is committed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ....protocol.bodies import ErrorCode, by_topic
from ....protocol.errors import RequestError
from ....storage import GROUP_METADATA_TOPIC, Producer, TopicPartition
from ...context import Context
from ...groups.offsets import Commit
from ...request import Request
from ...transactions.gate import known_before
from ..groups.committed import asked_offsets
from .producers import ask

_ABORTABLE = 4  # the first version that knows TRANSACTION_ABORTABLE


def commit_transactional_offsets(request: Request, context: Context) -> None:
    """Writes offsets in the open transaction of a producer; those of partitions that do not exist are refused."""
    body = request.body
    asked = asked_offsets(body, context.clock.now_ms())
    exists = context.topics.existence()
    known = {each: value for each, value in asked.items() if exists(each)}
    commit = Commit(
        body.group_id,
        getattr(body, "generation_id", -1),
        getattr(body, "member_id", ""),
        getattr(body, "group_instance_id", None),
        known,
    )
    producer = Producer(body.producer_id, body.producer_epoch)

    @request.or_fail
    def done(codes: Mapping[TopicPartition, ErrorCode]) -> None:
        code_of = {each: codes.get(each, ErrorCode.unknown_topic_or_partition) for each in asked}
        request.answer({"topics": by_topic((each, {"error_code": code}) for each, code in code_of.items())})

    @request.or_fail
    def loaded(error: ErrorCode, home: TopicPartition | None) -> None:
        if error or home is None:
            done(dict.fromkeys(known, error))
            return
        check = partial(_check, request, context, producer, home)
        context.groups.run(lambda groups: groups.offsets.commit_transactional(commit, producer, check, done))

    if known and not context.transactions.homes.has(body.transactional_id):  # another node coordinates the transaction
        loaded(ErrorCode.none, TopicPartition(GROUP_METADATA_TOPIC, context.groups.homes.home_of(body.group_id)))
    elif known:
        ask(
            request,
            context,
            lambda coordinator: coordinator.find_group(body.transactional_id, body.group_id, loaded),
        )
    else:
        done({})


def _check(request: Request, context: Context, producer: Producer, home: TopicPartition) -> None:
    try:
        context.transactions.gate.check(request.body.transactional_id, producer, home)
    except RequestError as error:
        if error.code is ErrorCode.not_enough_replicas:
            raise RequestError(ErrorCode.coordinator_not_available, str(error)) from None
        raise error if request.version >= _ABORTABLE else known_before(error) from None
