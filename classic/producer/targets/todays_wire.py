"""TodaysWireTarget: a cluster on today's wire. Connections, batches and retries are librdkafka's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message as Delivered, Producer

from ....storage import Clock, Codec, InvalidConfigError
from ...errors import BrokerError, BrokerUnreachableError, ClientError, NoBrokersForPartitionError
from ..messages import Message, Record
from ..settings import ProducerConfig
from .known import KnownPartitions
from .port import ANY, BrokerPartition, Failed, RecordSet

Report = Callable[[int, Exception], None]

_WAIT_S = 0.05  # for answers, before looking again
_ROOM_S = 0.002  # for room in librdkafka's queue
_LOG_LEVEL = 3  # errors
_JOINED = 10_000  # limit of messages in one request, for batches that wait for a slow broker; librdkafka's default
_UNDER_WAY = 5  # requests that may wait for an answer; the library needs as many queues, or it would idle
_HELD_BYTES = 64 << 20  # of messages that the library holds
_JOINING_MS = 1  # how long the library waits for the next batch
_LOG = logging.getLogger(__name__)


class TodaysWireTarget:
    """Puts records into librdkafka's queue, which sends them without delay, together with others in the queue."""

    def __init__(self, config: ProducerConfig, clock: Clock, report_lost: Report) -> None:
        self._config, self._report_lost = config, report_lost
        self._producers: dict[Codec, Producer] = {}
        self._known = KnownPartitions(clock, config.metadata_refresh_ms, self._read)
        self._producer(config.codec)  # to refuse wrong settings at once
        self._closed = threading.Event()
        self._listening: threading.Thread | None = None
        if config.is_async:  # a synchronous send reports its own failures
            self._listening = threading.Thread(target=self._hear_failures, name="commitlog producer's errors")
            self._listening.daemon = True
            self._listening.start()

    def _producer(self, codec: Codec) -> Producer:
        """Returns the producer for a codec: librdkafka compresses by producer, so ``compressed.topics`` needs two."""
        if codec not in self._producers:
            try:
                self._producers[codec] = Producer(_settings(self._config, codec))
            except KafkaException as error:
                raise InvalidConfigError(f"librdkafka refuses the settings: {error.args[0].str()}") from error
        return self._producers[codec]

    @property
    def places_keys(self) -> bool:
        return True

    @property
    def has_keys(self) -> bool:
        return True

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        return self._known.of(topic)

    def _read(self, topic: str) -> list[BrokerPartition]:
        timeout_s = (self._config.socket_timeout_ms or 0) / 1000
        try:
            described = self._producer(self._config.codec).list_topics(topic, timeout_s).topics[topic]
        except KafkaException as error:
            raise _error(self._config.bootstrap_servers, error.args[0]) from error
        if described.error is not None or not described.partitions:
            raise NoBrokersForPartitionError(f"topic {topic} has no partitions: {described.error}")
        return [BrokerPartition(ANY, each) for each in sorted(described.partitions)]

    def send(self, sets: Sequence[RecordSet], *, wait: bool) -> list[Failed]:
        """Sends sets; without ``wait``, failures are reported later, one per message."""
        errors: dict[int, Exception] = {}
        for number, each in enumerate(sets):
            failed = partial(_note, errors, number) if wait else self._failed
            try:
                _hand_over(self._producer(each.codec), each, failed)
            except KafkaException as error:
                errors[number] = _error(f"topic {each.topic}", error.args[0])
            except Exception as error:  # a field of a wrong type; earlier sets are on their way
                errors[number] = error
        if wait:
            self._flush()
        return [Failed(number, error) for number, error in sorted(errors.items())]

    def _flush(self) -> None:
        for producer in self._producers.values():
            while producer.flush(_WAIT_S):
                pass

    def _failed(self, error: KafkaError | None, message: Delivered) -> None:
        self._report_lost(1, _error(f"topic {message.topic()}", error))

    def _hear_failures(self) -> None:
        while not self._closed.is_set():
            for producer in [*self._producers.values()]:
                producer.poll(_WAIT_S)

    def refresh(self, topic: str) -> None:
        self._known.forget(topic)

    def close(self) -> None:
        self._flush()
        self._closed.set()
        if self._listening:
            self._listening.join()
        for producer in self._producers.values():
            producer.close()


