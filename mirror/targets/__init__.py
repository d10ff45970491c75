"""What a producer.config names: ``port`` is the interface, the other modules are its ends.

These are a cluster on today's protocol, one of Kafka 0.8 to 0.10, and a log directory.
"""
