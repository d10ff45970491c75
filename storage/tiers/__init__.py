"""Tiers: closed segments outside a log's directory, as in Kafka's tiered storage (KIP-405).

``opening`` opens one, in the layout of Kafka's ``LocalTieredStorage`` or of Aiven's plugin, in a directory or on an
object store; ``port`` is the interface to both. ``files/`` shows one as a log directory. ``metadata_records`` are the
records of ``__remote_log_metadata``, in which brokers keep what a tier holds.
"""
