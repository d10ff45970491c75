"""Requests to brokers on today's protocol: topics and their settings, whole record batches, transactions.

Kafka's clients take and return records; these requests move whole batches as stored in a partition's log. The protocol
itself is implemented by kafka-python, which the extra ``kafka`` installs.
"""
