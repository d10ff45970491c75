"""Producers, consumers and mirrors by the names of Kafka's design documents, over the wire or on a log directory.

They work against any broker, Kafka's own or ours. They use the public names of ``storage`` (record sets, and the log as
a target without a broker) and the ``registry`` (the nodes of old clients). ``producer``, ``consumer`` and ``streams``
list what users import.
"""
