"""Producer: Kafka's old producers: sends messages at once or through a queue, to any Kafka or a log directory.

The settings have the names of Kafka 0.7 and 0.8. ``targets/`` are the destinations. Imports ``wire`` for old brokers,
``registry`` to find them, and ``storage``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .encoders import (
        DefaultEncoder as DefaultEncoder,
        Encoder as Encoder,
        StringEncoder as StringEncoder,
    )
    from .figures import ProducerFigures as ProducerFigures
    from .handlers import CallbackHandler as CallbackHandler, EventHandler as EventHandler, Sender as Sender
    from .messages import Message as Message, ProducerData as ProducerData, QueueItem as QueueItem, Record as Record
    from .partitioners import (
        DefaultPartitioner as DefaultPartitioner,
        Murmur2Partitioner as Murmur2Partitioner,
        Partitioner as Partitioner,
        java_hash as java_hash,
    )
    from .producer import Producer as Producer
    from .settings import ProducerConfig as ProducerConfig
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "encoders": ["DefaultEncoder", "Encoder", "StringEncoder"],
            "figures": ["ProducerFigures"],
            "handlers": ["CallbackHandler", "EventHandler", "Sender"],
            "messages": ["Message", "ProducerData", "QueueItem", "Record"],
            "partitioners": ["DefaultPartitioner", "Murmur2Partitioner", "Partitioner", "java_hash"],
            "producer": ["Producer"],
            "settings": ["ProducerConfig"],
        },
    )
