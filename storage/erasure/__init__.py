"""Erasure: chosen records are removed from logs, and a certificate states it.

:mod:`.keys` has the requested keys, :mod:`.choosing` the records that a condition chooses, :mod:`.one_log` erases from
one log, :mod:`.in_tier` knows the copies of that log in a tier, :mod:`.search` reads the log again and searches it for
the erased records, :mod:`.certificate` is the file that states the result, and :mod:`.operation` does all of that for
many partitions. Compaction writes the batches, and ``segment.swap`` replaces the segments.
"""
