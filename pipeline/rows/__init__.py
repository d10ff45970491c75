"""Rows of Spark as columns of records, and back: schemas, Arrow batches, and offsets in Spark's JSON."""
