"""What brokers do for administrators: ACLs, users, quotas; moving replicas and names of settings, which are not here.

The answers are those of a single broker of Kafka 3.9.1.
"""
