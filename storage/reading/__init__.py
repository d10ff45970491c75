"""Reading a partition without a lock: :class:`LogReader`, and what it is made of.

``fetch`` is the result of one read, ``aborted`` says which records a reader of committed records must not see,
``follower`` and ``watcher`` follow a log that grows, ``damaged`` reads what is sound in a damaged one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .damaged import salvaged_records as salvaged_records
    from .fetch import ALL_TIMES as ALL_TIMES, FetchData as FetchData, Timespan as Timespan
    from .follower import LogFollower as LogFollower
    from .reader import (
        Checkpoints as Checkpoints,
        Isolation as Isolation,
        KeptInMemory as KeptInMemory,
        LogReader as LogReader,
        Marks as Marks,
        SegmentDescription as SegmentDescription,
    )
    from .watcher import LogWatcher as LogWatcher
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "damaged": ["salvaged_records"],
            "fetch": ["ALL_TIMES", "FetchData", "Timespan"],
            "follower": ["LogFollower"],
            "reader": ["Checkpoints", "Isolation", "KeptInMemory", "LogReader", "Marks", "SegmentDescription"],
            "watcher": ["LogWatcher"],
        },
    )
