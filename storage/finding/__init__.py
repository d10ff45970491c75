"""Finds records of a topic by key, value or header: a complete search, which names what it could not read.

``conditions`` says which records are wanted, ``bounds`` where they may be, and ``pieces`` divides a log into what is
read at once, so that it can be read from its end too. ``keys`` says where records with given keys may be.
``partition_search`` goes through one log, ``position_search`` through one of Kafka 0.7, and ``search`` through the
partitions of a topic.
"""
