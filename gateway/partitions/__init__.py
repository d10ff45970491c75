"""The partitions that the gateway serves: their logs, appends and syncs, and what other processes append.

:class:`LedPartition` is the only class that uses a ``Log``. :class:`Appender` appends all pending batches of a
partition under one lock and passes them to syncers. The high watermark, up to which clients read, is the end of the
synced records. :class:`Follower` finds what other processes appended, and with :class:`LogStarts` what they deleted.
:class:`Topics` lists the topics of the directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .appender import HELD_S as HELD_S, Append as Append, Appender as Appender
    from .follower import Follower as Follower
    from .led_partition import LedPartition as LedPartition, Slice as Slice
    from .log_starts import LogStarts as LogStarts
    from .open_partitions import (
        BeingDeletedError as BeingDeletedError,
        NotOpenError as NotOpenError,
        Partitions as Partitions,
    )
    from .topics import TopicInfo as TopicInfo, Topics as Topics
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "appender": ["HELD_S", "Append", "Appender"],
            "follower": ["Follower"],
            "led_partition": ["LedPartition", "Slice"],
            "log_starts": ["LogStarts"],
            "open_partitions": ["BeingDeletedError", "NotOpenError", "Partitions"],
            "topics": ["TopicInfo", "Topics"],
        },
    )
