"""What Kafka itself writes as records: control records, and keys and values of the internal topics.

``message_schema`` decodes a message by Kafka's own schema; ``internal_topics`` says which record is which.
"""
