"""Compaction: keeps the newest record of each key (Kafka's LogCleaner).

A round reads the dirty part at the end of a log into a map from key to newest offset. Then it rewrites the log up to
the end of that part, one group of segments after the other, without the records that the map supersedes. Offsets and
order never change. The active segment, undecided transactions and records protected by ``min.compaction.lag.ms`` are
never touched.

:mod:`.dirty` finds which part of a log is dirty and which log is the dirtiest, :mod:`.markers` which transaction
markers are still needed, :mod:`.superseded` which batches need not be decoded again. :mod:`.filter` decides the fate of
each batch, :mod:`.output` writes the new segments, and :mod:`.rounds` runs the whole round. ``segment.swap`` replaces
the old segments crash-safely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .dirty import (
        Cleanable as Cleanable,
        cleanable as cleanable,
        dirtiest_first as dirtiest_first,
        group_segments as group_segments,
    )
    from .rounds import Cleaner as Cleaner, CleanResult as CleanResult
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "dirty": ["Cleanable", "cleanable", "dirtiest_first", "group_segments"],
            "rounds": ["CleanResult", "Cleaner"],
        },
    )