Note = Callable[[KafkaError | None, Delivered], None]


def _note(errors: dict[int, Exception], number: int, error: KafkaError | None, message: Delivered) -> None:
    errors[number] = _error(f"topic {message.topic()}", error)


def _settings(config: ProducerConfig, codec: Codec) -> dict[str, Any]:
    """Returns the settings of librdkafka. A message's time limit covers all its tries."""
    tries = 1 + (config.num_retries or 0)
    timeout_ms = config.socket_timeout_ms or 0
    settings = {
        "bootstrap.servers": config.bootstrap_servers,
        "client.id": config.client_id or "commitlog-producer",
        "acks": config.required_acks,
        "enable.idempotence": config.required_acks == -1 and tries > 1,
        "message.send.max.retries": tries - 1,
        "retry.backoff.ms": max(1, config.retry_backoff_ms),
        "request.timeout.ms": timeout_ms,
        "message.timeout.ms": tries * (timeout_ms + config.retry_backoff_ms),
        "socket.connection.setup.timeout.ms": max(1000, config.connect_timeout_ms),
        "socket.send.buffer.bytes": config.buffer_size,
        "topic.metadata.refresh.interval.ms": config.metadata_refresh_ms,
        "message.max.bytes": max(1000, config.max_message_size + 1024),
        "queue.buffering.max.messages": min(_UNDER_WAY * max(config.queue_size, config.batch_size), 2**31 - 1),
        "queue.buffering.max.kbytes": max(_HELD_BYTES, 2 * config.max_message_size) >> 10,
        "batch.num.messages": max(config.batch_size, _JOINED),
        "linger.ms": _JOINING_MS if config.is_async else 0,
        "compression.type": codec.name.lower(),
        "partitioner": "murmur2_random",  # as Java's
        "delivery.report.only.error": True,
        "log_level": _LOG_LEVEL,
        "logger": _LOG,
    }
    return settings | dict(config.passed_on)


def _hand_over(producer: Producer, records: RecordSet, failed: Note) -> None:
    """Puts records into librdkafka's queue, in their order; waits for room."""
    rows: list[dict[str, Any]]
    if {type(each) for each in records.records} == {bytes}:
        rows = [{"value": each} for each in records.records]
    elif any(isinstance(each, Record) and (each.headers or each.timestamp_ms is not None) for each in records.records):
        for each in records.records:  # a batch takes neither
            _hand_over_one(producer, records, each, failed)
        return
    else:
        rows = [_row(each) for each in records.records]
    while True:
        accepted = producer.produce_batch(records.topic, rows, records.place.partition, on_delivery=failed)
        if accepted == len(rows):
            return
        rows = rows[accepted:]  # after the first record without room, there was no room for any
        refused = rows[0].pop("_error")
        if refused.code() != KafkaError._QUEUE_FULL:
            raise KafkaException(refused)
        producer.poll(_ROOM_S)


def _row(message: Message) -> dict[str, Any]:
    return {"value": message.value, "key": message.key} if isinstance(message, Record) else {"value": message}


def _hand_over_one(producer: Producer, records: RecordSet, message: Message, failed: Note) -> None:
    record = message if isinstance(message, Record) else Record(message)
    while True:
        try:
            producer.produce(
                records.topic,
                record.value,
                record.key,
                partition=records.place.partition,
                on_delivery=failed,
                timestamp=record.timestamp_ms or 0,
                headers=list(record.headers) or None,
            )
            return
        except BufferError:
            producer.poll(_ROOM_S)


def _error(what: str, error: KafkaError | None) -> ClientError:
    assert error is not None  # delivery reports of successes are switched off
    if error.code() < 0:  # the library's own: the broker said nothing
        return BrokerUnreachableError(f"{what}: {error.str()}")
    return BrokerError(what, error.code(), error.name())
