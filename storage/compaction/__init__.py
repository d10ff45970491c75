"""Compaction: keeps the newest record of each key (Kafka's LogCleaner).

A round reads the dirty part at the end of a log into a map from key to newest offset. Then it rewrites the log up to
the end of that part, one group of segments after the other, without the records that the map supersedes. Offsets and
order never change. The active segment, undecided transactions and records protected by ``min.compaction.lag.ms`` are
never touched.

:mod:`.dirty` finds the dirty part of a log and the dirtiest log, :mod:`.markers` the transaction markers that are still
needed, and :mod:`.superseded` the batches that need not be decoded again. :mod:`.filter` decides the fate of each
batch, :mod:`.rewriting` writes batches again with fewer records, :mod:`.output` has the new segments, and
:mod:`.rounds` runs the whole round. ``segment.swap`` replaces the old segments crash-safely.
"""
