"""The low-level consumer of Kafka's design documents, and message sets.

:class:`SimpleConsumer` sends single requests to one broker. It returns message sets: iterators that can also read a
file: :class:`PositionMessageSet` for Kafka 0.7, :class:`BatchMessageSet` for all later ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .batch_sets import BatchMessageSet as BatchMessageSet, RecordBatch as RecordBatch
    from .message_sets import MessageSet as MessageSet
    from .messages import Message as Message
    from .position_sets import PositionEntry as PositionEntry, PositionMessageSet as PositionMessageSet
    from .simple_consumer import (
        EARLIEST_TIME as EARLIEST_TIME,
        LATEST_TIME as LATEST_TIME,
        FetchRequest as FetchRequest,
        SimpleConsumer as SimpleConsumer,
        Storage as Storage,
        Wire as Wire,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "batch_sets": ["BatchMessageSet", "RecordBatch"],
            "message_sets": ["MessageSet"],
            "messages": ["Message"],
            "position_sets": ["PositionEntry", "PositionMessageSet"],
            "simple_consumer": ["EARLIEST_TIME", "FetchRequest", "LATEST_TIME", "SimpleConsumer", "Storage", "Wire"],
        },
    )
