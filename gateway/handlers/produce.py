"""Produce: checks each partition's batch, appends it, and answers when all are synced."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from threading import Lock

from ...storage import INTERNAL_TOPICS, AppendInfo, CheckedBatch, RecordValidationError, TopicPartition, check_batch
from ..context import Context
from ..partitions import Append, LedPartition
from ..protocol import (
    ErrorCode,
    Produced,
    ProducePartition,
    ProduceRequest,
    RequestError,
    code_of,
    encode_produced,
    message_of,
    parse_produce,
)
from ..request import Request
from .batches import BatchHead, check_batch_set

ACKS = (-1, 0, 1)
ADMIN_CLIENT = "__admin_client"  # may write to internal topics, as with a broker


def produce(request: Request, context: Context) -> None:
    """Answers when every partition's batch is synced or refused; with acks 0 not at all, and closes on an error."""
    asked = parse_produce(request.exchange.frame, request.body_at, request.version)
    wanted = {TopicPartition(each.topic, each.partition) for each in asked.partitions}
    _Producing(request, context, asked, context.partitions.led(wanted)).start()


class _Producing:
    """One Produce request in progress."""

    def __init__(
        self,
        request: Request,
        context: Context,
        asked: ProduceRequest,
        led: Mapping[TopicPartition, LedPartition | Exception],
    ) -> None:
        self._request, self._context, self._asked, self._led = request, context, asked, led
        self._answers: list[Produced | None] = [None] * len(asked.partitions)
        self._missing = len(asked.partitions)
        self._lock = Lock()

    def start(self) -> None:
        if not self._missing:
            self._finish()
        for index, each in enumerate(self._asked.partitions):
            try:
                led, batch = self._checked(each)
            except Exception as error:
                self._answered(index, refused(each, error))
            else:
                self._context.appender.append(Append(led, batch, partial(self._on_appended, index, each, led)))

    def _checked(self, each: ProducePartition) -> tuple[LedPartition, CheckedBatch]:
        """Returns the partition and the batch to append. Raises the error that the client is told."""
        if self._asked.acks not in ACKS:
            raise RequestError(ErrorCode.invalid_required_acks)
        led = self._led[TopicPartition(each.topic, each.partition)]
        if isinstance(led, Exception):
            raise led
        if each.topic in INTERNAL_TOPICS and self._request.client_id != ADMIN_CLIENT:
            raise RequestError(
                ErrorCode.invalid_topic_exception, f"records of {each.topic} are written by coordinators"
            )
        records = memoryview(b"") if each.records is None else each.records
        head = check_batch_set(records, self._request.version)
        if head is not None and head.is_transactional:
            self._check_transaction(head, led)
        return led, check_batch(records, led.config)

    def _check_transaction(self, head: BatchHead, led: LedPartition) -> None:
        gate = self._context.transactions
        gate.check(self._asked.transactional_id, head.producer_id, head.producer_epoch, led)

    def _on_appended(
        self, index: int, each: ProducePartition, led: LedPartition, result: AppendInfo | Exception
    ) -> None:
        if isinstance(result, Exception):
            self._answered(index, refused(each, result))
            return
        self._answered(
            index,
            Produced(
                each.topic,
                each.partition,
                base_offset=result.first_offset,
                log_append_time_ms=result.log_append_time_ms,
                log_start_offset=led.log_start_offset,
            ),
        )

    def _answered(self, index: int, answer: Produced) -> None:
        with self._lock:
            self._answers[index] = answer
            self._missing -= 1
            is_last = not self._missing
        if is_last:
            self._finish()

    def _finish(self) -> None:
        answers = [each for each in self._answers if each is not None]
        if self._asked.acks != 0:
            self._request.answer_parts([encode_produced(answers, self._request.version)])
        elif any(each.error for each in answers):
            self._request.exchange.close()  # the only way to tell the client
        else:
            self._request.answer_nothing()


def refused(each: ProducePartition, error: Exception) -> Produced:
    """Returns the answer for a batch that was refused."""
    record_errors = error.record_errors if isinstance(error, RecordValidationError) else ()
    return Produced(each.topic, each.partition, code_of(error), record_errors=record_errors, message=message_of(error))
