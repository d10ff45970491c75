"""Prints a log's files exactly as ``kafka-dump-log`` does (``DumpLogSegments`` of Kafka 3.9.1).

:func:`dump_file` yields the lines of one file as lists, so that a large log is written in large pieces;
:class:`DumpFindings` collects inconsistencies for the end. Nothing is ever written or repaired: for a ``.timeindex``
without its ``.index``, Kafka's own tool creates one, while this one reports it as missing.
"""
