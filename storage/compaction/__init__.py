"""Compaction: keeps the newest record of each key (Kafka's LogCleaner).

A round reads the dirty part at the end of a log into a map from key to newest offset. Then it rewrites the log up to
there, segment group by segment group, without the records that the map supersedes. Offsets and order never change. The
active segment, undecided transactions and records protected by ``min.compaction.lag.ms`` are never touched.

:mod:`.ranges` finds which part of a log is dirty and which log is the dirtiest, :mod:`.transactions` which markers are
still needed, :mod:`.superseded` which batches need not be decoded again. :mod:`.filtering` decides the fate of each
batch, :mod:`.output` writes the new segments, :mod:`.swapping` replaces the old ones crash-safely, and :mod:`.cleaning`
runs the whole round.
"""

from .dirty import Cleanable, cleanable, dirtiest_first, group_segments
from .rounds import Cleaner, CleanResult

__all__ = ["CleanResult", "Cleanable", "Cleaner", "cleanable", "dirtiest_first", "group_segments"]
