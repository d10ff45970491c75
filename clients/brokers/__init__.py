"""Requests to brokers on today's protocol: topics and their settings, whole record batches, transactions.

Kafka's clients take and return records; these requests move whole batches as stored in a partition's log. The protocol
itself is implemented by kafka-python, which the extra ``kafka`` installs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .admin import Admin as Admin, KafkaTopic as KafkaTopic
    from .cluster import Cluster as Cluster, Secret as Secret
    from .connections import Connections as Connections, ListedTopic as ListedTopic
    from .failing import Failing as Failing
    from .fetcher import Fetcher as Fetcher, FetchLimits as FetchLimits
    from .leader import (
        EARLIEST as EARLIEST,
        FETCH_BYTES as FETCH_BYTES,
        LATEST as LATEST,
        NO_EPOCH as NO_EPOCH,
        Fetched as Fetched,
        PartitionLeader as PartitionLeader,
    )
    from .transactions import TransactionalProducer as TransactionalProducer
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "admin": ["Admin", "KafkaTopic"],
            "cluster": ["Cluster", "Secret"],
            "connections": ["Connections", "ListedTopic"],
            "failing": ["Failing"],
            "fetcher": ["FetchLimits", "Fetcher"],
            "transactions": ["TransactionalProducer"],
            "leader": ["EARLIEST", "LATEST", "FETCH_BYTES", "Fetched", "NO_EPOCH", "PartitionLeader"],
        },
    )
