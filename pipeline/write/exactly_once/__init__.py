"""What a query has committed: its progress in the log, beside Spark's checkpoint, and in the running driver."""
