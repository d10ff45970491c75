"""Groups of consumers: members, generations, assignments and committed offsets, by Kafka's classic protocol.

:class:`GroupCoordinator` answers; it runs in one thread and knows no sockets. ``membership`` answers the requests of
members, ``rebalancing`` leads from one generation to the next, ``group`` and ``member`` hold the state. ``offsets``
commits, fetches and deletes offsets, ``expiry`` finds those that have expired, ``reservations`` has the ids that
clients have not joined with yet, ``store`` reads and writes in a thread of its own, and ``threads`` starts both
threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .coordinator import (
        DescribedGroup as DescribedGroup,
        DescribedMember as DescribedMember,
        GroupCoordinator as GroupCoordinator,
        ListedGroup as ListedGroup,
    )
    from .member import JoinResult as JoinResult, SyncResult as SyncResult
    from .membership import Join as Join, Leaving as Leaving, Sync as Sync
    from .offsets import Commit as Commit, Fetched as Fetched
    from .store import GroupStore as GroupStore
    from .threads import GroupThreads as GroupThreads
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "coordinator": ["DescribedGroup", "DescribedMember", "GroupCoordinator", "ListedGroup"],
            "member": ["JoinResult", "SyncResult"],
            "membership": ["Join", "Leaving", "Sync"],
            "offsets": ["Commit", "Fetched"],
            "store": ["GroupStore"],
            "threads": ["GroupThreads"],
        },
    )
