"""Maintenance of a log directory: retention, compaction, index rebuild, recovery and verification of its logs.

:func:`select_partitions` chooses partitions; :func:`retain_partitions` and similar functions process them with a
:class:`Runner`, which may be a plain loop (:func:`in_this_process`), and return a :class:`PartitionOutcome` for each.
A problem with one partition is reported and does not affect the others.

:mod:`.flags` has the command-line flags, :mod:`.run` the options of a run, :mod:`.selecting` its partitions,
:mod:`.outcome` its results, :mod:`.partitions` the operations over all partitions. Single logs are processed by
:mod:`.retain`, :mod:`.compact`, :mod:`.rebuild`, :mod:`.recover` and :mod:`.verify`; :mod:`.abandoned_transactions` is
the first step of retention. :mod:`.describe` shows one partition, or all topics in short.
"""
