"""Requests about groups: from their members, for committed offsets, and from administrators.

Each function answers one kind of request; all of them run in the coordinator's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .admin import (
        delete_groups as delete_groups,
        delete_offsets as delete_offsets,
        describe_groups as describe_groups,
        list_groups as list_groups,
    )
    from .asking import by_topic as by_topic
    from .committed import (
        asked_offsets as asked_offsets,
        commit_offsets as commit_offsets,
        fetch_offsets as fetch_offsets,
    )
    from .members import (
        consumer_group_heartbeat as consumer_group_heartbeat,
        heartbeat as heartbeat,
        join_group as join_group,
        leave_group as leave_group,
        sync_group as sync_group,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "admin": ["delete_groups", "delete_offsets", "describe_groups", "list_groups"],
            "asking": ["by_topic"],
            "committed": ["asked_offsets", "commit_offsets", "fetch_offsets"],
            "members": ["consumer_group_heartbeat", "heartbeat", "join_group", "leave_group", "sync_group"],
        },
    )
