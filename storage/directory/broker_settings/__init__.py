"""A broker's topic settings, which its log directories do not contain: from its metadata log or from its tools.

Retention and compaction need them in a broker's directory. :func:`read_metadata_log` reads them if a KRaft broker keeps
its metadata in the same directory; :func:`parse_described` reads the output of ``kafka-configs --describe`` or
``kafka-topics --describe``.
"""
