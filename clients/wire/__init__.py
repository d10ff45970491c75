"""A connection to one broker, and the requests of Kafka 0.7 and of 0.8 and later on it.

:class:`Connection` sends frames and receives answers. :class:`PositionBroker` sends the requests of Kafka 0.7,
:class:`Broker` those of Kafka 0.8 and later; :mod:`calls` has typed functions for the frequent ones, and :mod:`finding`
finds brokers. The connection is their only state. These connections have neither TLS nor logins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .broker import Broker as Broker
    from .calls import (
        Cluster as Cluster,
        Fetched as Fetched,
        FetchFrom as FetchFrom,
        Leader as Leader,
        Produced as Produced,
        check as check,
        cluster as cluster,
        commit as commit,
        committed as committed,
        coordinator as coordinator,
        error_of as error_of,
        fetch as fetch,
        offset_at as offset_at,
        offsets_before as offsets_before,
        produce as produce,
    )
    from .connection import Address as Address, Connection as Connection, Terms as Terms
    from .finding import addresses as addresses, first_answer as first_answer
    from .kafka_0_7 import PositionBroker as PositionBroker, PositionSet as PositionSet
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "broker": ["Broker"],
            "calls": [
                "Cluster",
                "FetchFrom",
                "Fetched",
                "Leader",
                "Produced",
                "check",
                "cluster",
                "commit",
                "committed",
                "coordinator",
                "error_of",
                "fetch",
                "offset_at",
                "offsets_before",
                "produce",
            ],
            "connection": ["Address", "Connection", "Terms"],
            "finding": ["addresses", "first_answer"],
            "kafka_0_7": ["PositionBroker", "PositionSet"],
        },
    )
