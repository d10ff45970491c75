"""Reads a broker's topic settings, from its metadata log or from the output of Kafka's tools.

A broker's log directories do not contain the settings of its topics, but retention and compaction need them.
:func:`read_metadata_log` reads them if a KRaft broker keeps its metadata in the same directory;
:func:`parse_described` reads the output of ``kafka-configs --describe`` or ``kafka-topics --describe``.
"""
