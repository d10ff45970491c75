"""Rows of Spark as columns of records, and back: schemas, Arrow tables, and offsets as Spark writes them in JSON."""
