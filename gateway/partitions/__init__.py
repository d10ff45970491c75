"""The partitions that the gateway serves: their logs, appends and syncs, and what other processes append.

:class:`LedPartition` is one partition, and the interface of the two ends that use logs.

In a directory they are :class:`FilePartition`, :class:`Appender` and :class:`Follower`. The appender appends all
pending batches of a partition under one lock and passes them to syncers; the high watermark, up to which clients read,
is the end of the synced records. A log that cannot be opened for writing, because its last segment is damaged, is a
:class:`DamagedPartition`: what is sound is read, and nothing is appended. The follower finds what other processes
appended, and with :class:`LogStarts` what they deleted.

On an object store they are :class:`BucketPartition`, :class:`BucketAppender` and :class:`BucketFollower`. There the
high watermark is the end that commits say. :class:`Topics` lists the topics of either, and :class:`MessageFormats`
says in which format they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .appender import HELD_S as HELD_S, Appender as Appender
    from .appending import Append as Append, Appending as Appending
    from .bucket.appender import BucketAppender as BucketAppender
    from .bucket.follower import BucketFollower as BucketFollower
    from .bucket.partition import BucketPartition as BucketPartition, open_bucket_partition as open_bucket_partition
    from .file_partition import FilePartition as FilePartition
    from .file_reading import DamagedPartition as DamagedPartition
    from .follower import Follower as Follower, LogStarts as LogStarts
    from .formats import MessageFormats as MessageFormats
    from .led_partition import LedPartition as LedPartition, Slice as Slice
    from .open_partitions import (
        BeingDeletedError as BeingDeletedError,
        NotOpenError as NotOpenError,
        Partitions as Partitions,
        open_file_partition as open_file_partition,
    )
    from .syncer import Call as Call
    from .topics import TopicInfo as TopicInfo, Topics as Topics
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "appender": ["HELD_S", "Appender"],
            "appending": ["Append", "Appending"],
            "bucket.appender": ["BucketAppender"],
            "bucket.follower": ["BucketFollower"],
            "bucket.partition": ["BucketPartition", "open_bucket_partition"],
            "file_partition": ["FilePartition"],
            "file_reading": ["DamagedPartition"],
            "follower": ["Follower", "LogStarts"],
            "formats": ["MessageFormats"],
            "led_partition": ["LedPartition", "Slice"],
            "open_partitions": ["BeingDeletedError", "NotOpenError", "Partitions", "open_file_partition"],
            "syncer": ["Call"],
            "topics": ["TopicInfo", "Topics"],
        },
    )
