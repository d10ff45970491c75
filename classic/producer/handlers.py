"""CallbackHandler and EventHandler: a program's own code in the queue's pipeline.

``callback.handler`` and ``event.handler`` name classes, which are created without arguments; then ``init`` is called
with ``callback.handler.props`` or ``event.handler.props``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from .encoders import DefaultEncoder, Encoder
from .lost import Lost
from .messages import Message, QueueItem


class CallbackHandler:
    """Base class of callback handlers.

    Its methods are called at the stages of the queue, in this order, and do nothing here. ``before_enqueue`` and
    ``after_enqueue`` run in the thread that sends, the others in the background thread.
    """

    def init(self, props: Mapping[str, str]) -> None:
        """Called once, before anything is sent."""

    def before_enqueue(self, item: QueueItem) -> QueueItem:
        """Returns the item that is put into the queue."""
        return item

    def after_enqueue(self, item: QueueItem, added: bool) -> None:
        """Called once the item is in the queue, or was dropped (``added`` is False)."""

    def after_dequeuing_existing_data(self, item: QueueItem | None) -> Sequence[QueueItem]:
        """Returns the items to add to the batch. ``item``: taken from the queue; None: ``queue.time`` is over."""
        return [] if item is None else [item]

    def before_sending_data(self, items: Sequence[QueueItem]) -> Sequence[QueueItem]:
        """Returns the items to send in place of a batch."""
        return items

    def last_batch_before_close(self) -> Sequence[QueueItem]:
        """Returns the items to add to the last batch. Called after :meth:`close`."""
        return []

    def close(self) -> None:
        """Called first when the producer is closed; the rest of the queue is sent afterwards."""


class Sender(Protocol):
    """The interface with which an event handler sends: the producer's SyncProducer."""

    def send(self, topic: str, partition: int | None, messages: Sequence[Message]) -> None: ...

    def multi_send(self, items: Sequence[QueueItem]) -> None: ...


class EventHandler(Protocol):
    """Encodes and sends the batches of an asynchronous producer, in its background thread."""

    def init(self, props: Mapping[str, str]) -> None:
        """Called once, before anything is sent."""
        ...

    def handle(self, events: Sequence[QueueItem], sync_producer: Sender, encoder: Encoder) -> None:
        """Sends a batch. An error is logged and counted, for all items or for those of a NotSentError."""
        ...

    def close(self) -> None:
        """Called after the last batch."""
        ...


class DefaultEventHandler:
    """Sends batches unless ``event.handler`` names another class."""

    def __init__(self, callbacks: CallbackHandler | None = None) -> None:
        self._callbacks = callbacks

    def init(self, props: Mapping[str, str]) -> None:
        """Does nothing."""

    def handle(self, events: Sequence[QueueItem], sync_producer: Sender, encoder: Encoder) -> None:
        """Encodes a batch, and sends the messages that can be encoded. Raises like :meth:`SyncProducer.multi_send`."""
        if self._callbacks:
            events = self._callbacks.before_sending_data(events)
        send_encoded(events, sync_producer, encoder)

    def close(self) -> None:
        """Does nothing."""


def send_encoded(items: Sequence[QueueItem], sender: Sender, encoder: Encoder) -> None:
    """Encodes messages, and sends those that can be encoded. Raises like :meth:`SyncProducer.multi_send`."""
    lost = Lost()
    encoded = _encoded(items, encoder, lost)
    if encoded:
        try:
            sender.multi_send(encoded)
        except Exception as error:
            lost.add_error(encoded, error)
    lost.raise_any(len(items))


def _encoded(items: Sequence[QueueItem], encoder: Encoder, lost: Lost) -> Sequence[QueueItem]:
    """Returns messages with encoded ``data``; those that the encoder refuses are added to ``lost``."""
    if type(encoder) is DefaultEncoder:
        return items  # a SyncProducer lets them through it
    encoded = []
    for item in items:
        try:
            encoded.append(item._replace(data=encoder.to_message(item.data)))
        except Exception as error:
            lost.add([item], error)
    return encoded
