"""Produce: checks each partition's batch, appends it, and answers when all are synced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...protocol.produce import Produced, ProducePartition, ProduceRequest, encode_produced, parse_produce
from ...storage import (
    INTERNAL_TOPICS,
    AppendInfo,
    CheckLimits,
    LongCheckError,
    Producer,
    RecordValidationError,
    TopicPartition,
    are_being_compiled,
    check_batch,
)
from ..context import Context
from ..partitions.appending import Append
from ..partitions.led_partition import LedPartition
from ..quotas.entities import PRODUCER_BYTE_RATE
from ..request import Request
from ..threads.answers import gathering
from ..threads.fair import FairTask
from ..transactions.gate import known_before
from ..turns.refusals import refused
from .access.guards import (
    check_transactional_id,
    may_use_transactional_id,
    may_write_internal_topics,
    refusal_to_write,
)
from .batches import check_batch_set, check_idempotent

ACKS = (-1, 0, 1)
QUICK_BYTES = 1 << 20  # a request's batches of up to this size are decompressed in the thread of its connection
NO_OFFSET = -1
_ABORTABLE = 11  # the first version of Produce that knows TRANSACTION_ABORTABLE


def produce(request: Request, context: Context) -> None:
    """Answers when every batch is synced or refused.

    With acks 0, sends no answer, and closes the connection on an error.
    """
    asked = parse_produce(request.exchange.frame, request.body_at, request.version, request.limits.entries_max)
    producing = _Producing(request, context, asked, _led(request, context, asked))
    if context.is_limited(request, PRODUCER_BYTE_RATE):
        request.exchange.hold_others()  # requests that have already arrived wait too, if this one exceeds the quota
    name = asked.transactional_id
    if name is None or context.transactions.gate.knows(name) or not may_use_transactional_id(request, context, name):
        producing.start()  # transactional batches with an id that the client may not use are refused there
    else:  # a producer that continues after a restart of the gateway
        request.exchange.hold_others()
        context.transactions.run(lambda coordinator: coordinator.load(name, producing.start_soon))


def _led(
    request: Request, context: Context, asked: ProduceRequest
) -> Mapping[TopicPartition, LedPartition | Exception]:
    """Returns each partition, or why nothing is written to it; opens none that the client may not write to."""
    refusals = {name: refusal_to_write(request, context, name) for name in {each.topic for each in asked.partitions}}
    wanted = {TopicPartition(each.topic, each.partition) for each in asked.partitions}
    denied = {each: error for each in wanted if (error := refusals[each.topic]) is not None}
    return {**context.partitions.led(wanted - denied.keys()), **denied}


class _Producing:
    """One Produce request in progress.

    The function that collects its answers refers to it, so it must not refer to that function: without a reference
    cycle, batches are freed at once.
    """

    def __init__(
        self,
        request: Request,
        context: Context,
        asked: ProduceRequest,
        led: Mapping[TopicPartition, LedPartition | Exception],
    ) -> None:
        self._request, self._context, self._asked, self._led = request, context, asked, led
        self._refused_by = ErrorCode.none
        self._decompressed = 0  # bytes of the batches so far

    def start_soon(self, refused_by: ErrorCode) -> None:
        """Calls :meth:`start` in the thread of the connection.

        ``refused_by``: the error for all transactional batches, if any.
        """
        self._refused_by = refused_by
        self._request.exchange.processor.call_soon(self.start)

    def start(self) -> None:
        """Checks the batches and passes them to the appender; in another thread if the checks take long."""
        if are_being_compiled() or len(self._asked.partitions) > self._request.limits.entries_here:
            self._request.exchange.hold_others()  # otherwise a later batch, checked here, could be appended first
            self._context.cold.submit(self._request.or_fail(_Producing._start), self)
        else:
            self._start(QUICK_BYTES)

    def _start(self, quick: int | None = None) -> None:
        answered: Callable[[int, Produced], None] = gathering(
            len(self._asked.partitions), self._request.or_fail(self._finish)
        )
        self._check_all(answered, 0, quick)

    def _check_all(self, answered: Callable[[int, Produced], None], first: int, quick: int | None) -> None:
        """Checks the batches from ``first`` on; the first that takes long and all after it in another thread."""
        for index, each in enumerate(self._asked.partitions[first:], first):
            try:
                job = self._checked(partial(answered, index), each, quick)
            except LongCheckError:
                self._check_aside(answered, index)
                return
            except Exception as error:
                answered(index, self._refused(each, error))
                error.__traceback__ = None  # with the traceback, an error in self._led would be part of a cycle
            else:
                self._decompressed += job.batch.size
                quick = None if quick is None else max(quick - job.batch.size, 0)
                self._context.appender.append(job)

    def _refused(self, each: ProducePartition, error: Exception) -> Produced:
        """Returns the answer for a batch that is not appended; if its records are the reason, with the log's start."""
        led = self._led[TopicPartition(each.topic, each.partition)]
        if isinstance(error, RecordValidationError) and isinstance(led, LedPartition):
            return refused(each.topic, each.partition, error, led)
        return refused(each.topic, each.partition, error)

    def _check_aside(self, answered: Callable[[int, Produced], None], first: int) -> None:
        """Has the thread for long checks check the batches from ``first`` on; the request then counts no longer."""
        exchange = self._request.exchange
        exchange.hold_others()
        exchange.park()

        def check(producing: _Producing) -> None:
            producing._check_all(answered, first, None)

        drop = partial(exchange.connection.send_away, "too many long checks of batches wait")
        self._context.workers.checks.run(
            exchange.connection, FairTask(partial(self._request.or_fail(check), self), drop)
        )

    def _checked(self, answered: Callable[[Produced], None], each: ProducePartition, quick: int | None) -> Append:
        """Checks a batch and returns its append. Raises the error for the client's answer."""
        led = self._led[TopicPartition(each.topic, each.partition)]
        if isinstance(led, Exception):
            raise led
        if self._asked.acks not in ACKS:
            raise RequestError(ErrorCode.invalid_required_acks)
        if each.topic in INTERNAL_TOPICS and not may_write_internal_topics(self._request, self._context):
            raise RequestError(ErrorCode.invalid_topic_exception, f"only coordinators may write to {each.topic}")
        records = memoryview(b"") if each.records is None else each.records
        check_batch_set(records, self._request.version)
        batch = check_batch(records, led.config, self._limits(quick))
        done = partial(self._on_appended, answered, each, led)
        soon = self._request.exchange.processor.call_soon
        if not batch.is_transactional:
            check_idempotent(batch.producer_id)
            return Append(led, batch, done, soon=soon)
        if self._asked.transactional_id is None:
            raise RequestError(
                ErrorCode.transactional_id_authorization_failed, "a transactional batch needs a transactional id"
            )
        check_transactional_id(self._request, self._context, self._asked.transactional_id)
        if self._refused_by:
            raise RequestError(self._refused_by)
        waits = self._context.transactions.gate.waits(self._asked.transactional_id)
        producer = Producer(batch.producer_id, batch.producer_epoch)
        check = partial(self._check_transaction, producer, led)
        return Append(led, batch, done, check, producer.id, None if waits else soon)

    def _limits(self, quick: int | None) -> CheckLimits:
        """Returns how much the next check may decompress. Raises RequestError if the request has reached its limit."""
        most = self._context.config.commitlog_produce_max_decompressed_bytes
        if self._decompressed >= most:
            raise RequestError(
                ErrorCode.record_list_too_large,
                f"the batches of the request decompress to more than {most} bytes "
                "(commitlog.produce.max.decompressed.bytes): send fewer at once",
            )
        return CheckLimits(quick, self._context.config.commitlog_rewritten_max_decompressed_bytes)

    def _check_transaction(self, producer: Producer, led: LedPartition) -> None:
        partition = TopicPartition(led.topic, led.partition)
        try:
            self._context.transactions.gate.check(self._asked.transactional_id, producer, partition)
        except RequestError as error:
            raise error if self._request.version >= _ABORTABLE else known_before(error) from None

    def _on_appended(
        self,
        answered: Callable[[Produced], None],
        each: ProducePartition,
        led: LedPartition,
        result: AppendInfo | Exception,
    ) -> None:
        if isinstance(result, Exception):
            answered(refused(each.topic, each.partition, result, led))
            return
        records = result.last_offset - result.first_offset + 1  # 0: an old message set without a whole message
        if not result.duplicate:
            self._context.figures.appended(each.topic, records, result.size)
        answered(
            Produced(
                each.topic,
                each.partition,
                base_offset=result.first_offset if records else NO_OFFSET,
                log_append_time_ms=result.log_append_time_ms,
                log_start_offset=led.log_start_offset,
            )
        )

    def _finish(self, answers: Sequence[Produced]) -> None:
        failed = sum(1 for each in answers if each.error)
        if failed:
            self._context.figures.failed(produces=failed)
        throttle_ms = self._context.throttled_ms(self._request, PRODUCER_BYTE_RATE, len(self._request.exchange.frame))
        if self._asked.acks != 0:
            self._request.answer_parts([encode_produced(answers, self._request.version, throttle_ms)])
        elif failed:
            self._request.close()  # the only way to tell the client
        else:
            self._request.answer_nothing()
