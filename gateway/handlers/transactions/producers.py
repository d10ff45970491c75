"""Requests of transactional producers: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from ....protocol.bodies import ErrorCode
from ....storage import Producer, TopicPartition
from ...context import Context
from ...request import Request
from ...transactions.coordinator import TransactionCoordinator
from ..access.transactions import added, not_added

NO_PRODUCER = -1
_FENCED_INIT, _FENCED = 4, 2  # first versions with PRODUCER_FENCED: of InitProducerId, of the others


def ask(
    request: Request, context: Context, task: Callable[[TransactionCoordinator], None], is_patient: bool = False
) -> None:
    """Runs ``task``, which answers the request at once or later, in the coordinator's thread."""
    context.transactions.run(request.or_fail(task), is_patient=is_patient)


def _known(request: Request, error: ErrorCode, first: int = _FENCED) -> ErrorCode:
    """Returns the code for versions before ``first``, which do not know PRODUCER_FENCED."""
    is_new = error is ErrorCode.producer_fenced and request.version < first
    return ErrorCode.invalid_producer_epoch if is_new else error


def init_transactions(request: Request, context: Context) -> None:
    """Answers with the new producer of a transactional id, and fences earlier ones with this id."""
    body = request.body
    timeout_ms = body.transaction_timeout // timedelta(milliseconds=1)
    own = Producer(getattr(body, "producer_id", NO_PRODUCER), getattr(body, "producer_epoch", NO_PRODUCER))
    expected = None if own.id == NO_PRODUCER else own

    @request.or_fail
    def done(error: ErrorCode, producer: Producer | None) -> None:
        request.answer(initialised(_known(request, error, _FENCED_INIT), producer))

    ask(
        request,
        context,
        lambda coordinator: coordinator.init_producer_id(body.transactional_id, timeout_ms, expected, done),
    )


def initialised(error: ErrorCode, producer: Producer | None = None) -> dict[str, Any]:
    """Returns the answer to InitProducerId; None: no producer, because of the error."""
    found = producer or Producer(NO_PRODUCER, NO_PRODUCER)
    return {"error_code": error, "producer_id": found.id, "producer_epoch": found.epoch}


def add_partitions(request: Request, context: Context) -> None:
    """Adds all partitions to a transaction, or none if one does not exist."""
    body = request.body
    topics = body.v3_and_below_topics
    refused = not_added(topics, context.topics.existence())
    if refused:
        request.answer(added(refused))
        return
    asked = dict.fromkeys(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)

    @request.or_fail
    def done(error: ErrorCode) -> None:
        request.answer(added(dict.fromkeys(asked, _known(request, error))))

    producer = Producer(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch)
    name = body.v3_and_below_transactional_id
    ask(request, context, lambda coordinator: coordinator.add_partitions(name, producer, asked, done))


def add_offsets(request: Request, context: Context) -> None:
    """Adds the partition of a group's offsets to a transaction."""
    body, done = request.body, request.or_fail(partial(_answer, request))
    producer = Producer(body.producer_id, body.producer_epoch)
    ask(
        request,
        context,
        lambda coordinator: coordinator.add_group(body.transactional_id, producer, body.group_id, done),
    )


def _answer(request: Request, error: ErrorCode) -> None:
    request.answer({"error_code": _known(request, error)})


def end_transaction(request: Request, context: Context) -> None:
    """Commits or aborts a transaction; answers when readers of committed records see the result."""
    body, done = request.body, request.or_fail(partial(_answer, request))
    producer = Producer(body.producer_id, body.producer_epoch)
    ask(
        request,
        context,
        lambda coordinator: coordinator.end(body.transactional_id, producer, done, commit=body.committed),
    )
