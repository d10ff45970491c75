"""Consumer groups: committed offsets, members, lag.

:class:`CompactedValues` keeps the current value per key of a compacted partition; ``offsets`` reads and commits
offsets in ``__consumer_offsets``; ``coordinated`` has the records that a coordinator of groups reads and writes there,
and ``bucket_groups`` those on an object store (``coordinator_port`` is their interface);
``in_use`` keeps coordinators and commands apart; ``lag`` compares offsets with the logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .appending import SyncThreads as SyncThreads, append_entries as append_entries
    from .bucket_groups import BucketGroups as BucketGroups
    from .coordinated import CoordinatedGroups as CoordinatedGroups
    from .coordinator_logs import CoordinatorLogs as CoordinatorLogs
    from .coordinator_port import (
        GroupChange as GroupChange,
        GroupFence as GroupFence,
        GroupRecords as GroupRecords,
        TransactionalOffsets as TransactionalOffsets,
    )
    from .in_use import GroupsInUse as GroupsInUse
    from .lag import (
        GroupLags as GroupLags,
        LogFigures as LogFigures,
        LogLooks as LogLooks,
        PartitionLag as PartitionLag,
        ShareLag as ShareLag,
        lag_ms as lag_ms,
        log_figures as log_figures,
    )
    from .offsets import (
        CommittedOffset as CommittedOffset,
        GroupKey as GroupKey,
        GroupOffsets as GroupOffsets,
        GroupValue as GroupValue,
        commit_batches as commit_batches,
    )
    from .states import GroupDescription as GroupDescription, GroupMember as GroupMember
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "appending": ["SyncThreads", "append_entries"],
            "bucket_groups": ["BucketGroups"],
            "coordinated": ["CoordinatedGroups"],
            "coordinator_logs": ["CoordinatorLogs"],
            "coordinator_port": ["GroupChange", "GroupFence", "GroupRecords", "TransactionalOffsets"],
            "in_use": ["GroupsInUse"],
            "lag": ["GroupLags", "LogFigures", "LogLooks", "PartitionLag", "ShareLag", "lag_ms", "log_figures"],
            "offsets": [
                "CommittedOffset",
                "GroupKey",
                "GroupOffsets",
                "GroupValue",
                "commit_batches",
            ],
            "states": ["GroupDescription", "GroupMember"],
        },
    )
