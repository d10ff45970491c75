"""What mirrors and loads read: the partitions of a cluster of any generation, or of a log directory, in whole batches.

:func:`sources_of` takes the settings of a consumer and returns what opens a :class:`Source`: by today's protocol, or by
that of Kafka 0.8. :func:`all_sources_of` also knows brokers of Kafka 0.7, whose partitions are
:class:`BrokerPartition`, and directories.
"""
