"""Finds records of a topic by key, value or header: a complete search, which names what it could not read.

``conditions`` choose records, ``bounds`` limit their offsets and times, and ``pieces`` divides a log into parts that
are read at once, so that it can also be read from its end. ``keys`` finds the partitions and segments that may have
given keys. ``partition_search`` searches one log, and ``search`` the partitions of a topic, also of logs that bring a
search of their own (``search.SearchedTopics``).
"""
