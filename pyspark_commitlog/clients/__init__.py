"""Producers and consumers of Kafka 0.7 and 0.8 by the names that 0.1.0 had; they are in ``classic`` now.

Programs that import them from here get the same objects.
"""
