"""Requests of administrators about transactions: DescribeTransactions, ListTransactions, WriteTxnMarkers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError, code_of
from ....storage import (
    Log,
    Producer,
    TopicPartition,
    TransactionCoordinatorFencedError,
    TransactionLogValue,
    TransactionState,
    is_of_driver,
    ungrouped,
)
from ...context import Context
from ...request import Request
from ...threads.answers import Turns, gathering
from ...transactions.coordinator import TransactionCoordinator
from .producers import ask


def state_name(state: TransactionState) -> str:
    """Returns Kafka's name of a state, such as PrepareCommit."""
    return state.name.title().replace("_", "")


_STATES = {state_name(each): each for each in TransactionState}


def list_transactions(request: Request, context: Context) -> None:
    """Answers with transactional ids, their producers and states."""
    body = request.body
    unknown = [each for each in body.state_filters if each not in _STATES]
    states = {_STATES[each] for each in body.state_filters if each in _STATES}

    @request.or_fail
    def done(error: ErrorCode, found: Collection[tuple[str, TransactionLogValue]]) -> None:
        listed = [
            {
                "transactional_id": name,
                "producer_id": value.producer_id,
                "transaction_state": state_name(value.transaction_status),
            }
            for name, value in sorted(found, key=lambda each: each[0])
        ]
        body = {"error_code": error, "unknown_state_filters": unknown, "transaction_states": listed}
        context.answer(request, body, len(listed))

    if body.state_filters and not states:
        done(ErrorCode.none, ())
        return
    ask(
        request,
        context,
        lambda coordinator: coordinator.list(
            done,
            states=states,
            producer_ids=frozenset(body.producer_id_filters),
            older_than_ms=getattr(body, "duration_filter", -1),
        ),
    )


def describe_transactions(request: Request, context: Context) -> None:
    """Answers with the state of each transactional id, and the partitions of its open transaction."""

    def question(coordinator: TransactionCoordinator, name: str, put: Callable[[Mapping[str, Any]], None]) -> None:
        def done(error: ErrorCode, value: TransactionLogValue | None) -> None:
            put({"transactional_id": name, "error_code": error, **_described(value)})

        coordinator.describe(name, request.or_fail(done))

    def answer(states: Sequence[Mapping[str, Any]]) -> None:
        context.answer(request, {"transaction_states": states}, len(states))

    names = request.body.transactional_ids
    Turns(partial(ask, request, context), names, question, request.or_fail(answer)).start()


def _described(value: TransactionLogValue | None) -> Mapping[str, Any]:
    if value is None:
        return {}
    topics: dict[str, list[int]] = {}
    for each in ungrouped(value):
        topics.setdefault(each.topic, []).append(each.partition)
    return {
        "transaction_state": state_name(value.transaction_status),
        "transaction_timeout": value.transaction_timeout_ms,
        "transaction_start_time": value.transaction_start_timestamp_ms,
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
    }


def write_markers(request: Request, context: Context) -> None:
    """Writes markers, which administrators use to end a hanging transaction; answers when they are synced."""
    markers = request.body.markers
    asked = dict.fromkeys(
        (index, TopicPartition(topic.name, number))
        for index, marker in enumerate(markers)
        for topic in marker.topics
        for number in topic.partition_indexes
    )
    led = context.partitions.led({partition for _, partition in asked})

    @request.or_fail
    def answer(errors: Sequence[Exception | None]) -> None:
        codes = {
            place: ErrorCode.none if error is None else code_of(error)
            for place, error in zip(asked, errors, strict=True)
        }
        request.answer({"markers": [_marked(each, index, codes) for index, each in enumerate(markers)]})

    put = gathering(len(asked), answer)
    for at, (index, partition) in enumerate(asked):
        found, marker = led[partition], markers[index]
        refusal = _refusal(marker)
        if isinstance(found, Exception):
            put(at, found)
        elif refusal is not None:
            put(at, refusal)
        else:
            context.appender.change(found, partial(_write_marker, marker), partial(put, at))


def _refusal(marker: Any) -> RequestError | None:
    """Returns why a marker's producer is refused, if it is; on a broker this is an unknown server error."""
    if marker.producer_id < 0:
        return RequestError(ErrorCode.invalid_producer_id_mapping)
    return RequestError(ErrorCode.invalid_producer_epoch) if marker.producer_epoch < 0 else None


def _write_marker(marker: Any, log: Log) -> None:
    producer = Producer(marker.producer_id, marker.producer_epoch)
    known = log.producers.last_entry(producer.id)
    if is_of_driver(producer.id):
        is_open = known is not None and known.in_transaction and known.epoch == producer.epoch
        if marker.transaction_result or not is_open:
            raise RequestError(
                ErrorCode.invalid_producer_id_mapping,
                f"producer {producer.id} is a writer's of this log: a client can only abort its open transaction",
            )
    if known is not None and known.coordinator_epoch > marker.coordinator_epoch:
        raise TransactionCoordinatorFencedError(
            f"the coordinator's epoch is {known.coordinator_epoch}, not {marker.coordinator_epoch}"
        )
    log.end_transaction(producer, commit=marker.transaction_result, coordinator_epoch=marker.coordinator_epoch)


def _marked(marker: Any, index: int, codes: Mapping[tuple[int, TopicPartition], ErrorCode]) -> Mapping[str, Any]:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": number, "error_code": codes[index, TopicPartition(topic.name, number)]}
                for number in topic.partition_indexes
            ],
        }
        for topic in marker.topics
    ]
    return {"producer_id": marker.producer_id, "topics": topics}
