"""InitProducerId, and DescribeProducers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError, code_of, message_of
from ...storage import LogManager, LogStoreError, Producer, ProducerState, TopicPartition, idempotent_producer_id
from ..context import Context
from ..partitions.led_partition import LedPartition
from ..request import Request
from .metadata import is_legal
from .transactions.producers import NO_PRODUCER, init_transactions, initialised

_PRODUCER_BYTES = 41  # of an active producer in an answer


def init_producer_id(request: Request, context: Context) -> Mapping[str, Any] | None:
    """Answers with a new producer id, by which repeated batches of the producer are recognised."""
    body = request.body
    given = [getattr(body, each, NO_PRODUCER) for each in ("producer_id", "producer_epoch")]
    if given.count(NO_PRODUCER) == 1:  # half a producer
        return initialised(ErrorCode.invalid_request)
    if body.transactional_id is not None:
        init_transactions(request, context)
        return None

    def task(manager: LogManager) -> Mapping[str, Any]:
        try:
            return initialised(ErrorCode.none, Producer(idempotent_producer_id(context.producer_ids.next(manager)), 0))
        except (LogStoreError, OSError) as error:
            return initialised(code_of(error))

    context.workers.ids.answer(request, task)
    return None


def describe_producers(request: Request, context: Context) -> None:
    """Answers with the active producers of partitions; for a name that no topic may have, says so."""
    topics, now_ms = request.body.topics, context.clock.now_ms()
    led = context.partitions.led(
        {
            TopicPartition(each.name, number)
            for each in topics
            if is_legal(each.name)
            for number in each.partition_indexes
        }
    )

    def found(name: str, number: int) -> LedPartition | Exception:
        if (partition := TopicPartition(name, number)) in led:
            return led[partition]
        return RequestError(ErrorCode.invalid_topic_exception, "no topic can have this name")  # once a partition

    def answer(request: Request) -> None:
        described = [
            {
                "name": topic.name,
                "partitions": [
                    _producers(request, context, number, found(topic.name, number), now_ms)
                    for number in topic.partition_indexes
                ],
            }
            for topic in topics
        ]
        request.answer({"topics": described})

    context.when_free(request, led.values(), answer)


def _producers(
    request: Request, context: Context, number: int, led: LedPartition | Exception, now_ms: int
) -> Mapping[str, Any]:
    try:
        if isinstance(led, Exception):
            raise led
        active = led.producers(now_ms)
        request.reserve(_PRODUCER_BYTES * len(active))
        return {"partition_index": number, "error_message": None, "active_producers": _active(active)}
    except Exception as error:
        return {
            "partition_index": number,
            "error_code": context.code_of(error),
            "error_message": message_of(error),
            "active_producers": (),
        }


def _active(producers: Mapping[int, ProducerState]) -> list[Mapping[str, Any]]:
    return [
        {
            "producer_id": producer_id,
            "producer_epoch": state.epoch,
            "last_sequence": state.last_sequence,
            "last_timestamp": state.last_timestamp,
            "coordinator_epoch": state.coordinator_epoch,
            "current_txn_start_offset": state.current_txn_first_offset,
        }
        for producer_id, state in producers.items()
    ]
