"""Producers, consumers and mirrors in the words of Kafka's design documents, over the wire or on a log directory.

They work against any broker, Kafka's own or ours. Of ``storage`` they use its public names alone (record sets, and
the log as a target without a broker), of ``registry`` the nodes of old clients. Each other name is imported from its
room.
"""
