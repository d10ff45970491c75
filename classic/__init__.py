"""Producers and consumers of Kafka 0.7 and 0.8, by the names of their design documents.

They work against any broker, Kafka's own or ours, and on a log directory. They use the public names of ``storage``
(record sets, and the log as a target without a broker) and the ``registry`` (the nodes of old clients). ``producer``,
``consumer`` and ``streams`` list what users import.
"""
