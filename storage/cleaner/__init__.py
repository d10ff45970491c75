"""Compaction: of each key the newest record stays (Kafka's LogCleaner; spec 12).

A round reads the dirty part of a log, its end, into a map of key to newest offset, then writes the log up to there
anew, segment group by segment group, without the records that the map supersedes. Offsets and order never change; the
active segment, undecided transactions and what ``min.compaction.lag.ms`` protects are never touched.

:mod:`.ranges` says what of a log is dirty and which log is the dirtiest, :mod:`.transactions` which markers are still
needed, :mod:`.superseded` which batches need no second look, :mod:`.filtering` what becomes of each batch,
:mod:`.output` where it goes, :mod:`.swapping` how new segments take the place of old ones, whatever happens meanwhile,
and :mod:`.cleaning` puts it together.
"""

from pyspark_commitlog.storage.cleaner.cleaning import Cleaner, CleanResult
from pyspark_commitlog.storage.cleaner.ranges import Cleanable, cleanable, dirtiest_first, group_segments

__all__ = ["CleanResult", "Cleanable", "Cleaner", "cleanable", "dirtiest_first", "group_segments"]
