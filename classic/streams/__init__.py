"""The high-level consumer: streams of messages from a whole cluster, shared with a group.

:class:`ConsumerConnector` makes :class:`KafkaStream`, blocking iterators. There are two implementations. ``old_wires``
uses the wires of 0.7 and 0.8 and groups in ZooKeeper, with threads that fetch (``fetchers``) and offsets in ZooKeeper
or at a coordinator (``offset_stores``). ``todays_wire`` uses the group protocol of brokers, by confluent-kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .config import ConsumerConfig as ConsumerConfig
    from .connector import ConsumerConnector as ConsumerConnector
    from .kafka_stream import KafkaStream as KafkaStream, MessageAndMetadata as MessageAndMetadata
    from .offset_stores import (
        DualOffsets as DualOffsets,
        KafkaOffsets as KafkaOffsets,
        OffsetStore as OffsetStore,
        ZooKeeperOffsets as ZooKeeperOffsets,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "config": ["ConsumerConfig"],
            "connector": ["ConsumerConnector"],
            "kafka_stream": ["KafkaStream", "MessageAndMetadata"],
            "offset_stores": ["DualOffsets", "KafkaOffsets", "OffsetStore", "ZooKeeperOffsets"],
        },
    )
