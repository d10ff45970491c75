"""Requests of administrators to brokers: ACLs, users, quotas, replicas, and the names of brokers' settings.

The answers are those of a single broker of Kafka 3.9.1.
"""
