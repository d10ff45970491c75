"""Spark's schemas, columns of values by a serde, Arrow batches in messages, and offsets in Spark's JSON."""
