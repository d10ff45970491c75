"""Turns a log directory of Kafka 0.7 into one of today: each message a record, once, with a table of the positions.

Offers :func:`upgrade_partitions`, which can be killed and run again at any time, and :class:`PositionTable`, which
finds the new offset of an old position. ``forwarding`` has the messages that a broker of 0.7 sends.
"""
