"""Kafka's commit log, native to Spark."""
