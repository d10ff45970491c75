"""A connection to one broker, and the requests of Kafka 0.7 and of 0.8 and later on it.

:class:`Connection` sends frames and receives answers. :class:`PositionBroker` sends the requests of Kafka 0.7,
:class:`Broker` those of Kafka 0.8 and later; :mod:`calls` has typed functions for the frequent ones, and :mod:`finding`
finds brokers. The connection is their only state; :class:`Leaders` remembers which brokers lead partitions. These
connections have neither TLS nor logins.
"""
