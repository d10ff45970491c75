"""Writes of Kafka's clients through a gateway: their batches, and transactions."""
