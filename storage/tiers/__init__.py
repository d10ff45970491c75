"""Tiers: closed segments outside of a log's directory, as Kafka keeps them (KIP-405).

:func:`open_tier` opens one, in the layout of Kafka's ``LocalTieredStorage`` or of Aiven's plugin, in a directory or on
an object store; :class:`Tier` is the port to both. :func:`open_tiered_files` shows one as a log directory.
:mod:`.metadata_records` are the records of ``__remote_log_metadata``, in which brokers keep what a tier holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .address import (
        TierAddress as TierAddress,
        is_tier_address as is_tier_address,
        parse_tier_address as parse_tier_address,
        tier_address as tier_address,
    )
    from .files.filesystem import TieredFiles as TieredFiles, open_tiered_files as open_tiered_files
    from .files.pinned import PinnedTier as PinnedTier
    from .metadata_records import (
        PARTITIONS as PARTITIONS,
        PartitionDeletion as PartitionDeletion,
        RemoteRecord as RemoteRecord,
        SegmentEpoch as SegmentEpoch,
        SegmentMetadata as SegmentMetadata,
        SegmentState as SegmentState,
        SegmentUpdate as SegmentUpdate,
        TopicIdPartition as TopicIdPartition,
        parse_remote_record as parse_remote_record,
        remote_records as remote_records,
        segments_of as segments_of,
    )
    from .objects import DirectoryObjects as DirectoryObjects, open_objects as open_objects
    from .opening import open_tier as open_tier
    from .port import Tier as Tier, TierSegment as TierSegment, TierSegments as TierSegments
    from .writing import delete_segment as delete_segment, put_segment as put_segment
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "address": ["TierAddress", "is_tier_address", "parse_tier_address", "tier_address"],
            "files.filesystem": ["TieredFiles", "open_tiered_files"],
            "files.pinned": ["PinnedTier"],
            "metadata_records": [
                "PARTITIONS",
                "PartitionDeletion",
                "RemoteRecord",
                "SegmentEpoch",
                "SegmentMetadata",
                "SegmentState",
                "SegmentUpdate",
                "TopicIdPartition",
                "parse_remote_record",
                "remote_records",
                "segments_of",
            ],
            "objects": ["DirectoryObjects", "open_objects"],
            "opening": ["open_tier"],
            "port": ["Tier", "TierSegment", "TierSegments"],
            "writing": ["delete_segment", "put_segment"],
        },
    )
