"""Producer: one API for synchronous and asynchronous sending."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Self, cast

from ...registry.port import Registry
from ...storage import Clock, InvalidConfigError, SystemClock, create_by_name
from ..errors import QueueClosedError
from .async_producer import AsyncProducer
from .encoders import DefaultEncoder, Encoder, StringEncoder
from .figures import Counters, ProducerFigures
from .handlers import CallbackHandler, DefaultEventHandler, EventHandler, send_encoded
from .messages import ProducerData, QueueItem, items_of
from .partitioners import DefaultPartitioner, Murmur2Partitioner, Partitioner
from .settings import ProducerConfig, Wire
from .sync_producer import SyncProducer
from .targets.opening import open_target

_LOG = logging.getLogger(__name__)
_ENCODERS: Mapping[str, type] = {
    "kafka.serializer.DefaultEncoder": DefaultEncoder,
    "kafka.serializer.StringEncoder": StringEncoder,
}
_PARTITIONERS: Mapping[str, type] = {
    "kafka.producer.DefaultPartitioner": DefaultPartitioner,
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": Murmur2Partitioner,
}


class Producer:
    """Sends messages to topics, with the settings of Kafka's old producers. For several threads; a context manager.

    Asynchronous (``producer.type`` = async): ``send`` puts messages into a queue, and a background thread sends them
    in batches. A batch that cannot be sent is logged and counted in :attr:`figures`.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, object],
        *,
        encoder: Encoder | None = None,
        key_encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
        event_handler: EventHandler | None = None,
        callback_handler: CallbackHandler | None = None,
        registry: Registry | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``config``: settings by Kafka's names. The other objects replace the classes that it names.

        ``registry``: where brokers are registered, in place of the ZooKeeper of ``zk.connect``; the caller closes it.
        Raises InvalidConfigError for a wrong setting, and the target's errors if it cannot be opened.
        """
        config = config if isinstance(config, ProducerConfig) else ProducerConfig.from_mapping(config)
        if not config.is_async and (event_handler or callback_handler):
            raise InvalidConfigError("event handlers and callback handlers need producer.type = async")
        clock = clock or SystemClock()
        self._encoder = encoder or _encoder("serializer.class", config.serializer_class)
        key_encoder = key_encoder or _key_encoder(config, self._encoder)
        partitioner = _partitioner(config, partitioner)
        callbacks = callback_handler or _callback_handler(config)
        handler = event_handler or _event_handler(config, callbacks)
        handler.init(config.event_handler_pairs)
        if callbacks:
            callbacks.init(config.callback_handler_pairs)
        self._counters = Counters(clock)
        target = open_target(config, clock, registry, self._report_lost)
        self._sync = SyncProducer(
            config, target, self._counters, clock=clock, partitioner=partitioner, key_encoder=key_encoder
        )
        self._async = (
            AsyncProducer(
                config,
                self._sync,
                self._counters,
                clock=clock,
                encoder=self._encoder,
                event_handler=handler,
                callbacks=callbacks,
            )
            if config.is_async
            else None
        )
        self._closed = False

    def send(self, data: ProducerData | Sequence[ProducerData]) -> None:
        """Sends messages, or puts them into the queue, in their order.

        Synchronous: returns when they are sent, and synced if the target is a log directory. Raises the error if it is
        the only one and no message was sent, else NotSentError if some were not sent. Asynchronous: raises
        QueueFullError if there is no room in time. After :meth:`close`: QueueClosedError.
        """
        items = items_of(data) if isinstance(data, ProducerData) else [item for each in data for item in items_of(each)]
        if self._async:
            self._async.enqueue(items)
        else:
            self._send(items)

    def _send(self, items: Sequence[QueueItem]) -> None:
        if self._closed:
            raise QueueClosedError("the producer is closed")
        send_encoded(items, self._sync, self._encoder)

    @property
    def figures(self) -> ProducerFigures:
        """The producer's counters so far."""
        return self._async.figures if self._async else self._counters.figures()

    def close(self) -> None:
        """Sends all accepted messages, and closes connections and files. A second call does nothing.

        An error of a handler's ``close`` is raised at the end.
        """
        try:
            if self._async:
                self._async.close()
        finally:
            if not self._closed:
                self._closed = True
                self._sync.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _report_lost(self, count: int, error: Exception) -> None:
        self._counters.count_lost(count)
        _LOG.error("%d messages are lost: %s", count, error)


def _encoder(setting: str, name: str) -> Encoder:
    return cast(Encoder, _created(setting, name, _ENCODERS, "to_message"))


def _key_encoder(config: ProducerConfig, encoder: Encoder) -> Encoder:
    """Returns the encoder of keys. By default, text keys are encoded as UTF-8."""
    return _encoder("key.serializer.class", config.key_serializer_class) if config.key_serializer_class else encoder


def _partitioner(config: ProducerConfig, given: Partitioner | None) -> Partitioner | None:
    """Returns the partitioner for keys; None if the target chooses partitions."""
    if config.wire is Wire.BROKER_LIST:
        if given:
            raise InvalidConfigError("a partitioner needs zk.connect: with broker.list the broker chooses")
        return None
    if given or not config.partitioner_class:
        default = {Wire.LOG_DIRECTORY: Murmur2Partitioner(), Wire.BOOTSTRAP: None}
        return given or default.get(config.wire, DefaultPartitioner())
    return cast(Partitioner, _created("partitioner.class", config.partitioner_class, _PARTITIONERS, "partition"))


def _callback_handler(config: ProducerConfig) -> CallbackHandler | None:
    if not config.callback_handler:
        return None
    return cast(
        CallbackHandler, _created("callback.handler", config.callback_handler, {}, "after_dequeuing_existing_data")
    )


def _event_handler(config: ProducerConfig, callbacks: CallbackHandler | None) -> EventHandler:
    if not config.event_handler:
        return DefaultEventHandler(callbacks)
    return cast(EventHandler, _created("event.handler", config.event_handler, {}, "handle"))


def _created(setting: str, name: str, known: Mapping[str, type], method: str) -> object:
    """Creates an object of a class by Kafka's name, or of a user's class. Raises InvalidConfigError."""
    if name in known:
        return known[name]()
    where = f"{setting} = {name}"
    created = create_by_name(where, name, {}, example=next(iter(known), "mypackage.handlers:MyHandler"))
    if not callable(getattr(created, method, None)):
        raise InvalidConfigError(f"{where}: the class has no method {method}")
    return created
