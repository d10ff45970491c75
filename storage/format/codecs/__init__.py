"""The streams of Kafka's codecs: each module compresses to one stream, and decompresses one up to a limit.

``compression`` chooses among them. An invalid stream raises ``InvalidRecordError`` without a position (``refusals``).
"""
