"""Choosing partitions for rows: Kafka's rules, and classes that a user wrote."""
