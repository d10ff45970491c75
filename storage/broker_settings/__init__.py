"""A broker's topic settings, which its log directories do not contain: from its metadata log or from its tools.

Retention and compaction need them in a broker's directory. :func:`read_metadata_log` reads them if a KRaft broker keeps
its metadata in the same directory; :func:`parse_described` reads the output of ``kafka-configs --describe`` or
``kafka-topics --describe``.
"""

from pyspark_commitlog.storage.broker_settings.described import parse_described
from pyspark_commitlog.storage.broker_settings.found import FoundSettings, TopicSettings
from pyspark_commitlog.storage.broker_settings.metadata_log import read_metadata_log

__all__ = ["FoundSettings", "TopicSettings", "parse_described", "read_metadata_log"]
