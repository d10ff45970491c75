"""Reading a partition without a lock: :class:`LogReader`, and what it is made of.

``view`` is a log as it was when it was opened, ``marks`` its checkpoint entries, ``fetch`` the result of one read,
``slices`` where the batches are for a server that only sends them.
``aborted`` finds the records that readers of committed records must not see. ``follower`` and ``watcher`` follow a log
that grows; ``damaged`` reads the undamaged records of a damaged log, and ``skipped`` finds
what such a read leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .aborted import Isolation as Isolation
    from .damaged import salvaged_records as salvaged_records
    from .fetch import ALL_TIMES as ALL_TIMES, FetchData as FetchData, Timespan as Timespan
    from .follower import LogFollower as LogFollower
    from .marks import (
        UNFINISHED_COPY as UNFINISHED_COPY,
        Checkpoints as Checkpoints,
        KeptInMemory as KeptInMemory,
        Marks as Marks,
        remote_text as remote_text,
    )
    from .reader import LogReader as LogReader
    from .skipped import Skipped as Skipped, skipped_parts as skipped_parts
    from .slices import FileSlice as FileSlice
    from .view import SegmentDescription as SegmentDescription
    from .watcher import LogWatcher as LogWatcher
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "aborted": ["Isolation"],
            "damaged": ["salvaged_records"],
            "fetch": ["ALL_TIMES", "FetchData", "Timespan"],
            "follower": ["LogFollower"],
            "marks": ["UNFINISHED_COPY", "Checkpoints", "KeptInMemory", "Marks", "remote_text"],
            "reader": ["LogReader"],
            "skipped": ["Skipped", "skipped_parts"],
            "slices": ["FileSlice"],
            "view": ["SegmentDescription"],
            "watcher": ["LogWatcher"],
        },
    )
