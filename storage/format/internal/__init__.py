"""Records that Kafka itself writes: control records, and keys and values of the internal topics.

``message_schema`` decodes a message by Kafka's own schema; ``internal_topics`` identifies the kinds of records.
"""
