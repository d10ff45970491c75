"""Requests of Kafka 0.8 to 0.10 whose answers differ from today's in more than fields."""
