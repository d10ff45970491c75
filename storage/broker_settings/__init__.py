"""A broker's settings of topics, which its log directories do not hold: from its metadata log, or from its tools.

Retention and compaction need them in a directory that a broker left. :func:`read_metadata_log` finds them where a KRaft
broker keeps its metadata in the same directory, :func:`parse_described` in what ``kafka-configs --describe`` or
``kafka-topics --describe`` prints.
"""

from pyspark_commitlog.storage.broker_settings.described import parse_described
from pyspark_commitlog.storage.broker_settings.found import FoundSettings, TopicSettings
from pyspark_commitlog.storage.broker_settings.metadata_log import read_metadata_log

__all__ = ["FoundSettings", "TopicSettings", "parse_described", "read_metadata_log"]
